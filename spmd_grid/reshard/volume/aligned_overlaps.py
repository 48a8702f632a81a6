"""The overlaps of a dimension that the same digits cut on both sides, where blocks are very many, in closed form.

Then block i of the source meets block i of the target, on one device.  Blocks lie in stretches, in which from one to
the next both shift by a fixed number of cells each, and so do stretches that repeat: overlaps are sums of series.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from spmd_grid.grid import starts
from spmd_grid.grid.starts import stretches
from spmd_grid.reshard.geometry.cuts import Cut
from spmd_grid.reshard.volume.descent import Descent, starts_of
from spmd_grid.reshard.volume.digits import Digits
from spmd_grid.reshard.volume.sliding_boxes import Overlap

__all__ = ["are_aligned", "sum_aligned"]


def are_aligned(source: Descent, target: Descent, digits: Digits) -> bool:
    """Whether the same digits cut both sides, of devices that are in both grids, into very many blocks, by offsets.

    Local.  Not where both follow a rule: few kinds of blocks meet there, which a search finds.  Nor where the target
    has halos: at the ends of the domain their extents differ from block to block.
    """
    names = [digit.name for digit in source.digits]
    if names != [digit.name for digit in target.digits] or max(names, default=0) >= digits.outside:
        return False
    by_offsets = source.cut.offsets is not None or target.cut.offsets is not None
    return by_offsets and not (target.cut.low or target.cut.high) and prod(target.cut.sizes) > starts.MOST_LISTED


def sum_aligned(source: Cut, target: Cut, weigh: Callable[[int], int]) -> tuple[int, tuple[dict[int, int], ...]]:
    """The sum of the overlaps of the i-th parts, and per side the least overlap by size.

    Local.  ``weigh``: the weight of a source's part of a given extent.
    """
    held, wanted = starts_of(source), starts_of(target)
    total = 0
    found: tuple[dict[int, int], ...] = ({}, {})
    for at, levels in stretches(held, wanted):
        start, stop, low, high = held[at], held[at + 1], wanted[at], wanted[at + 1]
        copies, drifts = 1, []
        for times, period in levels:
            drift = (held[at + period] - start) - (wanted[at + period] - low) if times > 1 else 0
            if drift:
                drifts.append((times, drift))
            else:
                copies *= times
        most, ahead, behind = min(stop - start, high - low), stop - low, high - start
        drifts.sort(key=lambda each: (-each[0], abs(each[1])))  # most steps are summed at once
        total += copies * _sum(most, ahead, behind, drifts)
        ends = [sum([pick(0, (times - 1) * drift) for times, drift in drifts]) for pick in (min, max)]
        least = min([Overlap(most, ahead, behind, end).after(1) for end in ends])
        for side, size in enumerate((weigh(stop - start), high - low)):
            found[side][size] = min(found[side].get(size, least), least)
    return total, found


def _sum(most: int, ahead: int, behind: int, drifts: list[tuple[int, int]]) -> int:
    """The sum of overlaps after any numbers of steps of (times, drift) each; arguments as of `Overlap`."""
    if not drifts:
        return Overlap(most, ahead, behind, 0).after(0)
    *inner, (times, drift) = drifts
    if not inner:
        return Overlap(most, ahead, behind, drift).sum(times)
    # Only those steps are followed after which any of the inner ones meet.
    back, forth = (sum([pick(0, (n - 1) * each) for n, each in inner]) for pick in (min, max))
    reach = ahead + forth, behind - back
    before, after = reach if drift > 0 else reach[::-1]
    first, stop = max(-before // abs(drift) + 1, 0), min(-(-after // abs(drift)), times)
    return sum([_sum(most, ahead + i * drift, behind - i * drift, inner) for i in range(first, stop)])
