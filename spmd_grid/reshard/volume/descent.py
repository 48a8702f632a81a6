"""All parts of a cut at once: a walk down its digits that groups the choices below which everything is alike.

Axes that cut a dimension leave few different extents: 65,543 cells over 1024 x 1024 devices are 1008 times 65 cells,
once 23, and 15 times none, each again cut into a few kinds.  A sum or a maximum over all parts therefore takes one step
per kind, not one per part.  Parts also differ where their halos stick out of the domain.

The digits of a cut need not be the coordinates on its axes: an axis of 6 may be walked as 2 x 3, the first digit
choosing three consecutive parts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from math import prod
from typing import NamedTuple

from spmd_grid.grid.blocks import block_starts, part_interval
from spmd_grid.grid.derived_starts import changes, changes_of_groups, mapped
from spmd_grid.grid.starts import BlockStarts, Starts, stretches
from spmd_grid.reshard.geometry.cuts import CutDimension

__all__ = ["Descent", "Digit", "Prefix", "common_axes", "same_rule", "longest_and_total", "starts_of", "windows_of"]


class Digit(NamedTuple):
    """The digit ``name``, one of ``size`` choices; each choice has ``width`` parts of level ``level`` of the cut."""

    name: int
    size: int
    level: int
    width: int


class Prefix(NamedTuple):
    """The parts below the first ``depth`` digits: their cells ``[start, stop)``, and their position in the cut's level.

    The level cuts ``[low, high)``; its first part has position ``first``; ``part`` is the first one of this prefix.
    """

    depth: int
    first: int
    low: int
    high: int
    part: int
    start: int
    stop: int


class Descent:
    """A cut and the digits of its parts, major to minor.  Local."""

    __slots__ = ("core", "cut", "digits", "root")

    def __init__(self, cut: CutDimension, digits_of_axis: Mapping[int, Sequence[tuple[int, int]]] | None = None):
        """``digits_of_axis``: (name, size) of the digits of each axis, major to minor; None where each axis is one."""
        self.cut = cut
        self.core = CutDimension(cut.extent, cut.axes, cut.sizes, cut.blocks, cut.offsets)
        digits = []
        for level, axis in enumerate(cut.axes):
            width = cut.sizes[level]
            for name, size in ((axis, width),) if digits_of_axis is None else digits_of_axis[axis]:
                width //= size
                digits.append(Digit(name, size, level, width))
        self.digits = tuple(digits)
        self.root = Prefix(0, 0, 0, cut.extent, 0, 0, cut.extent)

    def is_part(self, prefix: Prefix) -> bool:
        """Whether all digits are known.  Local."""
        return prefix.depth == len(self.digits)

    def window(self, prefix: Prefix) -> tuple[int, int]:
        """The cells of a prefix and its halos, as far as in the domain.  Local."""
        return max(prefix.start - self.cut.low, 0), min(prefix.stop + self.cut.high, self.cut.extent)

    def step(self, prefix: Prefix, choice: int) -> Prefix:
        """The prefix that ``choice`` for the next digit leads to.  Local."""
        depth, first, low, high, part, _, _ = prefix
        _, _, level, width = self.digits[depth]
        part += choice * width
        start, stop = self.cut.child(level, first, low, high, part)
        if width == 1:
            return Prefix(depth + 1, first + part * self.cut.rests[level], start, stop, 0, start, stop)
        stop = self.cut.child(level, first, low, high, part + width - 1)[1]
        return Prefix(depth + 1, first, low, high, part, start, stop)

    def meeting(self, prefix: Prefix, low: int, high: int) -> range:
        """The choices of the next digit below which a part, halos included, may meet ``[low, high)``.  Local."""
        return self._choices(prefix, self.cut, low, high)

    def _choices(self, prefix: Prefix, cut: CutDimension, low: int, high: int) -> range:
        digit = self.digits[prefix.depth]
        parts = cut.children(digit.level, prefix.first, prefix.low, prefix.high, low, high)
        if not parts:
            return range(0)
        start, stop = (parts.start - prefix.part) // digit.width, -((prefix.part - parts.stop) // digit.width)
        return range(max(start, 0), min(stop, digit.size))

    def groups(self, prefix: Prefix) -> list[range]:
        """The choices of the next digit, in groups of consecutive ones below which everything is alike.  Local.

        Alike: the same extents, windows included, at the same distances.  The choices of a group have consecutive
        cells, the same number each.
        """
        digit, cut = self.digits[prefix.depth], self.cut
        begin, width = prefix.part, digit.width
        end = begin + digit.size * width
        if cut.offsets is None:
            marks: Sequence[int] = _changes(prefix.high - prefix.low, cut.sizes[digit.level], cut.blocks)
        elif cut.rests[digit.level] == 1:
            marks = [at - prefix.first for at in changes(cut.offsets, prefix.first + begin, prefix.first + end)]
        elif isinstance(cut.offsets, Starts):
            rest = cut.rests[digit.level]
            low, high = prefix.first + begin * rest, prefix.first + end * rest
            marks = [begin + at for at in changes_of_groups(cut.offsets, low, high, rest)]
        else:
            marks = range(begin, end)
        ends = {0, digit.size}
        for mark in marks:
            if begin < mark < end:
                ends |= {(mark - begin) // width, -((begin - mark) // width)}
        if cut.low or cut.high:
            for low, high in ((0, cut.low), (cut.extent - cut.high, cut.extent)):
                clipped = self._choices(prefix, self.core, low, high)
                if clipped:
                    ends.update(range(clipped.start, clipped.stop + 1))
        return [range(a, b) for a, b in pairwise(sorted(ends))]

    def kind(self, prefix: Prefix) -> Hashable:
        """A key that is equal for prefixes of this cut below which everything is alike.  Local."""
        depth, first, low, high, part, start, stop = prefix
        where: Hashable = None
        if start < self.cut.low or stop > self.cut.extent - self.cut.high:
            where = start
        offsets = self.cut.offsets
        if offsets is None or depth == len(self.digits):
            return depth, high - low, part, where
        if not isinstance(offsets, Starts):
            return depth, high - low, part, where, first
        level = self.digits[depth].level
        blocks = Starts(0, offsets.runs_within(first, first + self.cut.sizes[level] * self.cut.rests[level]))
        return depth, high - low, part, where, blocks

    def below(self, prefix: Prefix, known: Mapping[int, int], depth: int | None = None) -> list[tuple[Prefix, int]]:
        """One prefix of each kind below ``prefix``, and the number of that kind.  Local.

        ``known``: digits that are given, by name.  ``depth``: of the prefixes; None for parts.
        """
        found = [(prefix, 1)]
        for digit in self.digits[prefix.depth : depth]:
            kinds: dict[Hashable, tuple[Prefix, int]] = {}
            for above, count in found:
                choice = known.get(digit.name)
                for group in self.groups(above) if choice is None else (range(choice, choice + 1),):
                    each = self.step(above, group.start)
                    kind = self.kind(each)
                    same, others = kinds.get(kind, (each, 0))
                    kinds[kind] = same, others + count * len(group)
            found = list(kinds.values())
        return found

    def extents(self, prefix: Prefix | None = None, known: Mapping[int, int] | None = None) -> list[tuple[int, int]]:
        """(cells, number of parts with that many) of the parts below ``prefix``, halos in the domain included.  Local.

        All parts for None.  ``known`` as for `below`.  Extents may occur more than once.
        """
        offsets, has_halos = self.cut.offsets, self.cut.low or self.cut.high
        if prefix is None and not known and isinstance(offsets, Starts) and not has_halos:
            return list(offsets.extents().items())
        found = self.below(self.root if prefix is None else prefix, known or {})
        return [(high - low, n) for part, n in found for low, high in [self.window(part)]]

    def count(self, low: int, high: int, prefix: Prefix | None = None) -> int:
        """The number of parts with a cell in ``[low, high)``, halos not counted.  Local."""
        starts = starts_of(self.cut) if prefix is None else None
        if isinstance(starts, Starts):
            low, high = max(low, 0), min(high, self.cut.extent)
            if low >= high:
                return 0
            met = Starts(0, starts.runs_within(bisect_right(starts, low) - 1, bisect_left(starts, high)))
            return sum([n for cells, n in met.extents().items() if cells])
        prefix = self.root if prefix is None else prefix
        if max(prefix.start, low) >= min(prefix.stop, high):
            return 0
        if self.is_part(prefix):
            return 1
        if low <= prefix.start and prefix.stop <= high:
            return sum(n for part, n in self.below(prefix, {}) if part.start < part.stop)
        choices = self._choices(prefix, self.core, low, high)
        total = 0
        for group in self.groups(prefix):
            # All but the outermost ones lie within.
            within = range(max(group.start, choices.start + 1), min(group.stop, choices.stop - 1))
            if within:
                total += len(within) * self.count(low, high, self.step(prefix, within.start))
        for choice in {choices.start, choices.stop - 1}:
            total += self.count(low, high, self.step(prefix, choice))
        return total


def windows_of(cut: CutDimension) -> tuple[BlockStarts, BlockStarts]:
    """The starts of the parts, halos in the domain included; and their stops, one after each start.  Local."""
    return _windows(starts_of(cut), cut.extent, cut.low, cut.high)


@lru_cache(256)
def _windows(starts: BlockStarts, extent: int, low: int, high: int) -> tuple[BlockStarts, BlockStarts]:
    below = mapped(starts, lambda start: max(start - low, 0), [low]) if low else starts
    above = mapped(starts, lambda stop: min(stop + high, extent), [extent - high]) if high else starts
    return below, above


def longest_and_total(cut: CutDimension) -> tuple[int, int]:
    """The cells of the longest part and of all parts together, halos in the domain included.  Local."""
    return _longest_and_total(cut.extent, cut.sizes, cut.blocks, cut.offsets, cut.low, cut.high)


@lru_cache(1024)
def _longest_and_total(
    extent: int, sizes: tuple[int, ...], blocks: str, offsets: BlockStarts | None, low: int, high: int
) -> tuple[int, int]:
    cut = CutDimension(extent, range(len(sizes)), sizes, blocks, offsets, (low, high))
    below, above = windows_of(cut)
    if not isinstance(below, Starts) or not (low or high):
        found = Descent(cut).extents()
        return max(cells for cells, _ in found), sum(cells * n for cells, n in found)
    longest = total = 0
    for _, (start, end), (_, extent), levels in stretches(below, above):
        first, times = end + extent - start, [n for n, _, _ in levels]
        grown = [(n - 1) * (upper - lower) for n, _, (lower, upper) in levels if n > 1]
        longest = max(longest, first + sum([each for each in grown if each > 0]))
        total += prod(times) * (2 * first + sum(grown)) // 2  # the mean is that of the first and the last
    return longest, total


def starts_of(cut: CutDimension) -> BlockStarts:
    """The starts of the parts, and the end.  Local."""
    return _starts_by_rule(cut.extent, cut.sizes, cut.blocks) if cut.offsets is None else cut.offsets


_starts_by_rule = lru_cache(256)(block_starts)


def common_axes(source: CutDimension, target: CutDimension) -> int:
    """The number of leading axes that cut both sides alike, so that parts which differ there do not meet.  Local.

    For cuts on one grid.
    """
    if target.low or target.high or not same_rule(source, target):
        return 0
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(source.axes, target.axes)))


def same_rule(a: CutDimension, b: CutDimension) -> bool:
    """Whether equal axes cut equal intervals alike.  Local."""
    return a.blocks == b.blocks and a.offsets is None and b.offsets is None


@lru_cache(maxsize=4096)
def _changes(extent: int, parts: int, blocks: str) -> tuple[int, ...]:
    """The parts that are shorter than the one before when one axis cuts ``extent`` cells; none is longer.

    >>> _changes(7, 3, "ceil"), _changes(7, 3, "balanced"), _changes(4, 8, "ceil"), _changes(6, 3, "ceil")
    ((2,), (1,), (4,), ())
    """

    def less(part: int) -> int:
        start, stop = part_interval(extent, parts, part, blocks)
        return start - stop

    changes: list[int] = []
    part = 0
    while True:
        part = bisect_left(range(parts), less(part) + 1, part, key=less)
        if part == parts:
            return tuple(changes)
        changes.append(part)
