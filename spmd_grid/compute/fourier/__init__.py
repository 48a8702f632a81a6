"""Fourier transforms of sharded arrays of any layout.

choose      the steps of a transform: dimensions that are whole are transformed, others are made whole, by fewest bytes
shardings   the shardings on the way
rows        a transform along a dimension that stays cut, in four steps
row_plan    the layouts of these
course      the steps as they run on one process
functions   np.fft's functions, and those of `spmd_grid.fft`
"""
