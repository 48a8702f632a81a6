"""Operations of the dialect, and their text.

directives   parts of pretty forms: reductions, lists of numbers and values
shard        the shard dialect
other_dialects  arith, linalg, scf, tosa, stablehlo
calls        our own operations as calls of declared functions
encodings    shardings in types
older        operations in older forms of the dialect
renewed      their operations of today
renewed_tosa  older forms of tosa in the form of today
context      all dialects that are read, and older names
grid_shapes  sizes of grids that a text leaves open
positions    positions in a text, and errors that name them
scan         strings, numbers and brackets of a text before it is parsed
reader       from text to a module
printer      from a module to text
"""
