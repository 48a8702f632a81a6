"""The overlaps of linked dimensions: a search, digit by digit, that follows only the parts that meet.

A digit of a device's number may cut one dimension for the source and another for the target; what is chosen for one
decides which choices still meet in the other, and only those are followed.

Choices below which everything is alike are followed once: all of the source's parts within one part of the target, all
pairs of parts at equal distances.  A position that equals one seen before is not searched again.  From each value of
the last digit to the next, parts shift equally, so their overlaps are sums of series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import TypeAlias

from spmd_grid.reshard.volume.descent import Descent, Prefix
from spmd_grid.reshard.volume.digits import SOURCE, TARGET, Digits
from spmd_grid.reshard.volume.sliding_boxes import Boxes, common_cells, sliding_overlaps

__all__ = ["ComponentSearch"]

Lines: TypeAlias = Sequence[Sequence[Descent]]  # by side and dimension
Weigh: TypeAlias = Callable[[int], int]


class ComponentSearch:
    """The search through dimensions linked by digits.

    ``overlap``: the sum over all values of the digits.  ``found``: per side, the least overlap by size.  Sides and
    dimensions are numbers: ``at[side][dim]`` is the prefix that the known digits determine.
    """

    def __init__(self, dims: list[int], names: set[int], lines: Lines, digits: Digits, weigh: Sequence[Weigh]):
        self.lines = [[side[dim] for dim in dims] for side in lines]
        self.weigh = [weigh[dim] for dim in dims]
        self.digits = digits
        self.positions: dict[int, list[tuple[int, int, int]]] = {name: [] for name in names}  # (side, dim, depth)
        for side, each in enumerate(self.lines):
            for dim, line in enumerate(each):
                for depth, digit in enumerate(line.digits):
                    self.positions[digit.name].append((side, dim, depth))
        self.at = [[line.root for line in side] for side in self.lines]
        self.known: dict[int, int] = {}
        self.found: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.apart = [-1, -1]  # the largest size without overlap
        self.widths: dict[tuple, int] = {}
        self.seen: dict[tuple, int] = {}
        self.order = self._order()
        self.overlap = self._visit(0)

    # -- known digits --

    def _follow(self, name: int, choice: int) -> list[tuple[int, int, Prefix]]:
        """Make a digit known.  Returns the prefixes before, for `_back`."""
        known, before = self.known, []
        known[name] = choice
        for side, dim, depth in self.positions[name]:
            prefix = self.at[side][dim]
            before.append((side, dim, prefix))
            if prefix.depth == depth:
                line = self.lines[side][dim]
                for digit in line.digits[depth:]:
                    if digit.name not in known:
                        break
                    prefix = line.step(prefix, known[digit.name])
                self.at[side][dim] = prefix
        return before

    def _back(self, name: int, before: list[tuple[int, int, Prefix]]) -> None:
        """Make a digit unknown again."""
        del self.known[name]
        for side, dim, prefix in before:
            self.at[side][dim] = prefix

    def _order(self) -> list[int]:
        """The digits in the order of the search: always the one with the fewest branches next, along one path."""
        order: list[int] = []
        undo = []
        while len(order) < len(self.positions):
            rated = []
            for name in self.positions.keys() - order:
                groups = self._groups(name)
                branches = sum(len(group) if each else 1 for group, each in groups)
                ready = sum(self.at[side][dim].depth == depth for side, dim, depth in self.positions[name])
                rated.append((branches, -ready, name, groups))
            _, _, name, groups = min(rated, key=lambda each: each[:3])
            order.append(name)
            middle = groups[len(groups) // 2][0] if groups else range(1)
            undo.append((name, self._follow(name, middle[len(middle) // 2])))
        while undo:
            self._back(*undo.pop())
        return order

    # -- the search --

    def _visit(self, n: int) -> int:
        """The sum of overlaps over the digits from the n-th on."""
        held, wanted = self._boxes()
        overlap = common_cells(held, wanted)
        if n == len(self.order):
            self._note_parts(held, wanted, overlap)
            return overlap
        if not overlap:
            self._note(SOURCE, self._largest(SOURCE), 0)
            self._note(TARGET, self._largest(TARGET), 0)
            return 0
        if n == len(self.order) - 1:
            return self._branch(n)  # not worth keeping
        key = n, *[self._relation(dim) for dim in range(len(held))]
        total = self.seen.get(key)
        if total is None:
            total = self.seen[key] = self._branch(n)
        return total

    def _branch(self, n: int) -> int:
        name, total = self.order[n], 0
        groups, is_last = self._groups(name), n == len(self.order) - 1
        for group, each in groups:
            if each and is_last and len(group) > 2:
                total += self._sum_shifts(name, group)
                continue
            for choice in group if each else group[:1]:
                before = self._follow(name, choice)
                total += (1 if each else len(group)) * self._visit(n + 1)
                self._back(name, before)
        self._pass_over(name, [group for group, _ in groups])
        return total

    def _sum_shifts(self, name: int, group: range) -> int:
        """The sum of overlaps over choices of the last digit: from each to the next, all parts shift equally."""
        boxes = []
        for choice in group[:2]:
            before = self._follow(name, choice)
            boxes.append(self._boxes())
            self._back(name, before)
        least, total = sliding_overlaps(boxes[0], boxes[1], len(group))
        self._note_parts(*boxes[0], least)
        return total

    def _boxes(self) -> Boxes:
        """The intervals, by dimension, of the source's part and of the target's with halos, below the known digits."""
        held = [prefix[-2:] for prefix in self.at[SOURCE]]
        return held, [line.window(prefix) for line, prefix in zip(self.lines[TARGET], self.at[TARGET])]

    def _relation(self, dim: int) -> tuple:
        """A key that is equal for positions of both sides below which everything is alike."""
        held, wanted = self.at[SOURCE][dim], self.at[TARGET][dim]
        distance = None
        if not (self._is_within(SOURCE, dim) or self._is_within(TARGET, dim)):
            distance = wanted.low - held.low
        return distance, *self._kind(SOURCE, dim), *self._kind(TARGET, dim)

    def _kind(self, side: int, dim: int) -> tuple:
        line, prefix = self.lines[side][dim], self.at[side][dim]
        return line.kind(prefix), *[self.known.get(digit.name) for digit in line.digits[prefix.depth + 1 :]]

    def _window(self, side: int, dim: int) -> tuple[int, int]:
        return self.lines[side][dim].window(self.at[side][dim])

    def _is_part(self, side: int, dim: int) -> bool:
        return self.at[side][dim].depth == len(self.lines[side][dim].digits)

    def _is_within(self, side: int, dim: int) -> bool:
        """Whether the other side's part is known and contains all parts that are still possible."""
        if not self._is_part(1 - side, dim):
            return False
        (start, stop), (low, high) = self._window(side, dim), self._window(1 - side, dim)
        return low <= start and stop <= high

    def _groups(self, name: int) -> list[tuple[range, bool]]:
        """The choices of a digit that may lead to overlaps, in order; True for groups whose members differ."""
        digits = range(1 if name >= self.digits.outside else self.digits.sizes[name])
        ready: list[tuple[int, int]] = []
        later: list[tuple[int, int]] = []
        for side, dim, depth in self.positions[name]:
            (ready if self.at[side][dim].depth == depth else later).append((side, dim))
        together = len(ready) == 2 and ready[0][1] == ready[1][1]  # both sides of one dimension move at once
        if not together:
            for side, dim in ready:
                digits = _common(
                    digits, self.lines[side][dim].meeting(self.at[side][dim], *self._window(1 - side, dim))
                )
        known = together or all([self._is_part(1 - side, dim) for side, dim in ready])
        if not known or not all([self._is_within(side, dim) for side, dim in later]):
            groups = [(digits, True)]
        else:
            groups = []
            for group in self._alike(name, digits):
                groups += self._drifting(ready[0][1], group) if together else self._crossing(ready, group)
        return [(group, each) for group, each in groups if group]

    def _alike(self, name: int, digits: range) -> Iterator[range]:
        """``digits`` in groups below which either side by itself is alike."""
        if len(digits) < 2:
            return iter((digits,) if digits else ())
        ends = {digits.start, digits.stop}
        for side, dim, depth in self.positions[name]:
            line = self.lines[side][dim]
            for prefix, _ in line.below(self.at[side][dim], self.known, depth):
                ends.update([group.start for group in line.groups(prefix) if group.start in digits])
        return (range(start, stop) for start, stop in pairwise(sorted(ends)))

    def _crossing(self, ready: list[tuple[int, int]], group: range) -> list[tuple[range, bool]]:
        """A group of consecutive parts of equal length against known parts; those that lie within these are alike."""
        if len(group) == 1:
            return [(group, False)]
        inside = group
        for side, dim in ready:
            line = self.lines[side][dim]
            first = line.step(self.at[side][dim], group.start)
            length = first.stop - first.start
            if length:
                low, high = self._window(1 - side, dim)
                start = -((first.start - line.cut.low - low) // length)
                stop = (high - line.cut.high - first.start) // length
                inside = _common(inside, range(group.start + start, group.start + stop))
        if not inside:
            return [(group, True)]
        return [(range(group.start, inside.start), True), (inside, False), (range(inside.stop, group.stop), True)]

    def _drifting(self, dim: int, group: range) -> list[tuple[range, bool]]:
        """A group of parts of equal length on each side; alike if both lengths are equal, else only some meet."""
        source, target = (self.lines[side][dim].step(self.at[side][dim], group.start) for side in (SOURCE, TARGET))
        drift = (source.stop - source.start) - (target.stop - target.start)
        if not drift or len(group) == 1:
            return [(group, False)]
        # The i-th meet if i * drift < ahead and -i * drift < behind.
        cut = self.lines[TARGET][dim].cut
        ahead, behind = target.stop + cut.high - source.start, source.stop - target.start + cut.low
        if drift < 0:
            ahead, behind, drift = behind, ahead, -drift
        meeting = range(group.start + -behind // drift + 1, group.start + -(-ahead // drift))
        return [(_common(group, meeting), True)]

    # -- sizes --

    def _note_parts(self, held: Sequence[tuple[int, int]], wanted: Sequence[tuple[int, int]], overlap: int) -> None:
        self._note(SOURCE, prod([f(high - low) for f, (low, high) in zip(self.weigh, held)]), overlap)
        self._note(TARGET, prod([high - low for low, high in wanted]), overlap)

    def _note(self, side: int, size: int, overlap: int) -> None:
        """Note that there are devices of this size and overlap."""
        found = self.found[side]
        found[size] = min(found.get(size, overlap), overlap)
        if not overlap and size > self.apart[side]:
            self.apart[side] = size

    def _largest(self, side: int) -> int:
        """The largest size of a device with the known digits."""
        return prod([self._widest(side, dim) for dim in range(len(self.weigh))])

    def _widest(self, side: int, dim: int) -> int:
        key = side, dim, *self._kind(side, dim)
        widest = self.widths.get(key)
        if widest is None:
            extents = self.lines[side][dim].extents(self.at[side][dim], self.known)
            widest = max(cells for cells, _ in extents)
            widest = self.widths[key] = self.weigh[dim](widest) if side == SOURCE else widest
        return widest

    def _pass_over(self, name: int, followed: list[range]) -> None:
        """Note the sizes of the devices that have no overlap because their digit is not ``followed``."""
        ends = [0, *[end for group in followed for end in (group.start, group.stop)], self.digits.sizes[name]]
        for side in (SOURCE, TARGET):
            if self._largest(side) <= self.apart[side]:
                continue
            theirs = name < self.digits.outside or side == self.digits.larger
            for start, stop in zip(ends[::2], ends[1::2]):
                for group in self._alike(name, range(start, stop if theirs else min(stop, 1))):
                    before = self._follow(name, group.start)
                    self._note(side, self._largest(side), 0)
                    self._back(name, before)


def _common(a: range, b: range) -> range:
    return range(max(a.start, b.start), min(a.stop, b.stop))
