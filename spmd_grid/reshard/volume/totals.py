"""Bytes that an exchange moves, over all devices and for the busiest one, without a look at each device.

A device needs a box T and holds a box S; it receives |T| - |T n S|, which is a product over dimensions on either side.

    sum |T|        parts of a dimension come in a few extents: a product of short sums
    sum |T n S|    dimensions that share no digit are independent: a product of sums, one per *component*
    the maximum    only those pairs (|T|, |T n S|) of a component matter that no other beats in both

What a device sends is as simple while each cell has one holder: every cell goes to all that need it, except the holder.
Where sources are replicated, or targets have halos, the result is an upper bound.

Two grids that number the same processes have common digits if one number can be written in both shapes at once: 6 and
2 x 3, also 8 and 2 x 2, whose devices are those with a leading 0.  Otherwise devices are listed if they are few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.geometry.cuts import CutDimension, cuts_of
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.volume.demand import demand_of, longest
from spmd_grid.reshard.volume.descent import longest_and_total
from spmd_grid.reshard.volume.digits import SOURCE, TARGET, common_digits
from spmd_grid.reshard.volume.overlaps import Found, Points, search
from spmd_grid.reshard.volume.sliding_boxes import common_cells

__all__ = ["Totals", "exchange_totals", "most_local"]

# Where grids have no common digits, the devices of a grid of at most this size are listed.
_MOST_LISTED = 4096


class Totals(NamedTuple):
    """Bytes from process to process: of all together, to the busiest one and from the busiest one.

    ``exact``: whether none of the three is an upper bound.
    """

    received: int
    most_received: int
    most_sent: int
    exact: bool


def exchange_totals(r: Redistribution) -> Totals:
    """The totals of an exchange over all devices.

    Local.  Where a cell has several holders, or targets have halos, ``most_sent`` is an upper bound; where grids have
    neither common digits nor few devices, all three are.

    >>> from spmd_grid.grid.sharding import Sharding
    >>> grid = Grid((1024, 1024))
    >>> rows, columns = (Layout(Sharding(grid, split), (65536, 65536)) for split in ([[0, 1]], [[], [0, 1]]))
    >>> exchange_totals(Redistribution(rows, columns, itemsize=1))
    Totals(received=4294901760, most_received=65535, most_sent=65535, exact=True)
    """
    demand = demand_of(r)
    digits = common_digits(r.source.grid, r.target.grid)
    if digits is None:
        found = held = _list(r, demand.weigh)
    else:
        found = held = search(r.source_cuts, r.target_cuts, digits, demand.weigh)
        if r.replicas.share_axes:
            held = search(r.served_cuts, r.target_cuts, digits, demand.weigh)
    received = _total(r.target.grid, r.target_cuts) - found.overlap
    most_received = max(size - kept for size, kept in found.points[TARGET])
    most_sent = max(demand.copies * size - kept * demand.counts_own for size, kept in held.points[SOURCE])
    return Totals(
        received * r.itemsize,
        most_received * r.itemsize,
        min(most_sent, received) * r.itemsize,
        not received or (found.exact and demand.exact),
    )


def most_local(layout: Layout) -> int:
    """The number of cells of the largest local array, halos included.  Local.

    >>> from spmd_grid.grid.sharding import Sharding
    >>> most_local(Layout(Sharding(Grid((2, 3)), [[0, 1]], halo_sizes=[1, 1]), (7, 5)))
    20
    """
    cuts = cuts_of(layout)
    return prod(longest(cut) + sum(layout.sharding.halo_of(dim)) for dim, cut in enumerate(cuts))


def _total(grid: Grid, cuts: Sequence[CutDimension]) -> int:
    """The number of cells of all devices' boxes together."""
    copies = grid.size // prod(prod(cut.sizes) for cut in cuts)
    return copies * prod(longest_and_total(cut)[1] for cut in cuts)


def _list(r: Redistribution, weigh: Sequence[Callable[[int], int]]) -> Found:
    """The result of the search, found by listing the processes of each grid that has few."""
    grids, cuts = (r.source.grid, r.target.grid), (r.served_cuts, r.target_cuts)
    few = [grid for grid in grids if grid.size <= _MOST_LISTED]
    overlap = 0
    points: tuple[Points, Points] = [], []
    for process in sorted({grid.process(device) for grid in few for device in range(grid.size)}):
        here, there = (grid.coords_of_process(process) for grid in grids)
        kept = still = 0
        if here is not None:
            held = [cut.interval([here[axis] for axis in cut.axes]) for cut in r.source_cuts]
            serves = [cut.interval([here[axis] for axis in cut.axes]) for cut in r.served_cuts]
        if there is not None:
            needed = [cut.window([there[axis] for axis in cut.axes]) for cut in r.target_cuts]
        if here is not None and there is not None:
            kept, still = common_cells(held, needed), common_cells(serves, needed)
            overlap += kept
        if here is not None:
            points[SOURCE].append((prod(f(high - low) for f, (low, high) in zip(weigh, serves)), still))
        if there is not None:
            points[TARGET].append((prod(high - low for low, high in needed), kept))
    for side, grid in enumerate(grids):
        if grid not in few:
            largest = [longest(cut) for cut in cuts[side]]
            points[side].append((prod(f(n) for f, n in zip(weigh, largest)) if side == SOURCE else prod(largest), 0))
    return Found(overlap, points, len(few) == 2)
