"""Random sharded arrays whose bits depend on the seed and the global index alone, not on the grid or the sharding."""

from spmd_grid.random.generator import Generator

__all__ = ["Generator"]
