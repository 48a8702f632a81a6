"""The shardings of slices: where cells lie before anything moves, where they belong, and the way between."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from spmd_grid.compute.indexing.index import Selection
from spmd_grid.compute.splits import block_starts
from spmd_grid.grid.derived_starts import turned
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.typing import Shape

__all__ = ["cut_alike", "held_sharding", "kept_sharding", "permuted_sharding", "positions_of", "result_sharding"]


@lru_cache(4096)
def held_sharding(sharding: Sharding, shape: Shape, selection: Selection) -> Sharding:
    """The sharding of the selected cells where each device has those of its own block."""
    offsets = []
    for dim in sharding.sharded_dims:
        starts = block_starts(sharding, dim, shape[dim])
        offsets.append(selection.held_starts(dim, starts))
    return Sharding(sharding.grid, sharding.split_axes, sharded_dims_offsets=offsets or None)


@lru_cache(4096)
def kept_sharding(sharding: Sharding, shape: Shape, selection: Selection) -> Sharding:
    """The sharding of the selected cells from which the result's follows without a message.

    Dimensions indexed by an integer are not cut.  Where a dimension is walked backwards, its first block lies on the
    device that will hold the last cells: the grid is taken with the coordinates of its axes reversed.
    """
    result = result_sharding(sharding, shape, selection)
    kept = [d for d in range(len(shape)) if d not in selection.dropped]
    at = positions_of(selection, len(shape))
    axes = [result.axes_of(at[d]) if d in kept else () for d in range(len(shape))]
    offsets = []
    for d in kept:
        if axes[d]:
            starts = block_starts(result, at[d], selection.counts[d])
            if d in selection.flipped:
                starts = turned(starts, selection.counts[d])
            offsets.append(starts)
    reversed_axes = frozenset(axis for d in selection.flipped for axis in axes[d])
    return Sharding(_reversed_grid(sharding.grid, reversed_axes), axes, sharded_dims_offsets=offsets or None)


@lru_cache(4096)
def result_sharding(sharding: Sharding, shape: Shape, selection: Selection) -> Sharding:
    """The source's sharding of each dimension that is left; explicit offsets are those of the selected cells."""
    at = positions_of(selection, len(shape))
    n_dims = len(selection.result_shape())
    axes: list[tuple[int, ...]] = [()] * n_dims
    for d, position in at.items():
        axes[position] = sharding.axes_of(d)
    if not sharding.sharded_dims_offsets:
        return Sharding(sharding.grid, axes, blocks=sharding.blocks)
    held = held_sharding(sharding, shape, selection)
    by_position = {}
    for d, position in at.items():
        if axes[position]:
            starts = block_starts(held, d, selection.counts[d])
            if d in selection.flipped:
                starts = turned(starts, selection.counts[d])
            by_position[position] = starts
    offsets = [by_position[position] for position in sorted(by_position)]
    return Sharding(sharding.grid, axes, sharded_dims_offsets=offsets or None)


def positions_of(selection: Selection, ndim: int) -> dict[int, int]:
    """The dimension of the result that each dimension of the source becomes."""
    positions: list[int | None] = [d for d in range(ndim) if d not in selection.dropped]
    for position in selection.new:
        positions.insert(position, None)
    return {d: position for position, d in enumerate(positions) if d is not None}


def permuted_sharding(sharding: Sharding, shape: Shape, order: tuple[int, ...]) -> Sharding:
    """The sharding of an array of ``shape`` with its dimensions in another order, without halos."""
    axes = [sharding.axes_of(d) for d in order]
    if not sharding.sharded_dims_offsets:
        return Sharding(sharding.grid, axes, blocks=sharding.blocks)
    offsets = [block_starts(sharding, d, shape[d]) for d in order if sharding.axes_of(d)]
    return Sharding(sharding.grid, axes, sharded_dims_offsets=offsets)


@lru_cache(256)
def _reversed_grid(grid: Grid, axes: frozenset[int]) -> Grid:
    if not axes:
        return grid
    numbers = np.flip(grid.rank_numbers.reshape(grid.shape), tuple(axes))
    return Grid(grid.shape, axis_names=grid.axis_names, ranks=numbers.ravel())  # type: ignore[arg-type]  # at once


def cut_alike(a: Sharding, b: Sharding, shape: Shape) -> bool:
    """Whether two shardings of one grid cut an array of ``shape`` into the same blocks."""
    return a.split_axes == b.split_axes and all(
        block_starts(a, dim, n) == block_starts(b, dim, n) for dim, n in enumerate(shape)
    )
