"""Running sums, products and others: each device scans its block, then adds what the blocks before it end with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.compute.course.apply import sharded_like
from spmd_grid.compute.splits import ArrayOnGrid, block_starts, plain_layout
from spmd_grid.functions.axes import as_row, cut, one_axis
from spmd_grid.functions.reductions.scans import ASSOCIATIVE, added, scanned, scanned_dtype
from spmd_grid.functions.table import Operand, composite, no_rule
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.reshard.execute import reshard_local

__all__ = ["accumulate", "scan"]


def scan(
    name: str, function: Callable[..., Any], combine: np.ufunc, a: Operand, axis: int | None, dtype: DTypeLike | None
) -> Any:
    """The running ``combine`` along a dimension.

    Collective over the axes that split it: the last cells of blocks are gathered.
    """
    a, axis = (np.ravel(a), 0) if axis is None else (as_row(a, axis), axis)
    d = one_axis(name, axis, a.ndim)
    found = scanned_dtype(name, function, combine, a.dtype, None if dtype is None else np.dtype(dtype))
    return a.grid.process.gate.run(name, _scan, function, combine, a, d, found)


def _scan(function: Callable[..., Any], combine: np.ufunc, a: ArrayOnGrid, axis: int, dtype: np.dtype) -> Any:
    grid, layout = a.grid, plain_layout(a.layout)
    sharding = layout.sharding
    core = a.stored_core
    if a.sharding.partial_axes:
        core = reshard_local(a.stored, a.sharding, sharding, grid, a.shape)
    block = scanned(function, combine, core, axis, dtype, grid.allocate(core.shape, dtype))
    axes = sharding.axes_of(axis)
    if axes:
        last = np.ascontiguousarray(block[cut(axis, -1, None)])  # none of a block without cells
        starts = block_starts(sharding, axis, a.shape[axis])
        lengths = [min(stop - start, 1) for start, stop in zip(starts, starts[1:])]
        totals = all_gather.run_in_gate(last, grid, axes, (axis, tuple(lengths)))
        before = np.moveaxis(totals, axis, 0)[: sum(lengths[: _index(grid, axes)])]
        if len(before):
            added(combine, before, block, axis, block)
    return sharded_like(a, block, layout)


def _index(grid: ProcessGrid, axes: tuple[int, ...]) -> int:
    index, coords = 0, grid.own_coords
    for axis in axes:
        index = index * grid.shape[axis] + coords[axis]
    return index


def accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: DTypeLike | None = None, out: Operand = None) -> Any:
    """``ufunc.accumulate``: of any ufunc along a dimension that is not cut, else of associative ones."""
    d = one_axis(f"{ufunc.__name__}.accumulate", axis, array.ndim)
    if ufunc not in ASSOCIATIVE and array.sharding.axes_of(d):
        raise no_rule(f"{ufunc.__name__}.accumulate along a dimension that is cut")
    return scan(f"{ufunc.__name__}.accumulate", ufunc.accumulate, ufunc, array, d, dtype)


@composite(np.cumsum)
def cumsum(a: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: Operand = None) -> Operand:
    """np.cumsum along a dimension."""
    return scan("cumsum", np.cumsum, np.add, a, axis, dtype)


@composite(np.cumprod)
def cumprod(a: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: Operand = None) -> Operand:
    """np.cumprod along a dimension."""
    return scan("cumprod", np.cumprod, np.multiply, a, axis, dtype)
