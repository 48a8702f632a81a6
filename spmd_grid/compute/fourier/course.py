"""Fourier transforms as they run on one process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spmd_grid.compute.contractions.course import links_of
from spmd_grid.compute.course.apply import sharded_like
from spmd_grid.compute.fourier.choose import Move, Way, choose_way
from spmd_grid.compute.fourier.row_plan import Row
from spmd_grid.compute.fourier.rows import transform_row
from spmd_grid.compute.splits import ArrayOnGrid
from spmd_grid.errors import GridError, ImplicitGatherError, ShardingError
from spmd_grid.functions.linear.transforms import Line
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.execute import reshard_local

__all__ = ["transformed"]


def transformed(name: str, a: ArrayOnGrid, lines: tuple[Line, ...], wished: Sharding | None) -> Any:
    """The transform of ``a``, in the sharding that is wished or in that which costs least.

    Collective over the grid, if anything moves.  Raises `DTypeError`, `GridError`, `ShardingError` and
    `ImplicitGatherError`, alike on every process and before anything moves.
    """
    shape, dtype = a.shape, a.dtype
    for line in lines:
        shape, dtype = line.shape_after(shape), line.dtype_after(dtype)
    if wished is not None:
        _check_wished(name, wished, a, shape, dtype)
    way = choose_way(lines, replace(a.sharding, halo_sizes=None), a.shape, a.dtype, wished, links_of(a.grid))
    if way is None:
        raise ImplicitGatherError(
            f"{name}: no way was found that keeps every process to its part of the array: to_global() gathers all of"
            " it (collective)"
        )
    if any(type(step) is not Line for step in way.steps):
        return a.grid.process.gate.run(name, _run, a, way)
    return _run(a, way)


def _check_wished(name: str, wished: object, a: ArrayOnGrid, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if not isinstance(wished, Sharding):
        raise ShardingError(f"{name}: out_sharding is {wished!r}; it must be a Sharding")
    if wished.grid != a.grid.grid:
        raise GridError(f"{name}: out_sharding is on {wished.grid!r}; it must be on that of the array, {a.grid.grid!r}")
    try:
        Layout(wished, shape).check_addressable(dtype.itemsize)
    except ShardingError as error:
        raise ShardingError(f"{name}: out_sharding: {error}") from None
    wished.check_dtype(name, dtype)


def _run(a: ArrayOnGrid, way: Way) -> Any:
    grid, block = a.grid, a.stored_core
    for number, step in enumerate(way.steps):
        if isinstance(step, Move):
            source = (a.stored, a.sharding) if number == 0 else (np.ascontiguousarray(block), step.source)
            found = reshard_local(*source, step.target, grid, step.shape)
            assert isinstance(found, np.ndarray)  # this process is on the grid
            block = found
        elif isinstance(step, Row):
            block = transform_row(step, block, grid)
        else:
            block = _along(block, step, grid, is_own=number > 0)
    return sharded_like(a, block, Layout(way.sharding, way.shape), (a.stored,))


def _along(block: np.ndarray, line: Line, grid: ProcessGrid, is_own: bool) -> np.ndarray:
    """The transform along a whole dimension, in place where the memory is this function's own."""
    shape, dtype = line.shape_after(block.shape), line.dtype_after(block.dtype)
    if is_own and line.is_complex and shape == block.shape and dtype == block.dtype and block.flags.writeable:
        return line.of(block, out=block)
    return line.of(block, out=grid.allocate(shape, dtype))
