"""What an exchange moves over all devices, and the busiest of them, with no look at each device.

A device wants a box T and holds a box S; it receives |T| - |T n S|, which is a product over dimensions on either side.

    sum |T|        parts of a dimension come in a few extents: a product of short sums
    sum |T n S|    dimensions that share no digit are independent: a product of sums, one per *component*
    the maximum    of a component matter only the pairs (|T|, |T n S|) that no other beats in both

A component is searched digit by digit.  A digit of a device's number may cut one dimension for the source and another
for the target; what is chosen for one decides which choices still meet in the other, and only those are followed.
Choices below which everything is alike are followed once: all of the source's parts within one part of the target, all
pairs of parts at equal distances.  What has been seen from an equal position is not searched again.

What a device sends is as easy while each cell has one holder: every cell goes to all that want it, but for the holder.
Where sources are replicated, or targets have halos, an upper bound is told.

Two grids that number the same processes have common digits if one number can be written in both shapes at once: 6 and
2 x 3, also 8 and 2 x 2, whose devices are those with a leading 0.  Otherwise devices are listed while they are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import gcd, prod
from typing import NamedTuple

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.cuts import Cut, cuts_of
from spmd_grid.reshard.descent import Descent, common_axes, same_rule
from spmd_grid.reshard.redistribute import Redistribution

__all__ = ["Totals", "exchange_totals", "most_local"]

# Where grids have no common digits, the devices of a grid are listed if there are at most so many.
_MOST_LISTED = 4096

SOURCE, TARGET = 0, 1


class Totals(NamedTuple):
    """Bytes from process to process: by all together, to and from the busiest one.

    ``exact`` unless one of the three is an upper bound.
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
    demand = _demand(r)
    digits = _common_digits(r.source.grid, r.target.grid)
    if digits is None:
        found = held = _list(r, demand.weigh)
    else:
        found = held = _search(r.source_cuts, r.target_cuts, digits, demand.weigh)
        if r.sliced:
            held = _search(r.served_cuts, r.target_cuts, digits, demand.weigh)
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
    """The cells of the largest local array, halos included.  Local.

    >>> from spmd_grid.grid.sharding import Sharding
    >>> most_local(Layout(Sharding(Grid((2, 3)), [[0, 1]], halo_sizes=[1, 1]), (7, 5)))
    20
    """
    cuts = cuts_of(layout)
    return prod(_longest(cut) + sum(layout.sharding.halo_of(dim)) for dim, cut in enumerate(cuts))


def _total(grid: Grid, cuts: Sequence[Cut]) -> int:
    """The cells of all devices' boxes."""
    copies = grid.size // prod(prod(cut.sizes) for cut in cuts)
    return copies * prod(sum(cells * n for cells, n in Descent(cut).extents()) for cut in cuts)


def _longest(cut: Cut) -> int:
    return max(cells for cells, _ in Descent(cut).extents())


# -- what a sender is asked for ----------------------------------------------------------------------------------------


class _Demand(NamedTuple):
    """A device that serves a box S sends at most ``copies`` x (product over dimensions of ``weigh`` of S's extent).

    ``counts_own``: what it keeps of that itself is part of it, and is not sent.  ``exact``: the rest is.
    """

    copies: int
    weigh: tuple[Callable[[int], int], ...]
    counts_own: bool
    exact: bool


def _demand(r: Redistribution) -> _Demand:
    """On one grid, receivers that differ on tied axes alone ask different copies: a copy serves one of them.

    Between grids receivers are numbered, and a copy serves each count-th.
    """
    grid, targets = r.target.grid, r.target_cuts
    tied = {axis for rule in r.rules if rule.shared for axis in rule.tied}
    split = {axis for cut in targets for axis in cut.axes}
    copies = prod(size for axis, size in enumerate(grid.shape) if axis not in split | tied)
    weigh = [_cover(served, cut) for served, cut in zip(r.served_cuts, targets, strict=True)]
    count = 1
    if r.on_one_grid:
        for dim, (served, cut) in enumerate(zip(r.served_cuts, targets, strict=True)):
            if not tied.isdisjoint(cut.axes):
                apart = cut.axes[common_axes(served, cut) :]
                weigh[dim] = _at_most(weigh[dim], cut, prod(grid.shape[axis] for axis in apart if axis not in tied))
    elif r.rules:
        count, weights = r.rules[0].count, r.rules[0].weights
        # Each count-th of those with equal boxes; or, the other coordinates being equal, of those along one axis.
        ways = [(-(-copies // count), weigh)]
        for dim, cut in enumerate(targets):
            for axis in cut.axes:
                turn = count // gcd(weights[axis], count)  # so many of them in a row ask different copies
                asking = prod(-(-grid.shape[a] // turn) if a == axis else grid.shape[a] for a in cut.axes)
                ways.append((copies, [*weigh[:dim], _at_most(weigh[dim], cut, asking), *weigh[dim + 1 :]]))
        extents = [_longest(cut) for cut in r.served_cuts]
        copies, weigh = min(ways, key=lambda way: way[0] * prod(f(extent) for f, extent in zip(way[1], extents)))
    exact = not (r.sliced or count > 1 or tied & split or any(cut.low or cut.high for cut in targets))
    return _Demand(copies, tuple(weigh), count == 1, exact)


def _cover(served: Cut, cut: Cut) -> Callable[[int], int]:
    """At most so many cells of a part that is served do the target's parts want, each counted as often as wanted."""
    if not (cut.low or cut.high):
        return _as_it_is
    parts = [(part.stop - part.start, n) for part, n in Descent(cut).below(Descent(cut).root, {})]
    count, empty = sum(n for _, n in parts), sum(n for cells, n in parts if not cells)
    least = min((cells for cells, _ in parts if cells), default=1)
    # Halos of parts that begin (end) within, which those of a coarser cut do not, or up to a halo's width beyond.
    nested = cut.sizes == served.sizes[: len(cut.sizes)] and same_rule(served, cut)

    def cover(extent: int) -> int:
        cells = extent
        for halo in (cut.low, cut.high):
            near = -(-(halo if nested else extent + halo - 1) // least) + empty
            cells += min(near, count - 1) * min(halo, extent)
        return cells

    return _at_most(cover, cut, count)


def _as_it_is(extent: int) -> int:
    return extent


def _at_most(weigh: Callable[[int], int], cut: Cut, parts: int) -> Callable[[int], int]:
    """``weigh``, where no more than ``parts`` of the target's parts ask."""
    widest = _longest(cut)
    return lambda extent: min(weigh(extent), parts * min(extent, widest))


# -- the search --------------------------------------------------------------------------------------------------------


class _Found(NamedTuple):
    """``overlap``: the cells of all T n S.  ``points``: per side (|S| as weighed or |T|, |T n S|) that no other beats.

    ``exact``: whether there are such devices.
    """

    overlap: int
    points: tuple[list[tuple[int, int]], list[tuple[int, int]]]
    exact: bool


class _Digits(NamedTuple):
    """The digits of device numbers by name: their sizes, minor to major, and per side those of each axis.

    Those named from ``outside`` on are 0 for processes in both grids; only side ``larger`` has others.
    """

    sizes: tuple[int, ...]
    of_axis: tuple[dict, dict]
    outside: int
    larger: int


def _common_digits(source: Grid, target: Grid) -> _Digits | None:
    """Digits in which axes of both grids are written; None where there are none.

    >>> _common_digits(Grid((6,)), Grid((2, 3)))
    _Digits(sizes=(3, 2), of_axis=({0: [(1, 2), (0, 3)]}, {0: [(1, 2)], 1: [(0, 3)]}), outside=2, larger=1)
    """
    if source.ranks != target.ranks:
        return None
    spans = sorted({1, *(stride * size for grid in (source, target) for stride, size in zip(grid.strides, grid.shape))})
    if any(larger % smaller for smaller, larger in pairwise(spans)):
        return None
    sizes = [larger // smaller for smaller, larger in pairwise(spans)]
    of_axis = tuple(
        {
            axis: [(n, sizes[n]) for n in reversed(range(len(sizes))) if stride <= spans[n] < stride * size]
            for axis, (stride, size) in enumerate(zip(grid.strides, grid.shape))
        }
        for grid in (source, target)
    )
    outside = spans.index(min(source.size, target.size))
    return _Digits(tuple(sizes), of_axis, outside, SOURCE if source.size > target.size else TARGET)


def _search(source_cuts: Sequence[Cut], target_cuts: Sequence[Cut], digits: _Digits, weigh) -> _Found:
    lines = [
        [Descent(cut, of_axis) for cut in cuts] for cuts, of_axis in zip((source_cuts, target_cuts), digits.of_axis)
    ]
    overlap, points = 1, ([(1, 1)], [(1, 1)])
    for dims, names in _components(lines, len(digits.sizes)):
        component = _Component(dims, names, lines, digits, weigh)
        overlap *= component.overlap
        points = tuple(
            _best((a * c, b * d) for a, b in before for c, d in found.items())
            for before, found in zip(points, component.found)
        )
    return _Found(overlap, points, True)


def _components(lines: Sequence[Sequence[Descent]], n_digits: int) -> list[tuple[list[int], set[int]]]:
    """Dimensions and digits that belong together; a digit that cuts nothing stands alone."""
    parts = [([], {name}) for name in range(n_digits)]
    for dim in range(len(lines[SOURCE])):
        names = {digit.name for side in lines for digit in side[dim].digits}
        linked = [part for part in parts if not names.isdisjoint(part[1])]
        parts = [part for part in parts if names.isdisjoint(part[1])]
        parts.append(([dim, *(d for dims, _ in linked for d in dims)], names.union(*(each for _, each in linked))))
    return parts


def _best(points: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those (size, overlap) for which none is as large and overlaps less."""
    best: list[tuple[int, int]] = []
    for size, kept in sorted(points, key=lambda point: (-point[0], point[1])):
        if not best or kept < best[-1][1]:
            best.append((size, kept))
    return best


class _Component:
    """Dimensions linked by digits.  ``overlap``: the sum over the digits' values; ``found``: least overlap by size.

    Sides and dimensions are numbers: ``at[side][dim]`` is how far the known digits lead.
    """

    def __init__(self, dims: list[int], names: set[int], lines, digits: _Digits, weigh):
        self.lines = [[side[dim] for dim in dims] for side in lines]
        self.weigh = [weigh[dim] for dim in dims]
        self.digits = digits
        self.places: dict[int, list[tuple[int, int, int]]] = {name: [] for name in names}  # (side, dim, depth)
        for side, each in enumerate(self.lines):
            for dim, line in enumerate(each):
                for depth, digit in enumerate(line.digits):
                    self.places[digit.name].append((side, dim, depth))
        self.at = [[line.root for line in side] for side in self.lines]
        self.known: dict[int, int] = {}
        self.found: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.apart = [-1, -1]  # the largest size without overlap
        self.widths: dict[tuple, int] = {}
        self.seen: dict[tuple, int] = {}
        self.order = self._order()
        self.overlap = self._visit(0)

    # -- known digits --

    def _follow(self, name: int, choice: int) -> list:
        """Makes a digit known; returns what `_back` needs."""
        known, before = self.known, []
        known[name] = choice
        for side, dim, depth in self.places[name]:
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

    def _back(self, name: int, before: list) -> None:
        del self.known[name]
        for side, dim, prefix in before:
            self.at[side][dim] = prefix

    def _order(self) -> list[int]:
        """Digits in the order of the search: each time that with the fewest branches, along one path."""
        order, undo = [], []
        while len(order) < len(self.places):
            rated = []
            for name in self.places.keys() - order:
                groups = self._groups(name)
                branches = sum(len(group) if each else 1 for group, each in groups)
                ready = sum(self.at[side][dim].depth == depth for side, dim, depth in self.places[name])
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
        held = [prefix[-2:] for prefix in self.at[SOURCE]]
        wanted = [line.window(prefix) for line, prefix in zip(self.lines[TARGET], self.at[TARGET])]
        overlap = _meet(held, wanted)
        if n == len(self.order):
            self._note(SOURCE, prod([f(high - low) for f, (low, high) in zip(self.weigh, held)]), overlap)
            self._note(TARGET, prod([high - low for low, high in wanted]), overlap)
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
        groups = self._groups(name)
        for group, each in groups:
            for choice in group if each else group[:1]:
                before = self._follow(name, choice)
                total += (1 if each else len(group)) * self._visit(n + 1)
                self._back(name, before)
        self._pass_over(name, [group for group, _ in groups])
        return total

    def _relation(self, dim: int) -> tuple:
        """Equal for positions below which everything is alike."""
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
        """The choices of a digit that may lead to overlaps, in order; True for those of which each is different."""
        digits = range(1 if name >= self.digits.outside else self.digits.sizes[name])
        ready, later = [], []
        for side, dim, depth in self.places[name]:
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
        """``digits`` in groups of those below which each side by itself is alike."""
        if len(digits) < 2:
            return iter((digits,) if digits else ())
        ends = {digits.start, digits.stop}
        for side, dim, depth in self.places[name]:
            line = self.lines[side][dim]
            for prefix, _ in line.below(self.at[side][dim], self.known, depth):
                ends.update([group.start for group in line.groups(prefix) if group.start in digits])
        return (range(start, stop) for start, stop in pairwise(sorted(ends)))

    def _crossing(self, ready, group: range) -> list[tuple[range, bool]]:
        """Parts of equal length, one after the other, against known parts: alike are those within these."""
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
        """Parts of equal length on each side: alike if the lengths are equal, else some of them meet."""
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

    def _note(self, side: int, size: int, overlap: int) -> None:
        """Notes that there are devices of this size and overlap."""
        found = self.found[side]
        found[size] = min(found.get(size, overlap), overlap)
        if not overlap and size > self.apart[side]:
            self.apart[side] = size

    def _largest(self, side: int) -> int:
        """The largest size that known digits leave."""
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
        """Notes the sizes of devices that have no overlap since their digit is none of those ``followed``."""
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


# -- devices one by one ------------------------------------------------------------------------------------------------


def _list(r: Redistribution, weigh) -> _Found:
    """As the search, by listing the processes of each grid that has not too many."""
    grids, cuts = (r.source.grid, r.target.grid), (r.served_cuts, r.target_cuts)
    few = [grid for grid in grids if grid.size <= _MOST_LISTED]
    overlap, points = 0, ([], [])
    for process in sorted({grid.process(device) for grid in few for device in range(grid.size)}):
        devices = [grid.device_of_process(process) for grid in grids]
        here, there = (None if n is None else grid.multi_index(n) for grid, n in zip(grids, devices))
        kept = still = 0
        if here is not None:
            held = [cut.interval([here[axis] for axis in cut.axes]) for cut in r.source_cuts]
            serves = [cut.interval([here[axis] for axis in cut.axes]) for cut in r.served_cuts]
        if there is not None:
            wanted = [cut.window([there[axis] for axis in cut.axes]) for cut in r.target_cuts]
        if None not in devices:
            kept, still = _meet(held, wanted), _meet(serves, wanted)
            overlap += kept
        if here is not None:
            points[SOURCE].append((prod(f(high - low) for f, (low, high) in zip(weigh, serves)), still))
        if there is not None:
            points[TARGET].append((prod(high - low for low, high in wanted), kept))
    for side, grid in enumerate(grids):
        if grid not in few:
            largest = [_longest(cut) for cut in cuts[side]]
            points[side].append((prod(f(n) for f, n in zip(weigh, largest)) if side == SOURCE else prod(largest), 0))
    return _Found(overlap, points, len(few) == 2)


def _meet(ours: Sequence[tuple[int, int]], theirs: Sequence[tuple[int, int]]) -> int:
    """The common cells of two boxes, given by their intervals."""
    return prod(max(min(b, d) - max(a, c), 0) for (a, b), (c, d) in zip(ours, theirs, strict=True))
