"""The overlaps of a dimension that the same digits cut on both sides, where blocks are very many, in closed form.

Then block i of the source meets block i of the target, on one device.  Blocks lie in stretches, in which from one to
the next both shift by a fixed number of cells each, and so do stretches that repeat: overlaps are sums of series.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod

from spmd_grid.grid import starts
from spmd_grid.grid.starts import stretches
from spmd_grid.reshard.geometry.cuts import Cut
from spmd_grid.reshard.volume.descent import Descent, windows_of
from spmd_grid.reshard.volume.digits import Digits
from spmd_grid.reshard.volume.sliding_boxes import sliding_overlaps

__all__ = ["are_aligned", "sum_aligned"]


def are_aligned(source: Descent, target: Descent, digits: Digits) -> bool:
    """Whether the same digits cut both sides, of devices that are in both grids, into very many blocks.  Local.

    Not where both follow a rule without halos: few kinds of blocks meet there, which a search finds.
    """
    names = [digit.name for digit in source.digits]
    if names != [digit.name for digit in target.digits] or max(names, default=0) >= digits.outside:
        return False
    special = source.cut.offsets or target.cut.offsets or target.cut.low or target.cut.high
    return bool(special) and prod(target.cut.sizes) > starts.MOST_LISTED


def sum_aligned(source: Cut, target: Cut, weigh: Callable[[int], int]) -> tuple[int, tuple[dict[int, int], ...]]:
    """The sum of the overlaps of the i-th parts, and per side the least overlap by size.

    Local.  ``weigh``: the weight of a source's part of a given extent.
    """
    (held, _), (below, above) = windows_of(source), windows_of(target)
    total = 0
    found: tuple[dict[int, int], ...] = ({}, {})
    for at, levels in stretches(held, below, above):

        def boxes(block: int) -> tuple[tuple[int, int], tuple[int, int]]:
            return (held[block], held[block + 1]), (below[block], above[block + 1])

        (start, stop), (low, high) = boxes(at)
        copies, moving = 1, []
        for times, period in levels:
            if held[at + (times - 1) * period] - start == below[at + (times - 1) * period] - low:
                copies *= times
            else:
                moving.append((times, period))
        longest = max(moving, default=(1, 0))
        least = stop - start
        others = [range(0, times * period, period) for times, period in moving if (times, period) != longest]
        for shifts in product(*others):
            first = at + sum(shifts)
            here, there = boxes(first), boxes(first + longest[1])
            each = [[[side] for side in both] for both in (here, there)]
            smallest, overlap = sliding_overlaps((each[0][0], each[0][1]), (each[1][0], each[1][1]), longest[0])
            least, total = min(least, smallest), total + copies * overlap
        for side, size in enumerate((weigh(stop - start), high - low)):
            found[side][size] = min(found[side].get(size, least), least)
    return total, found
