"""Writes to the cells that sharded arrays of numbers name, as in ``a[i, 3, j] = b``.

The numbers of cells and their values are dealt to the processes in runs of one length.  Each process tells the holders
what to write to each cell, once, with its position in the list; if a cell occurs several times, the last one counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.compute.cores import core_in
from spmd_grid.compute.indexing.lookups import cells_named, holders
from spmd_grid.compute.indexing.requests import Requests, most_at_once
from spmd_grid.compute.splits import ArrayOnGrid, is_sharded, plain_sharding
from spmd_grid.grid.sharding import Sharding

__all__ = ["cells_to_put", "put_cells"]


def cells_to_put(key: Any, a: ArrayOnGrid) -> Any:
    """As `cells_named`; None also for a single list of numbers, which names rows.  Collective as that is."""
    entries = key if type(key) is tuple else (key,)
    lists: list[Any] = [each for each in entries if is_sharded(each) or isinstance(each, np.ndarray | list)]
    if len(lists) == 1 and np.ndim(lists[0]) == 1:
        return None
    return cells_named("setitem", key, a.shape)


def put_cells(a: ArrayOnGrid, numbers: Any, value: Any) -> None:
    """Write ``value``, which broadcasts to the shape of ``numbers``, to the cells with these row-major numbers.

    Collective over a's grid.
    """
    a.grid.check_same_program(numbers.grid, "setitem")
    shape = numbers.shape
    if is_sharded(value):
        spread: Any = value
        value = np.reshape(np.broadcast_to(spread, shape), (-1,))
    elif np.ndim(value):
        value = np.broadcast_to(value, shape).reshape(-1)
    a.grid.process.gate.run("setitem", _put_cells, a, np.reshape(numbers, (-1,)), value)


def _put_cells(a: ArrayOnGrid, numbers: Any, value: Any) -> None:
    held, grid = plain_sharding(a.sharding), a.grid
    axes = tuple([axis for cut in held.split_axes for axis in cut if grid.shape[axis] > 1])
    along = Sharding(held.grid, [axes])
    own = core_in(numbers, along)
    wanted, from_end = np.unique(own[::-1], return_index=True)
    last = len(own) - 1 - from_end
    start = along.core_box(numbers.shape, grid.own_coords).starts[0]
    owners, offsets = holders(wanted, held, a.shape)
    told = [offsets, last + start]
    if is_sharded(value):
        told.append(core_in(value, along)[last])
    elif np.ndim(value):
        told.append(value[last + start])
    target = a.core_to_write()
    latest = np.full(target.size, -1)
    for at, position, *cells in Requests(owners, grid, axes, most_at_once(a, numbers)).tell(*told):
        np.maximum.at(latest, at, position)
        counts = latest[at] == position
        if counts.any():
            target[np.unravel_index(at[counts], target.shape)] = cells[0][counts] if cells else value
    a.mark_dirty()
