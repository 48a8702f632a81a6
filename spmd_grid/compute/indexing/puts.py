"""The short way of ``a[1:-1] = b`` where the selected cells have the shape of b: found once for two layouts."""

from __future__ import annotations

import numpy as np

from spmd_grid.compute.indexing.index import Selection
from spmd_grid.compute.indexing.shardings import cut_alike, held_sharding
from spmd_grid.compute.splits import ArrayOnGrid, plain_sharding
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.typing import MultiIndex

__all__ = ["PutCourse"]


class PutCourse:
    """The way an array of one layout is written to the cells that a selection names in arrays of another."""

    __slots__ = ("_cells", "_given", "_held", "_moves")

    def __init__(self, layout: Layout, selection: Selection, value: Layout, coords: MultiIndex):
        self._cells = selection.slices_in_local(layout, coords)
        self._held = held_sharding(plain_sharding(layout.sharding), layout.global_shape, selection)
        self._given = value.core_in_local(coords).slices()
        given = value.sharding
        is_alike = given.grid == layout.grid and cut_alike(given, self._held, selection.counts)
        self._moves = not is_alike or bool(given.partial_axes)

    def run(self, a: ArrayOnGrid, value: ArrayOnGrid) -> None:
        """Write ``value``.  Collective over a's grid, if cells move."""
        if self._moves:
            a.grid.process.gate.run("setitem", self._move, a, value)
        else:
            a.stored_to_write()[self._cells] = value.stored[self._given]
            a.mark_dirty()

    def _move(self, a: ArrayOnGrid, value: ArrayOnGrid) -> None:
        target = a.stored_to_write()[self._cells]
        given = value.stored
        is_apart = given.dtype == target.dtype and not np.may_share_memory(given, target)
        out = target if is_apart else None
        found = reshard_local(given, value.sharding, self._held, value.grid, value.shape, out)
        if out is None:
            target[...] = found
        a.mark_dirty()
