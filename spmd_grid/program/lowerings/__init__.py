"""Operations that are more than one computation on blocks: which cells each device takes, and what moves between.

selections      slices, and assignments to slices
concatenation   arrays put one after the other
reshapes        the cells in row-major order, in another shape
scans           running sums and their like
fresh           new arrays, which are written to before they are read
eager           functions that arrays compute by communication of their own
"""
