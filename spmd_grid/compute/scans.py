"""Cumulative sums and products: each device scans its block, then adds the totals of the blocks before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.compute.apply import sharded_like
from spmd_grid.compute.splits import ArrayOnGrid, plain_sharding
from spmd_grid.errors import DTypeError
from spmd_grid.functions.axes import one_axis
from spmd_grid.functions.table import Operand, composite
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.reshard.execute import reshard_local

__all__ = ["scan"]


def scan(
    name: str, function: Callable[..., Any], combine: np.ufunc, a: Operand, axis: int | None, dtype: DTypeLike | None
) -> Any:
    """The running ``combine`` along a dimension.

    Collective over the axes that split it: the totals of blocks are gathered.
    """
    if axis is None:
        a, axis = np.ravel(a), 0
    d = one_axis(name, axis, a.ndim)
    try:
        function(np.ones(1, a.dtype), dtype=dtype)
    except TypeError as error:
        raise DTypeError(f"{name}: {error}") from None
    return a.grid.process.gate.run(name, _scan, function, combine, a, d, dtype)


def _scan(function: Callable[..., Any], combine: np.ufunc, a: ArrayOnGrid, axis: int, dtype: DTypeLike | None) -> Any:
    sharding, grid = plain_sharding(a.sharding), a.grid
    core = a.stored_core
    if a.sharding.partial_axes:
        core = reshard_local(a.stored, a.sharding, sharding, grid, a.shape)
    block = function(core, axis=axis, dtype=dtype)
    axes = sharding.axes_of(axis)
    if axes:
        total = combine.reduce(core, axis=axis, dtype=block.dtype, keepdims=True)
        totals = all_gather.run_in_gate(np.ascontiguousarray(total), grid, axes, (axis, None))
        before = np.moveaxis(totals, axis, 0)[: _index(grid, axes)]
        block = combine(
            block, np.expand_dims(combine.reduce(before, axis=0, dtype=block.dtype), axis), dtype=block.dtype
        )
    return sharded_like(a, block, Layout(sharding, a.shape))


def _index(grid: ProcessGrid, axes: tuple[int, ...]) -> int:
    index, coords = 0, grid.own_coords
    for axis in axes:
        index = index * grid.shape[axis] + coords[axis]
    return index


@composite(np.cumsum)
def cumsum(a: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: Operand = None) -> Operand:
    """np.cumsum along a dimension."""
    return scan("cumsum", np.cumsum, np.add, a, axis, dtype)


@composite(np.cumprod)
def cumprod(a: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: Operand = None) -> Operand:
    """np.cumprod along a dimension."""
    return scan("cumprod", np.cumprod, np.multiply, a, axis, dtype)
