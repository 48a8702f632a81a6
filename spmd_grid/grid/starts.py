"""The starts of very many blocks, and the end, as runs and repeated runs: closed form for a million devices.

A block rule gives blocks of few extents, in few runs.  Where several axes cut unevenly, or a slice has a step, runs
themselves repeat: 1024 x 1024 devices have two kinds of two runs, each hundreds of times.  What follows from a rule is
of this kind too: blocks of a slice, of a shifted array, or those clipped at an edge.  Offsets of up to `MOST_LISTED`
blocks are plain tuples; the number of blocks alone decides, so equal offsets are always of one type.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise, product
from math import lcm
from typing import NamedTuple, TypeAlias, Union, overload

import numpy as np
from numpy.typing import DTypeLike

__all__ = [
    "MOST_LISTED",
    "BlockStarts",
    "Run",
    "Starts",
    "blocks_of",
    "cells_of",
    "compact",
    "linear_parts",
    "of_runs",
    "stretches",
]

MOST_LISTED = 256  # blocks; as runs, fewer would gain nothing

Run: TypeAlias = tuple[int, Union[int, "Starts"]]  # a number of blocks and the extent of each, or of groups of blocks

Shifts: TypeAlias = tuple[int, ...]  # of each of several starts


class Stretch(NamedTuple):
    """A block that repeats: its number, and where it begins and how long it is by each of several starts.

    ``levels``: how often what is below repeats, after how many blocks, and by how many cells the starts then shift.
    """

    at: int
    values: Shifts
    extents: Shifts
    levels: tuple[tuple[int, int, Shifts], ...]


class Starts(Sequence[int]):
    """Integers of which neighbours differ by few different amounts: ``first``, and ``runs`` of (count, difference).

    Instead of a difference a run may have starts from 0, of a group of blocks that it repeats.  A sequence as a tuple
    is, and equal to that of the same integers.

    >>> starts = Starts(0, [(3, 4), (1, 2), (2, 0)])
    >>> list(starts), starts[3], len(starts)
    ([0, 4, 8, 12, 14, 14, 14], 12, 7)
    >>> list(Starts(0, [(2, Starts(0, [(1, 5), (2, 3)]))]))
    [0, 5, 8, 11, 16, 19, 22]
    """

    __slots__ = ("_at", "_equals", "_first", "_hash", "_runs", "_values")

    def __init__(self, first: int, runs: Iterable[Run]):
        kept: list[Run] = []
        for run in runs:
            for count, unit in _plain(run):
                if kept and kept[-1][1] == unit:
                    kept[-1] = kept[-1][0] + count, unit
                elif count:
                    kept.append((count, unit))
        self._first = first
        self._runs = tuple(kept)
        self._at = [0, *accumulate([count * blocks_of(unit) for count, unit in kept])]
        cells = [count * cells_of(unit) for count, unit in kept]
        self._values = [first, *accumulate(cells, initial=first)][1:]
        self._hash: int | None = None
        self._equals = object()  # one for all that were found to be equal

    @property
    def runs(self) -> tuple[Run, ...]:
        """(number of blocks, extent) of each run, or (number of groups, starts of the blocks of one)."""
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
        found: list[Run] = []
        for run in range(bisect_right(self._at, low) - 1, len(self._runs)):
            at, unit = self._at[run], self._runs[run][1]
            if at >= high:
                break
            begin, end = max(low - at, 0), min(high, self._at[run + 1]) - at
            if not isinstance(unit, Starts):
                found.append((end - begin, unit))
                continue
            n = blocks_of(unit)
            (i, skipped), (j, left) = divmod(begin, n), divmod(end, n)
            if i == j:
                found += unit.runs_within(skipped, left)
                continue
            if skipped:
                found += unit.runs_within(skipped, n)
                i += 1
            if i < j:
                found.append((j - i, unit))
            if left:
                found += unit.runs_within(0, left)
        return tuple(found)

    def flat(self) -> Iterator[tuple[int, int]]:
        """(number of blocks, extent) of runs in order, every repetition by itself; neighbours may be alike."""
        for count, unit in self._runs:
            if not isinstance(unit, Starts):
                yield count, unit
                continue
            for _ in range(count):
                yield from unit.flat()

    def extents(self) -> Counter[int]:
        """The number of blocks by extent."""
        found: Counter[int] = Counter()
        for count, unit in self._runs:
            if isinstance(unit, Starts):
                found.update({extent: n * count for extent, n in unit.extents().items()})
            else:
                found[unit] += count
        return found

    def turned(self) -> list[Run]:
        """The runs from the last to the first."""
        return [
            (count, Starts(0, unit.turned()) if isinstance(unit, Starts) else unit)
            for count, unit in reversed(self._runs)
        ]

    def __len__(self) -> int:
        return self._at[-1] + 1

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...
    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        if isinstance(at, slice):
            return tuple([self[i] for i in range(*at.indices(len(self)))])
        ends = self._at
        if at < 0:
            at += ends[-1] + 1
        if not 0 <= at <= ends[-1]:
            raise IndexError(f"offset {at} of {len(self)}")
        run = bisect_right(ends, at) - 1
        value, at = self._values[run], at - ends[run]
        if not at:
            return value
        unit = self._runs[run][1]
        if not isinstance(unit, Starts):
            return value + at * unit
        times, left = divmod(at, unit._at[-1])
        return value + times * unit._values[-1] + (unit[left] if left else 0)

    def __iter__(self) -> Iterator[int]:
        value = self._first
        yield value
        for count, extent in self.flat():
            for _ in range(count):
                value += extent
                yield value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Starts):
            if self._equals is other._equals:
                return True
            if len(self) != len(other) or hash(self) != hash(other):
                return False
            if self._first != other._first or self._runs != other._runs:
                # Differences that are linear and 0 at the ends are 0.
                if any(self[at] != other[at] or self[at + 1] != other[at + 1] for at in linear_parts(self, other)):
                    return False
            other._equals = self._equals
            return True
        if isinstance(other, tuple | list):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other))
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:  # by some of the integers: equal ones may be made of other runs
            last = len(self) - 1
            self._hash = hash((last, *[self[max(at, 0)] for at in (0, last // 3, last // 2, last - 1, last)]))
        return self._hash

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.fromiter(self, np.int64, len(self)).astype(dtype or np.int64, copy=False)

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __str__(self) -> str:
        """The integers, most of them left out."""
        return f"{self[0]}, {self[1]}, {self[2]}, ..., {self[-1]}" if len(self) > 4 else ", ".join(map(str, self))


BlockStarts: TypeAlias = tuple[int, ...] | Starts


def blocks_of(unit: int | Starts) -> int:
    """The number of blocks in what a run repeats.  Local."""
    return unit._at[-1] if type(unit) is Starts else 1


def cells_of(unit: int | Starts) -> int:
    """The number of cells in what a run repeats.  Local."""
    return unit._values[-1] if type(unit) is Starts else unit  # type: ignore[return-value]


def _plain(run: Run) -> Sequence[Run]:
    """The runs that a run is: those of a group that occurs once, or one run where groups consist of one."""
    count, unit = run
    if type(unit) is not Starts:  # isinstance is slow to say no
        return (run,)
    if count < 2:
        return unit.runs * count
    if len(unit.runs) == 1:
        ((each, inner),) = unit.runs
        return ((count * each, inner),)
    return (run,)


def compact(values: Sequence[int]) -> BlockStarts:
    """The same integers, as runs where they are many."""
    if isinstance(values, Starts) or len(values) <= MOST_LISTED + 1:
        return values if isinstance(values, Starts) else tuple(values)
    differences = groupby(b - a for a, b in pairwise(values))
    return Starts(values[0], [(sum(1 for _ in same), extent) for extent, same in differences])


def of_runs(runs: Iterable[Run], first: int = 0) -> BlockStarts:
    """The starts of blocks that begin at ``first``, and their end."""
    starts = Starts(first, runs)
    return starts if len(starts) > MOST_LISTED + 1 else tuple(starts)


def linear_parts(*several: BlockStarts) -> list[int]:
    """Numbers of blocks at which what is linear in the starts and ends of ``several`` is largest, and least.

    Local.  For offsets of equally many blocks, which lie in stretches of equal extents each: also where the linear is
    looked for among some stretches only, such as those with cells.

    >>> linear_parts(Starts(0, [(300, 5)]), Starts(0, [(100, Starts(0, [(2, 4), (1, 7)]))]))
    [0, 1, 2, 297, 298, 299]
    """
    found = set()
    for at, _, _, levels in stretches(*several):
        found |= {at + sum(ends) for ends in product(*[{0, (times - 1) * period} for times, period, _ in levels])}
    return sorted(found)


def stretches(*several: BlockStarts) -> list[Stretch]:
    """Stretches of blocks in which the starts of all of ``several`` shift by a fixed number, and extents are equal.

    Local.  For offsets of equally many blocks.

    >>> one, other = stretches(Starts(0, [(9, 5)]), Starts(0, [(3, Starts(0, [(2, 4), (1, 7)]))]))
    >>> one
    Stretch(at=0, values=(0, 0), extents=(5, 4), levels=((3, 3, (15, 15)), (2, 1, (5, 4))))
    >>> other
    Stretch(at=2, values=(10, 8), extents=(5, 7), levels=((3, 3, (15, 15)), (1, 1, (5, 7))))
    """
    runs = [each.runs for each in several if isinstance(each, Starts)]
    if len(runs) < len(several):
        return [
            Stretch(at, values, tuple([b - a for a, b in zip(values, ends)]), ())
            for at, (values, ends) in enumerate(pairwise(zip(*several)))
        ]
    return _stretches(runs, tuple([each[0] for each in several]))


def _stretches(several: Sequence[Sequence[Run]], values: Shifts) -> list[Stretch]:
    """The stretches of several runs; ``values``: the first start of each."""
    found: list[Stretch] = []
    at = 0
    left = [list(reversed(runs)) for runs in several]  # what is still to come, the next run last
    while all(left):
        blocks = [blocks_of(runs[-1][1]) for runs in left]
        lengths = [runs[-1][0] * n for runs, n in zip(left, blocks)]
        period, shortest = lcm(*blocks), min(lengths)
        times = shortest // period
        if times < 2 and max(blocks) > 1:
            if max(lengths) > shortest:
                _split(left[lengths.index(max(lengths))], shortest)
            else:
                _split(left[blocks.index(max(blocks))], None)
            continue
        shifts = tuple([period // n * cells_of(runs[-1][1]) for runs, n in zip(left, blocks)])
        if period == 1:
            found.append(Stretch(at, values, shifts, ((times, 1, shifts),)))
        else:
            inner = _stretches([[(period // n, runs[-1][1])] for runs, n in zip(left, blocks)], values)
            level = times, period, shifts
            found += [
                Stretch(at + first, begins, extents, (level, *levels)) for first, begins, extents, levels in inner
            ]
        at += times * period
        values = tuple([value + times * shift for value, shift in zip(values, shifts)])
        for runs, n in zip(left, blocks):
            count, unit = runs.pop()
            count -= times * period // n
            runs += [(count, unit)] if count else []
    return found


def _split(left: list[Run], at: int | None) -> None:
    """Cut the next run, the last of ``left``, after ``at`` blocks, or into what it repeats first, and the rest.

    Groups that are cut go on from there: all but the last repeat what begins at the cut.
    """
    count, unit = left.pop()
    if not isinstance(unit, Starts):
        assert at is not None
        left += [(count - at, unit), (at, unit)]
        return
    n = blocks_of(unit)
    times, within = (0, n) if at is None else divmod(at, n)
    head, tail = unit.runs_within(0, within), unit.runs_within(within, n)
    rest = count - times - 1 if within else count - times
    if within and tail:
        left += reversed(tail)
        left += [(rest, Starts(0, [*tail, *head]))] if rest else []
    else:
        left += [(rest, unit)] if rest else []
    left += reversed(head)
    left += [(times, unit)] if times else []
