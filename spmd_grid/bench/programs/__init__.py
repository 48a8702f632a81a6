"""bench programs: traced functions on the grid, against the same by hand and by other libraries, and planning."""
