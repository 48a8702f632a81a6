"""Sharded lists of numbers along one dimension: ``a[i, :]``, ``a[:, i] = b``.

A *row* is what the array has at one number of the dimension.  Each process asks for the parts of rows that its own
numbers name and its other dimensions have, or tells their holders what to write; each row moves once to each process
that needs it.  Grid axes that cut other dimensions of the array do not cut the list, which is brought to such a layout.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.compute.cores import core_in
from spmd_grid.compute.course.apply import sharded_like
from spmd_grid.compute.indexing.requests import Requests, most_at_once
from spmd_grid.compute.splits import ArrayOnGrid, block_starts, is_sharded, plain_sharding
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding

__all__ = ["get_rows", "layout_to_put", "put_rows"]


def get_rows(a: ArrayOnGrid, numbers: ArrayOnGrid, dim: int) -> Any:
    """The rows of ``a`` at ``numbers``, none of them negative, along a dimension.  Collective over a's grid.

    The result is cut along this dimension as the numbers are, and along others as ``a`` is.
    """
    a.grid.check_same_program(numbers.grid, "getitem")
    return a.grid.process.gate.run("getitem", _get_rows, a, numbers, dim)


def put_rows(a: ArrayOnGrid, numbers: ArrayOnGrid, dim: int, value: Any) -> None:
    """Write ``value``, a number or an array of `layout_to_put`, to the rows at ``numbers``; the last of equals counts.

    Collective over a's grid.
    """
    a.grid.process.gate.run("setitem", _put_rows, a, numbers, dim, value)


def layout_to_put(a: ArrayOnGrid, n: int, dim: int) -> Layout:
    """The layout from which ``n`` rows are written: cut by the axes that cut ``a``, along each dimension.  Local."""
    held = plain_sharding(a.sharding)
    return _layout_of_rows(a, held, Sharding(held.grid, [held.axes_of(dim)]), n, dim)


def _layout_of_rows(a: ArrayOnGrid, held: Sharding, along: Sharding, n: int, dim: int) -> Layout:
    """The layout of ``n`` rows of ``a``: cut by ``along`` along the dimension, and as ``a`` along others."""
    shape = (*a.shape[:dim], n, *a.shape[dim + 1 :])
    cuts = [along.axes_of(0) if d == dim else held.axes_of(d) for d in range(a.ndim)]
    kept = [held for d, axes in enumerate(cuts) if axes and d != dim] + [along] * bool(cuts[dim])
    if len({each.blocks for each in kept}) < 2 and not any(each.sharded_dims_offsets for each in kept):
        return Layout(Sharding(held.grid, cuts, blocks=kept[0].blocks if kept else "ceil"), shape)
    starts = [
        block_starts(along, 0, n) if d == dim else block_starts(held, d, a.shape[d])
        for d, axes in enumerate(cuts)
        if axes
    ]
    return Layout(Sharding(held.grid, cuts, sharded_dims_offsets=starts), shape)


def _cut_of(held: Sharding, numbers: ArrayOnGrid, dim: int) -> Sharding:
    """The sharding to which the numbers are brought."""
    spread = plain_sharding(numbers.sharding)
    if spread.grid != held.grid:
        return Sharding(held.grid, [held.axes_of(dim)])
    used = {axis for d, axes in enumerate(held.split_axes) if d != dim for axis in axes}
    if used.isdisjoint(spread.axes_of(0)):
        return spread
    return Sharding(held.grid, [[axis for axis in spread.axes_of(0) if axis not in used]], blocks=spread.blocks)


def _get_rows(a: ArrayOnGrid, numbers: ArrayOnGrid, dim: int) -> Any:
    held, core = plain_sharding(a.sharding), a.stored_core
    along = _cut_of(held, numbers, dim)
    layout = _layout_of_rows(a, held, along, numbers.shape[0], dim)
    wanted, position = np.unique(core_in(numbers, along), return_inverse=True)
    requests, offsets = _requests(a, held, wanted, dim, most_at_once(a, numbers))
    rows = np.empty((len(wanted), *core.shape[:dim], *core.shape[dim + 1 :]), a.dtype)
    requests.ask(offsets, lambda asked: np.moveaxis(np.take(core, asked, dim), dim, 0), rows)
    return sharded_like(a, np.moveaxis(rows[position], 0, dim), layout, (a.stored,))


def _put_rows(a: ArrayOnGrid, numbers: ArrayOnGrid, dim: int, value: Any) -> None:
    """This process tells the last of equal numbers only; by its position in the list, holders find the last of all."""
    held = plain_sharding(a.sharding)
    along = Sharding(held.grid, [held.axes_of(dim)])
    own = core_in(numbers, along)
    wanted, from_end = np.unique(own[::-1], return_index=True)
    last = len(own) - 1 - from_end
    requests, offsets = _requests(a, held, wanted, dim, most_at_once(a, numbers))
    positions = last + along.core_box(numbers.shape, a.grid.own_coords).starts[0]
    told = [offsets, positions]
    if is_sharded(value):
        told.append(np.take(np.moveaxis(value.stored_core, dim, 0), last, 0))
    target = np.moveaxis(a.core_to_write(), dim, 0)
    latest = np.full(target.shape[0], -1)
    for at, position, *rows in requests.tell(*told):
        np.maximum.at(latest, at, position)
        counts = latest[at] == position
        target[at[counts]] = rows[0][counts] if rows else value
    a.mark_dirty()


def _requests(a: ArrayOnGrid, held: Sharding, wanted: np.ndarray, dim: int, most: int) -> tuple[Requests, np.ndarray]:
    """Requests to the holders of rows, and where the rows lie in their blocks.  Collective over the axes."""
    axes = tuple([axis for axis in held.axes_of(dim) if held.grid.shape[axis] > 1])
    starts = np.array(block_starts(held, dim, a.shape[dim]))
    owners = np.searchsorted(starts, wanted, side="right") - 1
    return Requests(owners, a.grid, axes, most), wanted - starts[owners]
