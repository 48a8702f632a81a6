"""The overlaps of a dimension that the same digits cut on both sides, where blocks are very many, in closed form.

Then block i of the source meets block i of the target, on one device.  Blocks lie in stretches, in which from one to
the next both shift by a fixed number of cells each, and so do stretches that repeat: overlaps are sums of series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from typing import NamedTuple

from spmd_grid.grid import starts
from spmd_grid.grid.starts import stretches
from spmd_grid.reshard.geometry.cuts import CutDimension
from spmd_grid.reshard.volume.descent import Descent, starts_of, windows_of
from spmd_grid.reshard.volume.digits import SOURCE, TARGET, Digits
from spmd_grid.reshard.volume.sliding_boxes import Overlap

__all__ = ["are_aligned", "sum_aligned"]


def are_aligned(source: Descent, target: Descent, digits: Digits) -> bool:
    """Whether the same digits cut both sides, of devices that are in both grids, into very many blocks.

    Local.  Not where both follow a rule without halos: few kinds of blocks meet there, which a search finds.
    """
    names = [digit.name for digit in source.digits]
    if names != [digit.name for digit in target.digits] or max(names, default=0) >= digits.outside:
        return False
    before, after = source.cut, target.cut
    by_rule = before.offsets is None and after.offsets is None and not (after.low or after.high)
    return prod(after.sizes) > starts.MOST_LISTED and not by_rule


def sum_aligned(
    source: CutDimension, target: CutDimension, weigh: Callable[[int], int]
) -> tuple[int, tuple[dict[int, int], ...]]:
    """The sum of the overlaps of the i-th parts, and per side the least overlap by size, of sizes that no other beats.

    Local.  ``weigh``: the weight of a source's part of a given extent.
    """
    held, (below, above) = starts_of(source), windows_of(target)
    total = 0
    found: tuple[dict[int, int], ...] = ({}, {})

    def note(side: int, size: int, overlap: int) -> None:
        found[side][size] = min(found[side].get(size, overlap), overlap)

    for _, (start, low, last), (extent, _, needed), levels in stretches(held, below, above):
        stop, high = start + extent, last + needed
        shifts = [(times, *each) for times, _, each in levels if times > 1]
        most, ahead, behind = stop - start, stop - low, high - start
        follows_stop = False  # whether overlaps follow the window's stop, not its start
        if all(lower == upper for _, _, lower, upper in shifts):
            most = min(most, high - low)
        elif high == target.extent:  # the end of the domain, which no part passes
            behind += 3 * target.extent
        else:  # the start of the domain
            ahead += 3 * target.extent
            follows_stop = True
        copies, steps = 1, []
        for times, own, lower, upper in shifts:
            if own == lower == upper:
                copies *= times
            else:
                steps.append(_Steps(times, own - (upper if follows_stop else lower), upper - lower))
        steps.sort(key=lambda each: (-each.times, abs(each.drift)))  # most steps are summed at once
        sum_ = copies * _sum(most, ahead, behind, steps)
        ends = [sum([pick(0, each.drift * (each.times - 1)) for each in steps]) for pick in (min, max)]
        least = min([Overlap(most, ahead, behind, end).after(1) for end in ends])
        total += sum_
        note(SOURCE, weigh(stop - start), least)
        if all(not each.growth for each in steps):
            note(TARGET, high - low, least)
            continue
        for moved, grown in _extremes(steps, ahead, behind, 0 if least or not sum_ else 1):
            note(TARGET, high - low + grown, Overlap(most, ahead, behind, moved).after(1))
    return total, found


class _Steps(NamedTuple):
    """Steps from a block to the next: how many blocks, what the source shifts by against the target, which grows."""

    times: int
    drift: int
    growth: int


def _extremes(steps: list[_Steps], ahead: int, behind: int, n_inner: int) -> Iterator[tuple[int, int]]:
    """(drift, growth) of blocks among which growth less overlap is largest.

    The corners; with ``n_inner``, of every row along the first steps, its ends and the blocks where overlaps begin.
    """
    choices = []
    for n, each in enumerate(steps):
        choices.append({0, each.times - 1} if not n_inner or n == 0 else set(range(each.times)))
    for chosen in product(*choices[n_inner:]):
        outer = list(zip(steps[n_inner:], chosen))
        drift = sum([i * each.drift for each, i in outer])
        growth = sum([i * each.growth for each, i in outer])
        if not n_inner:
            yield drift, growth
            continue
        inner = steps[0]
        near = {0, inner.times - 1}
        if inner.drift:
            for gap in (-ahead - drift, behind - drift):
                near |= {gap // inner.drift + i for i in (-1, 0, 1, 2)}
        for i in near:
            if 0 <= i < inner.times:
                yield drift + i * inner.drift, growth + i * inner.growth


def _sum(most: int, ahead: int, behind: int, steps: list[_Steps]) -> int:
    """The sum of overlaps after any numbers of all steps; arguments as of `Overlap`."""
    if not steps:
        return Overlap(most, ahead, behind, 0).after(0)
    *inner, (times, drift, _) = steps
    if not drift:
        return times * _sum(most, ahead, behind, inner)
    if not inner:
        return Overlap(most, ahead, behind, drift).sum(times)
    # Only those steps are followed after which any of the inner ones meet.
    back, forth = (sum([pick(0, (n - 1) * each) for n, each, _ in inner]) for pick in (min, max))
    reach = ahead + forth, behind - back
    before, after = reach if drift > 0 else reach[::-1]
    first, stop = max(-before // abs(drift) + 1, 0), min(-(-after // abs(drift)), times)
    return sum([_sum(most, ahead + i * drift, behind - i * drift, inner) for i in range(first, stop)])
