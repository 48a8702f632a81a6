"""Sharded arrays: a global array of which every process holds its shard, and the functions that make one."""

from spmd_grid.array.constructors import empty, from_function, from_global, from_local, full, zeros
from spmd_grid.array.sharded_array import ShardedArray

__all__ = ["ShardedArray", "empty", "from_function", "from_global", "from_local", "full", "zeros"]
