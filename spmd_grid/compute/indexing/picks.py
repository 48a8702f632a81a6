"""Indices that are lists of numbers along one dimension: ``a[:, numbers]`` and ``a[:, numbers] = b``.

Every device knows all numbers, so it knows which cells each device needs.  Each cell goes once to each device that
needs it, and no others move; no device holds more than its part of the result and those cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.compute.course.apply import sharded_like
from spmd_grid.compute.indexing.pieces import fetch
from spmd_grid.compute.splits import ArrayOnGrid, block_starts, is_sharded, plain_sharding
from spmd_grid.grid.groups import group_index, group_size
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.typing import Shape

__all__ = ["layout_of_picks", "pick", "put_picks"]

# Up to this many cells of the dimension per number, a word for each cell takes less time than a sort: 1 ms for
# 300,000 numbers of as many cells, in place of 20.
_DENSE = 8


def layout_of_picks(a: ArrayOnGrid, dim: int, n: int) -> Layout:
    """The layout of ``n`` cells of ``a`` along a dimension: that of ``a``, with even blocks for explicit offsets."""
    sharding = plain_sharding(a.sharding)
    shape = _with_extent(a.shape, dim, n)
    if sharding.sharded_dims_offsets and sharding.axes_of(dim):
        starts = block_starts(Sharding(sharding.grid, [sharding.axes_of(dim)]), 0, n)
        offsets = [starts if d == dim else block_starts(sharding, d, shape[d]) for d in sharding.sharded_dims]
        sharding = Sharding(sharding.grid, sharding.split_axes, sharded_dims_offsets=offsets)
    return Layout(sharding, shape)


def pick(a: ArrayOnGrid, numbers: np.ndarray, dim: int) -> Any:
    """``a`` at ``numbers``, none of them negative, along a dimension.  Collective over the axes that split it."""
    if _is_cut(a, dim):
        return a.grid.process.gate.run("getitem", _pick, a, numbers, dim)
    return sharded_like(a, np.take(a.stored_core, numbers, dim), layout_of_picks(a, dim, len(numbers)))


def _pick(a: ArrayOnGrid, numbers: np.ndarray, dim: int) -> Any:
    layout, grid = layout_of_picks(a, dim, len(numbers)), a.grid
    kept = block_starts(layout.sharding, dim, len(numbers))
    axes = a.sharding.axes_of(dim)
    wanted = [_distinct(numbers[start:stop], a.shape[dim]) for start, stop in zip(kept, kept[1:])]
    starts = block_starts(plain_sharding(a.sharding), dim, a.shape[dim])
    cells = fetch(a.stored_core, grid, axes, dim, starts, wanted)
    me = group_index(grid.grid, grid.own_coords, axes)
    own = numbers[kept[me] : kept[me + 1]]
    if not np.array_equal(wanted[me], own):
        cells = np.take(cells, _ranks(own, a.shape[dim]), dim)
    return sharded_like(a, cells, layout)


def _distinct(numbers: np.ndarray, extent: int) -> np.ndarray:
    """The numbers, all below ``extent``, in ascending order, each once."""
    if extent <= _DENSE * len(numbers):
        return np.flatnonzero(_presence(numbers, extent))
    ascending = np.sort(numbers)  # np.unique hashes them, which takes many times as long
    return ascending[_is_new(ascending)]


def _ranks(numbers: np.ndarray, extent: int) -> np.ndarray:
    """The position of each number among the distinct ones."""
    if extent <= _DENSE * len(numbers):
        return (np.cumsum(_presence(numbers, extent), dtype=np.intp) - 1)[numbers]
    order = np.argsort(numbers)
    found = np.empty(len(numbers), np.intp)
    found[order] = np.cumsum(_is_new(numbers[order])) - 1
    return found


def _presence(numbers: np.ndarray, extent: int) -> np.ndarray:
    """Whether each of ``extent`` numbers is among ``numbers``."""
    found = np.zeros(extent, bool)
    found[numbers] = True
    return found


def _is_new(ascending: np.ndarray) -> np.ndarray:
    """Whether each number differs from the one before it."""
    is_new = np.ones(len(ascending), bool)
    np.not_equal(ascending[1:], ascending[:-1], out=is_new[1:])
    return is_new


def put_picks(a: ArrayOnGrid, numbers: np.ndarray, dim: int, value: Any) -> None:
    """Write ``value``, which broadcasts to the cells at ``numbers`` along a dimension; the last one of equals counts.

    Collective over a's grid.  A sharded ``value`` has the shape of those cells.
    """
    a.grid.process.gate.run("setitem", _put_picks, a, numbers, dim, value)


def _put_picks(a: ArrayOnGrid, numbers: np.ndarray, dim: int, value: Any) -> None:
    last = len(numbers) - 1 - np.unique(numbers[::-1], return_index=True)[1]  # by ascending number
    starts = block_starts(plain_sharding(a.sharding), dim, a.shape[dim])
    box = Layout(plain_sharding(a.sharding), a.shape).core_box(a.grid.own_coords)
    own = last[slice(*np.searchsorted(numbers[last], (box.starts[dim], box.stops[dim])))]
    target, piece = a.core_to_write(), value
    if is_sharded(value):
        # The order of positions does not matter to the sender, but they must ascend.
        own = np.sort(own)
        if _is_cut(a, dim):
            edges = np.searchsorted(numbers[last], starts)
            wanted = [np.sort(last[start:stop]) for start, stop in zip(edges, edges[1:])]
            kept = block_starts(value.sharding, dim, len(numbers))
            piece = fetch(value.stored_core, a.grid, a.sharding.axes_of(dim), dim, kept, wanted)
        else:
            piece = np.take(value.stored_core, own, dim)
    elif np.ndim(value):
        whole = np.broadcast_to(value, _with_extent(a.shape, dim, len(numbers)))
        cells = [slice(start, stop) for start, stop in zip(box.starts, box.stops)]
        cells[dim] = slice(None)
        piece = np.take(whole[tuple(cells)], own, dim)
    index: tuple[Any, ...] = (*[slice(None)] * dim, numbers[own] - box.starts[dim])
    target[index] = piece
    a.mark_dirty()


def _with_extent(shape: Shape, dim: int, n: int) -> Shape:
    return (*shape[:dim], n, *shape[dim + 1 :])


def _is_cut(a: ArrayOnGrid, dim: int) -> bool:
    axes = a.sharding.axes_of(dim)
    return group_size(a.sharding.grid, axes) > 1
