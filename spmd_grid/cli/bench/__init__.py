"""python -m spmd_grid bench: measure this package, hand-written mpi4py and other libraries."""
