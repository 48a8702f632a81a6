"""The cells of a one-dimensional array in order: each process has those of its own block, and knows the way back.

    1. every process sorts its own cells                            sort
    2. the cuts of all runs are found, by numbers of cells          splitting
    3. each cell goes to the process in whose block it belongs      pieces
    4. every process merges what it has received                    sort

A process holds its own cells, and the same number in order, however the values are spread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.compute.cores import core_in, member_rows
from spmd_grid.compute.sorting.pieces import Pieces, swap_pieces
from spmd_grid.compute.sorting.splitting import find_cuts
from spmd_grid.compute.splits import ArrayOnGrid, block_starts, plain_sharding
from spmd_grid.grid.groups import group_index

__all__ = ["SortedCells"]


class SortedCells:
    """The sorted cells of an array that has one dimension.

    Collective over the axes that cut it; a part of an operation that has passed the gate.  ``order``: the cells' order
    is needed too, for `bring` and `back`; it is stable.  ``kind``: as of np.sort, without order.  ``moves``: False to
    sort within each process alone, for `select`.
    """

    def __init__(self, a: ArrayOnGrid, order: bool = False, kind: Any = None, moves: bool = True):
        self.grid, self.sharding = a.grid, plain_sharding(a.sharding)
        self.axes = tuple([axis for axis in self.sharding.axes_of(0) if a.grid.shape[axis] > 1])
        self.starts = block_starts(self.sharding, 0, a.shape[0])
        # Axes of one device do not change the order of the blocks.
        self.number = group_index(a.grid.grid, a.grid.own_coords, self.axes)
        self.start = self.starts[self.number]
        core = core_in(a, self.sharding)
        self._order = np.argsort(core, kind="stable") if order else None
        self.run = a.grid.allocate(core.shape, core.dtype)  # others read it
        if self._order is not None:
            np.take(core, self._order, out=self.run)
        else:
            self.run[...] = core
            self.run.sort(kind=kind)
        self.cells, self._merge, self._pieces = self.run, None, None
        if self.axes and moves:
            ends = np.array([self.starts[:-1], self.starts[1:]])
            edges = [np.zeros_like(ends[:1, :]), self.cuts(self.starts[1:-1]), (ends[1] - ends[0])[None]]
            self._pieces = Pieces(np.ascontiguousarray(np.diff(np.concatenate(edges), axis=0).T))
            self.cells = swap_pieces(self.run, self.grid, self.axes, self._pieces)
            if order:
                self._merge = np.argsort(self.cells, kind="stable")
                self.cells = self.cells[self._merge]
            else:
                self.cells.sort(kind="stable")  # which merges runs, in linear time

    def cuts(self, ranks: Any) -> np.ndarray:
        """Per entry of ``ranks`` and process, the number of its cells among that number of smallest ones."""
        lengths = np.diff(self.starts).tolist()
        return find_cuts(self.run, self.number, lengths, ranks, lambda row: member_rows(row, self.grid, self.axes))

    def select(self, positions: np.ndarray) -> np.ndarray:
        """The cells at ``positions`` of the order, on every process.  Collective over the axes.  Moves no other cell.

        Within each process the run must be sorted; positions must be within the array.
        """
        found = np.zeros(len(positions), self.run.dtype)
        has = np.zeros(len(positions), bool)
        before, up_to = np.split(self.cuts([*positions, *[position + 1 for position in positions]])[:, self.number], 2)
        has[:] = before < up_to
        found[has] = self.run[before[has]]
        rows, owners = (member_rows(each, self.grid, self.axes) for each in (found, has))
        return rows[np.argmax(owners, axis=0), np.arange(len(positions))]

    def bring(self, values: np.ndarray) -> np.ndarray:
        """``values`` of this process's own cells, to where those are in the order: values of `cells`.  Collective."""
        assert self._order is not None
        run = np.take(values, self._order, out=self.grid.allocate(values.shape, values.dtype))
        if self._pieces is None:
            return run
        return swap_pieces(run, self.grid, self.axes, self._pieces)[self._merge]

    def back(self, values: np.ndarray) -> np.ndarray:
        """``values`` of `cells`, to the processes whose cells they are: values of own cells.  Collective."""
        assert self._order is not None
        if self._pieces is not None:
            received = self.grid.allocate(values.shape, values.dtype)
            received[self._merge] = values
            values = swap_pieces(received, self.grid, self.axes, self._pieces.back())
        found = np.empty_like(values)
        found[self._order] = values
        return found
