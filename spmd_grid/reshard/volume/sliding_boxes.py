"""Closed-form sum and minimum of the overlaps of two sliding boxes.

In one dimension the overlap of two intervals rises from 0, stays, and falls back to 0 as one passes the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

__all__ = ["Boxes", "Overlap", "common_cells", "sliding_overlaps"]

# The intervals of two boxes, by dimension.
Boxes = tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]]


def common_cells(ours: Sequence[tuple[int, int]], theirs: Sequence[tuple[int, int]]) -> int:
    """The number of cells that two boxes share, given by their intervals.  Local."""
    return prod(max(min(b, d) - max(a, c), 0) for (a, b), (c, d) in zip(ours, theirs, strict=True))


def sliding_overlaps(first: Boxes, second: Boxes, n: int) -> tuple[int, int]:
    """(minimum, sum) of the overlaps of two boxes in ``n`` positions.

    Local.  ``first`` and ``second`` are the first two positions; from each to the next, both boxes shift equally.

    >>> sliding_overlaps(([(0, 3)], [(2, 4)]), ([(1, 4)], [(2, 4)]), 4)  # 1, 2, 2, 1 cells
    (1, 6)
    """
    least_by_end, constant, moving = [1, 1], 1, []
    for (a, b), (c, d), (e, _), (g, _) in zip(*first, *second):
        drift = (e - a) - (g - c)
        overlap = Overlap(min(b - a, d - c), b - c, d - a, drift)
        least_by_end = [overlap.after(0) * least_by_end[0], overlap.after(n - 1) * least_by_end[1]]
        if drift:
            moving.append(overlap)
        else:
            constant *= overlap.after(0)
    # Each is concave where it is not 0, so their product has one summit, and is least at an end.
    if not constant or not moving:
        return least_by_end[0], constant * n
    if len(moving) == 1:
        return min(least_by_end), constant * moving[0].sum(n)
    return min(least_by_end), constant * sum([prod([each.after(i) for each in moving]) for i in range(n)])


class Overlap(NamedTuple):
    """The overlap of [a, b) and [c, d), where the first shifts by ``drift`` a step relative to the second.

    Local.  ``most``: the length of the shorter one.  ``ahead``: b - c before the first step.  ``behind``: d - a then.
    """

    most: int
    ahead: int
    behind: int
    drift: int

    def after(self, steps: int) -> int:
        """The overlap after ``steps``.  Local."""
        moved = steps * self.drift
        return max(0, min(self.most, self.ahead + moved, self.behind - moved))

    def sum(self, n: int) -> int:
        """The sum of the overlaps after 0 to n - 1 steps, where there is a drift.

        Local.  It is a sum of four ramps, which begin where the overlap starts to rise, stays equal, falls, and ends.
        """
        start, step = (self.ahead, self.drift) if self.drift > 0 else (self.behind, -self.drift)
        end = start - (self.ahead + self.behind)
        up, down = (start, end), (start - self.most, end + self.most)
        return sum(_ramp(x, step, n) for x in up) - sum(_ramp(x, step, n) for x in down)


def _ramp(start: int, step: int, n: int) -> int:
    """The sum of max(0, start + i * step) over 0 <= i < n, for step > 0."""
    first = max(0, -(start // step))
    count = n - first
    return count * (start + first * step) + step * (count * (count - 1) // 2) if count > 0 else 0
