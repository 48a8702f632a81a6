"""Plans of operations in loops that numba compiles."""
