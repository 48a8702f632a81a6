"""Cumulative sums and products: each device scans its block, then adds the totals of the blocks before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spmd_grid.compute.apply import sharded_like
from spmd_grid.compute.splits import plain_sharding
from spmd_grid.errors import AxisError
from spmd_grid.functions.table import composite
from spmd_grid.grid.layout import Layout
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.reshard.execute import reshard_local

__all__ = ["scan"]


def scan(name: str, function: Callable, combine: np.ufunc, a: Any, axis: Any, dtype: Any) -> Any:
    """The running ``combine`` along a dimension.

    Collective over the axes that split it: the totals of blocks are gathered.
    """
    if axis is None and a.ndim == 1:
        axis = 0
    if not isinstance(axis, int) or not -a.ndim <= axis < a.ndim:
        raise AxisError(f"{name}: axis is {axis!r}; it must be one of the {a.ndim} dimensions of the array")
    return a.grid.process.gate.run(name, _scan, function, combine, a, axis % a.ndim, dtype)


def _scan(function: Callable, combine: np.ufunc, a: Any, axis: int, dtype: Any) -> Any:
    sharding, grid = plain_sharding(a.sharding), a.grid
    core = a.core
    if a.sharding.partial_axes:
        core = reshard_local(a.local, a.sharding, sharding, grid, a.shape)
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


def _index(grid: Any, axes: tuple[int, ...]) -> int:
    index = 0
    for axis in axes:
        index = index * grid.shape[axis] + grid.coords[axis]
    return index


@composite(np.cumsum)
def cumsum(a, axis=None, dtype=None, out=None):
    """np.cumsum along a dimension."""
    return scan("cumsum", np.cumsum, np.add, a, axis, dtype)


@composite(np.cumprod)
def cumprod(a, axis=None, dtype=None, out=None):
    """np.cumprod along a dimension."""
    return scan("cumprod", np.cumprod, np.multiply, a, axis, dtype)
