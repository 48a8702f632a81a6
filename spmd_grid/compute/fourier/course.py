"""Fourier transforms as they run on one process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spmd_grid.compute.contractions.course import links_of
from spmd_grid.compute.course.apply import sharded_like
from spmd_grid.compute.fourier.choose import TransformPlan, choose_transform
from spmd_grid.compute.fourier.row_plan import CutTransform
from spmd_grid.compute.fourier.rows import transform_row
from spmd_grid.compute.splits import ArrayOnGrid, one_layout
from spmd_grid.errors import GridError, ImplicitGatherError, ShardingError
from spmd_grid.functions.linear.transforms import Transform
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.execute import reshard_local

__all__ = ["TransformCourse", "plan_transform"]


def plan_transform(
    name: str, a: ArrayOnGrid, transforms: tuple[Transform, ...], requested: Sharding | None
) -> TransformCourse:
    """The course of a transform of arrays like ``a``, in the requested sharding, or else in the cheapest one.

    Local.  Raises `DTypeError`, `GridError`, `ShardingError` and `ImplicitGatherError`, alike on every process.
    """
    shape, dtype = a.shape, a.dtype
    for transform in transforms:
        shape, dtype = transform.shape_after(shape), transform.dtype_after(dtype)
    if requested is not None:
        _check_requested(name, requested, a, shape, dtype)
    plan = choose_transform(
        transforms, replace(a.sharding, halo_sizes=None), a.shape, a.dtype, requested, links_of(a.grid)
    )
    if plan is None:
        raise ImplicitGatherError(
            f"{name}: no way was found that keeps every process to its part of the array: to_global() gathers all of"
            " it (collective)"
        )
    return TransformCourse(name, plan, a)


class TransformCourse:
    """The plan of a transform of arrays of one layout and dtype, on one process."""

    __slots__ = ("_layout", "_moves", "_name", "_steps")

    def __init__(self, name: str, plan: TransformPlan, a: ArrayOnGrid):
        self._name, self._steps = name, plan.steps
        self._layout = one_layout(Layout(plan.sharding, plan.shape))
        self._moves = any(type(step) is not Transform for step in plan.steps)

    def run(self, a: ArrayOnGrid) -> Any:
        """The transform.  Collective over the grid, if anything moves."""
        return a.grid.process.gate.run(self._name, self._run, a) if self._moves else self._run(a)

    def _run(self, a: ArrayOnGrid) -> Any:
        grid, block = a.grid, a.stored_core
        for number, step in enumerate(self._steps):
            if isinstance(step, Transform):
                block = _along(block, step, grid, is_own=number > 0)
            elif isinstance(step, CutTransform):
                block = transform_row(step, block, grid)
            else:
                source = (a.stored, a.sharding) if number == 0 else (np.ascontiguousarray(block), step.source)
                found = reshard_local(*source, step.target, grid, step.shape)
                assert isinstance(found, np.ndarray)  # this process is on the grid
                block = found
        return sharded_like(a, block, self._layout, (a.stored,))


def _check_requested(name: str, requested: object, a: ArrayOnGrid, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if not isinstance(requested, Sharding):
        raise ShardingError(f"{name}: out_sharding is {requested!r}; it must be a Sharding")
    if requested.grid != a.grid.grid:
        raise GridError(
            f"{name}: out_sharding is on {requested.grid!r}; it must be on that of the array, {a.grid.grid!r}"
        )
    try:
        Layout(requested, shape).check_addressable(dtype.itemsize)
    except ShardingError as error:
        raise ShardingError(f"{name}: out_sharding: {error}") from None
    requested.check_dtype(name, dtype)


def _along(block: np.ndarray, transform: Transform, grid: ProcessGrid, is_own: bool) -> np.ndarray:
    """The transform along a whole dimension, in place where the memory is this function's own."""
    shape, dtype = transform.shape_after(block.shape), transform.dtype_after(block.dtype)
    if is_own and transform.is_complex and shape == block.shape and dtype == block.dtype and block.flags.writeable:
        return transform.of(block, out=block)
    return transform.of(block, out=grid.allocate(shape, dtype))
