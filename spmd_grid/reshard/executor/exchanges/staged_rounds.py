"""An exchange in rounds: large boxes pass through staging memory piece by piece, so that it stays in the caches.

Every box is cut into pieces of equal size, and each round carries the next piece of each box: while one is copied out
of staging, the next is packed.  Both ends of a box cut it alike, and all members go through the same number of rounds.

The boxes of cells are the same for all contributions to a partial value, so a round has all contributions to certain
cells.  They are stacked in memory that every round reuses, and folded from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

from spmd_grid.exchange.channel.copy_table import ExchangeCells, Taken, c_strides
from spmd_grid.grid.box import Box, pieces_of
from spmd_grid.grid.cells import Cells
from spmd_grid.typing import Shape

__all__ = ["Rounds", "Stack", "Stacked", "n_pieces", "own_in_boxes"]


def n_pieces(cells: Cells, most: int) -> int:
    """The number of pieces of at most ``most`` cells into which a box is cut.  Local."""
    return sum(1 for _ in pieces_of(Box.from_shape(cells.shape), most))


class Rounds:
    """``count`` rounds of pieces of at most ``most`` cells, of the boxes that all rounds together move.  Local.

    Cells that stay on this process need no staging, and are copied in the first round.
    """

    def __init__(self, gives: Sequence[tuple[int, Cells]], takes: Sequence[Taken], me: int, most: int, count: int):
        self.takes, self.count = takes, count
        self._gives, self._me, self._most = gives, me, most
        self._cuts: dict[Shape, list[Box]] = {}

    def __iter__(self) -> Iterator[ExchangeCells]:
        for number in range(self.count):
            gives: dict[int, list[Cells]] = {}
            takes: dict[int, list[Taken]] = {}
            for member, cells in self._gives:
                gives.setdefault(member, []).append(self._piece(cells, number))
            for take in self._taken(number):
                takes.setdefault(take.member, []).append(take)
            yield ExchangeCells(gives, takes, takes.pop(self._me, []))

    def _taken(self, number: int) -> list[Taken]:
        """The pieces that are taken in one round."""
        found = []
        for take in self.takes:
            source, target = self._piece(take.source, number), self._piece(take.target, number)
            if take.member == self._me:
                source, target = take.source, take.target
                if number:
                    empty = (0,) * len(target.shape)
                    source, target = source._replace(shape=empty), target._replace(shape=empty)
            found.append(take._replace(source=source, target=target))
        return found

    def _piece(self, cells: Cells, number: int) -> Cells:
        cuts = self._cuts.get(cells.shape)
        if cuts is None:
            cuts = self._cuts[cells.shape] = list(pieces_of(Box.from_shape(cells.shape), self._most))
        if number >= len(cuts):
            return Cells(cells.starts, cells.steps, (0,) * len(cells.shape))
        return Cells.of_box(cuts[number].shift(cells.starts))


class _InLine(NamedTuple):
    """Consecutive cells of a flat array, from ``start`` on: one side of a copy, in place of `Cells`."""

    start: int
    shape: Shape

    def offset(self, strides: Sequence[int]) -> int:
        return self.start * strides[-1]

    def strides(self, strides: Sequence[int]) -> tuple[int, ...]:
        return c_strides(self.shape, strides[-1])


class Stack(NamedTuple):
    """All contributions to ``cells`` of the result, one after the other from cell ``start`` of the stack on."""

    start: int
    cells: Box


class Stacked(Rounds):
    """Rounds whose targets are stacks of ``rows`` contributions each.

    The first coordinate of a target, those of own contributions included, is its row; contributions to the same cells
    have equal other coordinates.
    """

    def __init__(
        self, gives: Sequence[tuple[int, Cells]], takes: Sequence[Taken], me: int, most: int, count: int, rows: int
    ):
        super().__init__(gives, takes, me, most, count)
        self._rows = rows
        self._boxes = list(dict.fromkeys([_without_row(take.target) for take in takes]))

    def stacks(self, number: int) -> list[Stack]:
        """The stacks of one round."""
        start, found = 0, []
        for cells in self._boxes:
            piece = self._piece(cells, number)
            box = Box(piece.starts, tuple([at + extent for at, extent in zip(piece.starts, piece.shape)]))
            if not box.is_empty:
                found.append(Stack(start, box))
                start += self._rows * box.size
        return found

    @property
    def most_stacked(self) -> int:
        """The most cells in the stacks of a round: those of the first."""
        return self._rows * sum(stack.cells.size for stack in self.stacks(0))

    def _taken(self, number: int) -> list[Taken]:
        starts, found = {stack.cells.starts: stack.start for stack in self.stacks(number)}, []
        for take in self.takes:
            target = self._piece(_without_row(take.target), number)
            start = starts.get(target.starts, 0) + take.target.starts[0] * prod(target.shape)
            row: Any = _InLine(start, (1, *target.shape))  # where `Cells` are expected: it has the same methods
            found.append(take._replace(source=self._piece(take.source, number), target=row))
        return found


def own_in_boxes(takes: Sequence[Taken], me: int) -> list[Taken]:
    """``takes`` with the own contributions cut into the boxes of cells that come from others.  Local."""
    boxes = dict.fromkeys([_without_row(take.target) for take in takes if take.member != me])
    found = []
    for take in takes:
        if take.member != me:
            found.append(take)
            continue
        kept = _without_row(take.target)
        whole = Box(kept.starts, tuple([start + extent for start, extent in zip(kept.starts, kept.shape)]))
        for cells in boxes:
            if not whole.contains(Box(cells.starts, tuple([a + n for a, n in zip(cells.starts, cells.shape)]))):
                continue
            inside = [start - first for start, first in zip(cells.starts, kept.starts)]
            at = tuple([first + i for first, i in zip(take.source.starts[1:], inside)])
            source = Cells((take.source.starts[0], *at), take.source.steps, (1, *cells.shape))
            target = Cells((take.target.starts[0], *cells.starts), take.target.steps, (1, *cells.shape))
            found.append(take._replace(source=source, target=target))
    return found


def _without_row(cells: Cells) -> Cells:
    return Cells(cells.starts[1:], cells.steps[1:], cells.shape[1:])
