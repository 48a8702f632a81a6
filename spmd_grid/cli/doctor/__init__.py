"""python -m spmd_grid doctor: whether programs run here, and how fast."""
