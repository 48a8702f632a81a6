"""Results that are written to ``out``: what an ``out`` must be, and the writing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.compute.splits import ArrayOnGrid, block_starts, is_sharded, plain_sharding
from spmd_grid.compute.views import refuse_read_only
from spmd_grid.errors import OutputError
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding

__all__ = ["check_sharded_out", "check_out_dtype", "write_out"]


def check_sharded_out(name: str, target: Any, layout: Layout, grid: ProcessGrid) -> None:
    """Refuses an ``out`` that is not an array of the result's layout.  Local.  Raises GridError and OutputError."""
    if not is_sharded(target):
        raise OutputError(f"{name}: out is {type(target).__name__}; it must be a ShardedArray, as the result is")
    grid.check_same_program(target.grid, name)
    if target.shape != layout.global_shape:
        raise OutputError(f"{name}: out has shape {target.shape}; the result has shape {layout.global_shape}")
    if target.grid.grid != grid.grid or not _same_cuts(target.sharding, layout.sharding, layout.global_shape):
        raise OutputError(f"{name}: out has sharding {target.sharding}; the result has {layout.sharding}")
    refuse_read_only(f"{name}: out", target)


def check_out_dtype(name: str, target: ArrayOnGrid, dtype: np.dtype) -> None:
    """Refuses an ``out`` to whose dtype results are not cast without loss of kind.  Local.  Raises OutputError."""
    if not np.can_cast(dtype, target.dtype, "same_kind"):
        raise OutputError(f"{name}: out has dtype {target.dtype}; the result of dtype {dtype} is not cast to it")


def write_out(results: Sequence[Any], out: Sequence[ArrayOnGrid]) -> Any:
    """``out`` with the local cells of the results.  Local."""
    for array, target in zip(results, out):
        target.core_to_write()[...] = array
        target.mark_dirty()
    return out[0] if len(out) == 1 else tuple(out)


def _same_cuts(a: Sharding, b: Sharding, shape: tuple[int, ...]) -> bool:
    """Whether two shardings of one grid give every device the same core of an array of ``shape``."""
    a, b = plain_sharding(a) if not a.partial_axes else a, plain_sharding(b)
    if a == b:
        return True
    return (
        not a.partial_axes
        and a.split_axes == b.split_axes
        and all(block_starts(a, dim, n) == block_starts(b, dim, n) for dim, n in enumerate(shape))
    )
