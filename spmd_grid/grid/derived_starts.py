"""Starts of blocks that follow from others: mapped, with another end, from the other side; and their changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from math import gcd

from spmd_grid.grid.starts import BlockStarts, Run, Starts, blocks_of, cells_of

__all__ = ["changes", "changes_of_groups", "extents_of", "mapped", "turned", "with_end", "with_extents", "with_start"]


def mapped(starts: BlockStarts, by: Callable[[int], int], breaks: Sequence[int] = (), modulus: int = 1) -> BlockStarts:
    """``by`` of each of ``starts``, a function that is linear between its ``breaks``, on steps of the ``modulus``.

    Local.  Closed form.

    >>> mapped((0, 4, 8, 9), lambda start: min(max(start - 1, 0), 6), [1, 7])
    (0, 3, 6, 6)
    """
    if not isinstance(starts, Starts):
        return tuple([by(start) for start in starts])
    return Starts(by(starts[0]), _mapped(starts.runs, starts[0], by, breaks, modulus))


def _mapped(
    runs: Iterable[Run], start: int, by: Callable[[int], int], breaks: Sequence[int], modulus: int
) -> list[Run]:
    """The runs of what `mapped` gives for ``runs`` from ``start`` on."""
    found: list[Run] = []

    def once(unit: int | Starts, at: int) -> list[Run]:
        if isinstance(unit, Starts):
            return _mapped(unit.runs, at, by, breaks, modulus)
        return [(1, by(at + unit) - by(at))]

    for count, unit in runs:
        cells = cells_of(unit)
        near = set()  # repetitions at breaks
        if cells:
            for each in breaks:
                near |= {(each - start) // cells, -((start - each) // cells) - 1}
        period = modulus // gcd(cells, modulus)  # as many repetitions are a multiple of the modulus
        at = 0
        for end in sorted({each for each in near if 0 <= each < count} | {count}):
            times, left = divmod(end - at, period)
            groups: list[Run] = []
            for i in range(period if times else left):
                if i == left and times:
                    part = list(groups)
                groups += once(unit, start + (at + i) * cells)
            if times:
                found.append((times, Starts(0, groups)))
                found += part
            else:
                found += groups
            if end < count:
                found += once(unit, start + end * cells)
            at = end + 1
        start += count * cells
    return found


def with_end(starts: BlockStarts, end: int) -> BlockStarts:
    """The same starts, with another end.  Local."""
    if starts[-1] == end:
        return starts
    if not isinstance(starts, Starts):
        return (*starts[:-1], end)
    return Starts(starts[0], [*starts.runs_within(0, len(starts) - 2), (1, end - starts[-2])])


def with_start(starts: BlockStarts, first: int) -> BlockStarts:
    """The same starts, but for the first.  Local."""
    if starts[0] == first:
        return starts
    if not isinstance(starts, Starts):
        return (first, *starts[1:])
    return Starts(first, [(1, starts[1] - first), *starts.runs_within(1, len(starts) - 1)])


def with_extents(starts: BlockStarts, by: Callable[[int], int]) -> BlockStarts:
    """The starts from 0 of equally many blocks, each with ``by`` of the extent that it has in ``starts``.  Local.

    >>> with_extents((0, 4, 8, 8), lambda extent: min(extent, 1))
    (0, 1, 2, 2)
    """
    if not isinstance(starts, Starts):
        return tuple(accumulate([by(b - a) for a, b in pairwise(starts)], initial=0))

    def runs(of: Starts) -> list[Run]:
        return [(n, Starts(0, runs(unit)) if isinstance(unit, Starts) else by(unit)) for n, unit in of.runs]

    return Starts(0, runs(starts))


def extents_of(starts: BlockStarts) -> Counter[int]:
    """The number of blocks by extent.  Local."""
    return starts.extents() if isinstance(starts, Starts) else Counter([b - a for a, b in pairwise(starts)])


def changes(starts: BlockStarts, low: int, high: int) -> list[int]:
    """The blocks between the first and the last of blocks ``[low, high)`` that are not as long as the one before.

    Local.

    >>> changes((0, 4, 8, 9, 9), 0, 4)
    [2, 3]
    """
    if isinstance(starts, Starts):
        found, at, before = [], low, None
        for count, extent in Starts(0, starts.runs_within(low, high)).flat():
            if before is not None and extent != before:
                found.append(at)
            at, before = at + count, extent
        return found
    return [i for i in range(low + 1, high) if starts[i + 1] - starts[i] != starts[i] - starts[i - 1]]


def changes_of_groups(starts: Starts, low: int, high: int, size: int) -> list[int]:
    """As `changes`, by groups of ``size`` consecutive blocks from ``low`` on: also groups may be given that are alike.

    Local.  Numbers of groups.

    >>> from spmd_grid.grid.starts import Starts
    >>> changes_of_groups(Starts(0, [(4, Starts(0, [(1, 5), (1, 3)])), (2, 1)]), 0, 10, 2)
    [4]
    """
    ends = {0, (high - low) // size}
    _mark_groups(starts.runs_within(low, high), 0, size, ends)
    return sorted(ends)[1:-1]


def _mark_groups(runs: Iterable[Run], at: int, size: int, ends: set[int]) -> None:
    for count, unit in runs:
        n = blocks_of(unit)
        stop = at + count * n
        if isinstance(unit, Starts) and size % n:
            if n < size:
                ends.update(range(at // size, -(-stop // size)))
            else:
                for i in range(count):
                    _mark_groups(unit.runs, at + i * n, size, ends)
        ends |= {at // size, -(-at // size), stop // size, -(-stop // size)}
        at = stop


def turned(starts: BlockStarts, extent: int) -> BlockStarts:
    """The starts of the same blocks counted from the other end of ``extent`` cells.  Local.

    >>> turned((0, 4, 8, 9), 9)
    (0, 1, 5, 9)
    """
    if not isinstance(starts, Starts):
        return tuple([extent - start for start in reversed(starts)])
    return Starts(extent - starts[-1], starts.turned())
