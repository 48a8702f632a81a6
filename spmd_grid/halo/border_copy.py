"""Copies of the cells at the borders of blocks, by which a process finds writes that the program has not marked.

A program that has had a view of an array's memory may write to it at any time.  While halos count as fresh nothing is
sent, and a process that finds them stale could not exchange them alone; but it can find its own writes.  It copies
the cells that lie in halos of other devices, and those of its own halos in the domain, when halos are filled, and
compares before a slice reads halos.  (o: core, h: halo in the domain, x: halo outside; C: copied)

    halo of 1 below and 2 above     x o o o o h h | h o o o o h h | h o o x x
    copied by each device           . . . . C C C | C C C . C C C | C C C . .
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from spmd_grid.grid.box import row_major
from spmd_grid.grid.layout import Layout
from spmd_grid.typing import MultiIndex

__all__ = ["BorderCopy"]


class BorderCopy:
    """A copy of the cells of ``local``, this device's local array, that it shares with others.  Local."""

    __slots__ = ("_copies", "_parts")

    def __init__(self, local: np.ndarray, layout: Layout, coords: MultiIndex):
        self._parts = _shared_parts(layout, coords)
        self._copies = [local[part].tobytes() for part in self._parts]

    def agrees(self, local: np.ndarray) -> bool:
        """Whether the cells are still the same, bit for bit."""
        return all([local[part].tobytes() == copy for part, copy in zip(self._parts, self._copies)])


@lru_cache(1024)
def _shared_parts(layout: Layout, coords: MultiIndex) -> list[tuple[slice, ...]]:
    """The parts of the local array with cells that lie in halos of other devices, or of this one, in the domain."""
    sharding, inside = layout.sharding, layout.in_domain_local(coords)
    core, parts = layout.core_in_local(coords), []
    for dim in sharding.sharded_dims:
        low, high = sharding.halo_of(dim)
        sizes = sharding.sizes_of(dim)
        position = row_major([coords[axis] for axis in sharding.axes_of(dim)], sizes)
        ranges = []
        if position > 0:  # blocks below hold the first ``high`` cells
            ranges.append((0, core.starts[dim] + high))
        if position < prod(sizes) - 1:
            ranges.append((core.stops[dim] - low, core.stops[dim] + high))
        if len(ranges) == 2 and ranges[1][0] <= ranges[0][1]:
            ranges = [(0, ranges[1][1])]
        for start, stop in ranges:
            part = list(inside.slices())
            part[dim] = slice(max(start, inside.starts[dim]), min(stop, inside.stops[dim]))
            parts.append(tuple(part))
    return [part for part in parts if all([each.start < each.stop for each in part])]
