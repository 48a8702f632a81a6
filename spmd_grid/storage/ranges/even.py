"""Rounds of equal parts at equal distances, whose cells move straight into the array.

Process 0 has read the rows marked 0 of an array, process 1 those marked 1.  Each is a part of two rows, and parts begin
every four rows: with parts and their rows as two dimensions, the marked rows are one box.

    row     0 1 2 3 4 5 6 7
            . 0 0 . . 1 1 .
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.storage.ranges.deal import Round, block_bounds, cut_by_devices, cut_by_processes
from spmd_grid.typing import Shape

__all__ = ["EvenParts", "even_parts"]


@dataclass(frozen=True)
class EvenParts:
    """The rows of a round along ``dim``: ``count`` parts of ``rows``, one each of the first processes.

    Plans only; coordinates are those of the region.  ``first``: where the first part begins; ``distance``: from there
    to the next one.
    """

    dim: int
    count: int
    rows: int
    first: int
    distance: int

    def shape(self, stretch: Shape) -> Shape:
        """The shape of the stretch with a dimension for parts before that for their rows."""
        return (*stretch[: self.dim], self.count, self.rows, *stretch[self.dim + 1 :])

    def before(self, cut: int) -> int:
        """The number of parts before a row."""
        return min(max(-(-(cut - self.first) // self.distance), 0), self.count)

    def sharding_of_devices(self, layout: Layout, stretch: Sharding) -> Sharding:
        """The stretch with parts as the array's ``layout`` cuts it; ``stretch``: without parts."""
        split, dim = stretch.split_axes, self.dim
        if len(split) <= dim:
            return stretch
        offsets = list(stretch.sharded_dims_offsets or ())
        if split[dim]:
            offsets[stretch.sharded_dims.index(dim)] = tuple([self.before(cut) for cut in block_bounds(layout, dim)])
        return cut_by_devices(stretch, (*split[: dim + 1], (), *split[dim + 1 :]), tuple(offsets))

    def sharding_of_processes(self, grid: Grid) -> Sharding:
        """The stretch with parts as the processes of ``grid`` have read it."""
        return cut_by_processes(grid, self.dim, tuple([min(i, self.count) for i in range(grid.size + 1)]))

    def of_process(self, mine: np.ndarray) -> np.ndarray:
        """The cells that a process has read, in the stretch with parts: a view."""
        shape = mine.shape
        return mine.reshape((*shape[: self.dim], int(shape[self.dim] > 0), self.rows, *shape[self.dim + 1 :]))

    def of_core(self, core: np.ndarray, low: int, high: int) -> np.ndarray:
        """The cells of the parts in a core's rows ``low`` to ``high``: a view of ``core``, which begins at ``low``."""
        begin, end = self.before(low), self.before(high)
        if begin == end or self.rows > core.shape[self.dim]:
            shape = core.shape
            return np.empty((*shape[: self.dim], 0, self.rows, *shape[self.dim + 1 :]), core.dtype)
        windows = sliding_window_view(core, self.rows, self.dim, writeable=True)
        start = self.first + begin * self.distance - low
        chosen = slice(start, start + (end - begin - 1) * self.distance + 1, self.distance)
        return np.moveaxis(windows[(*[slice(None)] * self.dim, chosen)], -1, self.dim + 1)


def even_parts(each: Round, layout: Layout) -> EvenParts | None:
    """The parts of a round, if they are equal, at equal distances, and none is cut by ``layout``.  Plans only."""
    parts = []
    for begin, end in pairwise(each.firsts):
        rows = each.rows[begin:end]
        if any(stop != start for (_, stop), (start, _) in pairwise(rows)):
            return None
        parts.append((rows[0][0], rows[-1][1]) if rows else (0, 0))
    count = sum([start < stop for start, stop in parts])
    if count < 2 or any(start == stop for start, stop in parts[:count]):
        return None
    (first, stop), (second, _) = parts[:2]
    found = EvenParts(each.dim, count, stop - first, first, second - first)
    for i, (start, stop) in enumerate(parts[:count]):
        if start != first + i * found.distance or stop - start != found.rows:
            return None
        if any(start < cut < stop for cut in block_bounds(layout, each.dim)):
            return None
    return found
