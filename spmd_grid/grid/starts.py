"""The starts of very many blocks, and the end, as runs of blocks of one extent: closed form for a million devices.

A block rule gives blocks of few extents, in few runs; so does what follows from it: blocks of a slice, of a shifted
array, or those clipped at an edge.  Offsets of up to `MOST_LISTED` blocks are plain tuples; the number of blocks alone
decides, so equal offsets are always of one type.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import DTypeLike

__all__ = [
    "MOST_LISTED",
    "BlockStarts",
    "Starts",
    "changes",
    "compact",
    "linear_parts",
    "mapped",
    "of_runs",
    "turned",
    "with_end",
    "with_start",
]

MOST_LISTED = 256  # blocks; as runs, fewer would gain nothing

Run: TypeAlias = tuple[int, int]  # number of blocks, and the extent of each


class Starts(Sequence[int]):
    """Integers of which neighbours differ by few different amounts: ``first``, and ``runs`` of (count, difference).

    A sequence as a tuple is, and equal to that of the same integers.

    >>> starts = Starts(0, [(3, 4), (1, 2), (2, 0)])
    >>> list(starts), starts[3], len(starts)
    ([0, 4, 8, 12, 14, 14, 14], 12, 7)
    """

    __slots__ = ("_at", "_first", "_runs", "_values")

    def __init__(self, first: int, runs: Iterable[Run]):
        kept: list[Run] = []
        for count, extent in runs:
            if kept and kept[-1][1] == extent:
                kept[-1] = kept[-1][0] + count, extent
            elif count:
                kept.append((count, extent))
        self._first = first
        self._runs = tuple(kept)
        self._at = [0, *accumulate(count for count, _ in kept)]
        self._values = [first, *accumulate([count * extent for count, extent in kept], initial=first)][1:]

    @property
    def runs(self) -> tuple[Run, ...]:
        """(number of blocks, extent) of each run."""
        return self._runs

    @property
    def positions(self) -> list[int]:
        """The number of the first block of every run, and the number of blocks."""
        return self._at

    def runs_within(self, low: int, high: int) -> tuple[Run, ...]:
        """The runs of blocks ``[low, high)``, in part where they begin before or end after them.

        >>> Starts(0, [(3, 4), (1, 2), (2, 0)]).runs_within(1, 5)
        ((2, 4), (1, 2), (1, 0))
        """
        first, last = bisect_right(self._at, low) - 1, bisect_left(self._at, high)
        ends = [low, *self._at[first + 1 : last], high]
        return tuple([(b - a, extent) for (a, b), (_, extent) in zip(pairwise(ends), self._runs[first:last])])

    def __len__(self) -> int:
        return self._at[-1] + 1

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...
    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        if isinstance(at, slice):
            return tuple([self[i] for i in range(*at.indices(len(self)))])
        n = len(self)
        if at < 0:
            at += n
        if not 0 <= at < n:
            raise IndexError(f"offset {at} of {n}")
        run = bisect_right(self._at, at) - 1
        if run == len(self._runs):
            return self._values[run]
        return self._values[run] + (at - self._at[run]) * self._runs[run][1]

    def __iter__(self) -> Iterator[int]:
        value = self._first
        yield value
        for count, extent in self._runs:
            for _ in range(count):
                value += extent
                yield value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Starts):
            return self._first == other._first and self._runs == other._runs
        if isinstance(other, tuple | list):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other))
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self._first, self._runs))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.fromiter(self, np.int64, len(self)).astype(dtype or np.int64, copy=False)

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __str__(self) -> str:
        """The integers, most of them left out."""
        return f"{self[0]}, {self[1]}, {self[2]}, ..., {self[-1]}" if len(self) > 4 else ", ".join(map(str, self))


BlockStarts: TypeAlias = tuple[int, ...] | Starts


def compact(values: Sequence[int]) -> BlockStarts:
    """The same integers, as runs where they are many."""
    if isinstance(values, Starts) or len(values) <= MOST_LISTED + 1:
        return values if isinstance(values, Starts) else tuple(values)
    differences = groupby(b - a for a, b in pairwise(values))
    return Starts(values[0], [(sum(1 for _ in same), extent) for extent, same in differences])


def of_runs(runs: Sequence[Run], first: int = 0) -> BlockStarts:
    """The starts of blocks that begin at ``first``, and their end."""
    if sum(count for count, _ in runs) > MOST_LISTED:
        return Starts(first, runs)
    return tuple(Starts(first, runs))


def mapped(starts: BlockStarts, by: Callable[[int], int], breaks: Sequence[int] = (), modulus: int = 1) -> BlockStarts:
    """``by`` of each of ``starts``, a function that is linear between its ``breaks``, on steps of the ``modulus``.

    Local.  Closed form but where blocks between the first break and the last are no multiples of the modulus.

    >>> mapped((0, 4, 8, 9), lambda start: min(max(start - 1, 0), 6), [1, 7])
    (0, 3, 6, 6)
    """
    if not isinstance(starts, Starts):
        return tuple([by(start) for start in starts])
    knots = set(starts.positions)
    for position, (count, extent) in zip(starts.positions, starts.runs):
        value, stop = starts[position], position + count
        if not extent:
            continue
        near = [position + (each - value) // extent for each in breaks]
        if extent % modulus:
            low, high = (near[0], near[-1]) if near else (position, stop)
            knots |= set(range(max(low, position), min(high + 2, stop) + 1))
        knots |= {at for each in near for at in range(each - 1, each + 3) if position <= at <= stop}
    ordered = sorted(knots)
    values = [by(starts[at]) for at in ordered]
    runs = []
    for (a, b), (low, high) in zip(pairwise(ordered), pairwise(values)):
        extent, left = divmod(high - low, b - a)
        assert not left, (a, b, low, high)  # linear between knots
        runs.append((b - a, extent))
    return Starts(values[0], runs)


def with_end(starts: BlockStarts, end: int) -> BlockStarts:
    """The same starts, with another end.  Local."""
    if starts[-1] == end:
        return starts
    if not isinstance(starts, Starts):
        return (*starts[:-1], end)
    *before, (count, extent) = starts.runs
    return Starts(starts[0], [*before, (count - 1, extent), (1, end - starts[-2])])


def with_start(starts: BlockStarts, first: int) -> BlockStarts:
    """The same starts, but for the first.  Local."""
    if starts[0] == first:
        return starts
    if not isinstance(starts, Starts):
        return (first, *starts[1:])
    (count, extent), *rest = starts.runs
    return Starts(first, [(1, starts[1] - first), (count - 1, extent), *rest])


def changes(starts: BlockStarts, low: int, high: int) -> list[int]:
    """The blocks between the first and the last of blocks ``[low, high)`` that are not as long as the one before.

    Local.

    >>> changes((0, 4, 8, 9, 9), 0, 4)
    [2, 3]
    """
    if isinstance(starts, Starts):
        positions = starts.positions
        return positions[bisect_right(positions, low) : bisect_left(positions, high)]
    return [i for i in range(low + 1, high) if starts[i + 1] - starts[i] != starts[i] - starts[i - 1]]


def turned(starts: BlockStarts, extent: int) -> BlockStarts:
    """The starts of the same blocks counted from the other end of ``extent`` cells.  Local.

    >>> turned((0, 4, 8, 9), 9)
    (0, 1, 5, 9)
    """
    if not isinstance(starts, Starts):
        return tuple([extent - start for start in reversed(starts)])
    return Starts(extent - starts[-1], reversed(starts.runs))


def linear_parts(*several: BlockStarts) -> list[int]:
    """Numbers of blocks, first and last among them, between which all of ``several`` have blocks of one extent.

    Local.  For offsets of equally many blocks: what is linear in their starts and ends is largest at one of these.
    """
    if not all(isinstance(each, Starts) for each in several):
        return list(range(len(several[0]) - 1))
    found = set()
    for each in several:
        assert isinstance(each, Starts)
        for start, stop in pairwise(each.positions):
            found |= {start, stop - 1}
    return sorted(found)
