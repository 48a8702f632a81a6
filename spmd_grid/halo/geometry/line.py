"""The owners of halo cells along one line of devices; pure geometry.

Cells of a line are numbered globally, so a halo is an interval beside a device's own, and intersections of intervals
give the owners of its cells.  Thin and empty blocks, halos wider than a neighbour, and a device that is its own
periodic neighbour are no special cases.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from spmd_grid.halo.geometry.boundary import LEAVE, WRAP, Rule, is_constant, is_map, mapped

__all__ = ["HaloPiece", "Line", "Run", "halo_pieces", "in_domain"]


class Run(NamedTuple):
    """Consecutive cells of one device's local extent that have one owner.

    Cell ``at + i`` of the local extent (low halo first) is cell ``start + i * step`` of the line, counted globally and
    within the domain, for i < ``count``.  A single cell has step 1.
    """

    owner: int
    at: int
    start: int
    step: int
    count: int  # type: ignore[assignment]  # not the method of tuples
    is_halo: bool


@dataclass(frozen=True)
class Line:
    """A line of devices by their positions in it, its halos, and the rules for cells outside the domain.

    Plans only.  ``starts``: the first cell of each device's block and, last, the extent of the line; it is only
    indexed, so it may be computed on demand.  ``rules``: of the low and the high side; both "wrap" where periodic.

    >>> line = Line([0, 3, 4, 6], low=1, high=3, rules=("wrap", "wrap"))
    >>> for run in line.runs(0): print(run)
    Run(owner=2, at=0, start=5, step=1, count=1, is_halo=True)
    Run(owner=0, at=1, start=0, step=1, count=3, is_halo=False)
    Run(owner=1, at=4, start=3, step=1, count=1, is_halo=True)
    Run(owner=2, at=5, start=4, step=1, count=2, is_halo=True)
    >>> [(taker, run.at) for taker, runs in line.takers(1) for run in runs]
    [(0, 4), (1, 1), (2, 0)]
    """

    starts: Sequence[int]
    low: int
    high: int
    rules: tuple[Rule, Rule] = (LEAVE, LEAVE)

    def runs(self, position: int) -> Iterator[Run]:
        """The cells of a device's local extent that are copies of the domain's, and its core, in their order."""
        first, last, extent = self.starts[position], self.starts[position + 1], self.starts[-1]
        origin = first - self.low
        yield from self._halo_runs(self.rules[0], origin, 0, origin)
        yield from self._halo_runs(WRAP, max(origin, 0), first, origin)
        if first < last:
            yield Run(position, self.low, first, 1, last - first, False)
        yield from self._halo_runs(WRAP, last, min(last + self.high, extent), origin)
        yield from self._halo_runs(self.rules[1], extent, last + self.high, origin)

    def takers(self, position: int) -> Iterator[tuple[int, list[Run]]]:
        """(taker, runs) of the devices that hold cells of the device at ``position``, in order of their positions.

        The device itself is one of them, for its core.
        """
        for taker in self._candidates(position):
            runs = [run for run in self.runs(taker) if run.owner == position]
            if runs:
                yield taker, runs

    def extent(self, position: int) -> int:
        """The extent of a device's local array."""
        return self.low + self.starts[position + 1] - self.starts[position] + self.high

    def core(self, position: int) -> tuple[int, int]:
        """The (start, stop) part of a device's local extent that it owns."""
        return self.low, self.low + self.starts[position + 1] - self.starts[position]

    def inside(self, position: int) -> tuple[int, int]:
        """The (start, stop) part of a device's local extent that lies in the domain."""
        origin = self.starts[position] - self.low
        stop = min(self.starts[position + 1] + self.high, self.starts[-1])
        return max(origin, 0) - origin, stop - origin

    def outside(self, position: int, side: int) -> tuple[int, int]:
        """The (start, stop) part of a device's local extent beyond the low (0) or the high (1) end of the domain."""
        start, stop = self.inside(position)
        return (stop, self.extent(position)) if side else (0, start)

    def copied(self, position: int) -> tuple[int, int]:
        """The (start, stop) part of a device's local extent whose cells are in the domain, or copies of such."""
        return self._inside_and(position, [self._copies(rule) for rule in self.rules])

    def copied_or_filled(self, position: int) -> tuple[int, int]:
        """As :meth:`copied`, with the cells that get a constant."""
        return self._inside_and(position, [self._copies(rule) or is_constant(rule) for rule in self.rules])

    def _inside_and(self, position: int, sides: Sequence[bool]) -> tuple[int, int]:
        start, stop = self.inside(position)
        return 0 if sides[0] else start, self.extent(position) if sides[1] else stop

    def _copies(self, rule: Rule) -> bool:
        """Whether ``rule`` copies cells; an empty domain has none to copy."""
        return is_map(rule) and self.starts[-1] > 0

    def _halo_runs(self, rule: Rule, begin: int, end: int, origin: int) -> Iterator[Run]:
        """The runs of cells [begin, end) of the line, to which ``rule`` applies; ``origin``: the first local cell."""
        if not self._copies(rule):
            return
        while begin < end:
            start, step, count = mapped(cast(str, rule), begin, end, self.starts[-1])
            owner = bisect_right(self.starts, start, 0, len(self.starts) - 1) - 1
            if step > 0:
                count = min(count, self.starts[owner + 1] - start)
            elif step < 0:
                count = min(count, start + 1 - self.starts[owner])
            yield Run(owner, begin - origin, start, step if count > 1 else 1, count, True)
            begin += count

    def _candidates(self, position: int) -> list[int]:
        """Positions that may take cells of the device at ``position``, found by bisection: few that do not."""
        starts, n = self.starts, len(self.starts) - 1
        first, last, extent = starts[position], starts[position + 1], starts[-1]
        if first == last:
            return []
        found = set(self._reaching(first, last))
        # Beyond an end all halos hold the same cells, as far as they reach.
        if any(run.owner == position for run in self._halo_runs(self.rules[0], -self.low, 0, 0)):
            found.update(range(bisect_left(starts, self.low, 0, n)))
        if any(run.owner == position for run in self._halo_runs(self.rules[1], extent, extent + self.high, 0)):
            found.update(range(max(bisect_right(starts, extent - self.high) - 1, 0), n))
        return sorted(found)

    def _reaching(self, first: int, last: int) -> range:
        """The positions whose local extent, within the domain, may overlap cells [first, last)."""
        begin = max(bisect_right(self.starts, first - self.high) - 1, 0)
        return range(begin, bisect_left(self.starts, last + self.low, 0, len(self.starts) - 1))


class HaloPiece(NamedTuple):
    """Cells of one device's halo that have one owner.

    ``at``: their start in the device's local extent (low halo first); ``start``, ``stop``: the cells, counted
    globally along the line, within the domain.
    """

    owner: int
    at: int
    start: int
    stop: int


def halo_pieces(starts: Sequence[int], device: int, low: int, high: int, periodic: bool) -> Iterator[HaloPiece]:
    """The pieces of ``device``'s low and high halo, in the order of the cells.

    Plans only.  ``starts``: the first cell of each device's block and, last, the extent of the line.

    >>> list(halo_pieces([0, 3, 4, 6], 0, 1, 3, periodic=False))
    [HaloPiece(owner=1, at=4, start=3, stop=4), HaloPiece(owner=2, at=5, start=4, stop=6)]
    >>> list(halo_pieces([0, 3, 4, 6], 0, 1, 0, periodic=True))
    [HaloPiece(owner=2, at=0, start=5, stop=6)]
    """
    for run in _line(starts, low, high, periodic).runs(device):
        if run.is_halo:
            yield HaloPiece(run.owner, run.at, run.start, run.start + run.count)


def in_domain(starts: Sequence[int], device: int, low: int, high: int, periodic: bool) -> tuple[int, int]:
    """The (start, stop) part of ``device``'s local extent, halos included, that lies in the domain.

    Plans only.

    >>> in_domain([0, 3, 4, 6], 0, 1, 2, periodic=False)
    (1, 6)
    """
    return _line(starts, low, high, periodic).copied(device)


def _line(starts: Sequence[int], low: int, high: int, periodic: bool) -> Line:
    return Line(starts, low, high, (WRAP, WRAP) if periodic else (LEAVE, LEAVE))
