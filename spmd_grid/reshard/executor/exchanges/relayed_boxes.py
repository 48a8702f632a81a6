"""Boxes that pass through the staging memory of a node, in the steps of a relay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import prod

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.memory_meeting import MOST_COMPILED, MemoryMeeting
from spmd_grid.exchange.agreement.relay import (
    AREA_ALIGNMENT,
    SLOT_BYTES,
    RelayProgram,
    RelayStep,
    Rings,
    Slots,
    area_of,
    has_areas,
)
from spmd_grid.exchange.channel.copy_table import c_strides
from spmd_grid.grid.box import Box, pieces_of
from spmd_grid.grid.cells import Cells
from spmd_grid.kernels.copy.tables import STREAM_FROM
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.links.sizes import MOST_RELAYED_BOX
from spmd_grid.reshard.executor.exchanges.local_boxes import LocalBoxes
from spmd_grid.transport.communicator import Communicator

__all__ = ["RelayedBoxes"]

_MOST_PROGRAMS = 16


class RelayedBoxes:
    """One exchange of boxes of one array, from members to members of ``comm`` that share memory.

    Collective over these when made.  ``boxes``: those of this process, which it gives to each member in the order in
    which that one lists them.  ``areas``: in each slot; by default one for each other member.
    """

    def __init__(
        self, comm: Communicator, meeting: MemoryMeeting, boxes: LocalBoxes, itemsize: int, areas: int | None = None
    ):
        self.meeting, self._me, self._itemsize = meeting, comm.rank, itemsize
        self._number = meeting.next_number()
        self._gives = [(member, cells) for member, cells in boxes.gives if member != comm.rank]
        self._takes = boxes.takes
        areas = areas or comm.size - 1
        self._fits = itemsize > 0 and has_areas(comm.size, itemsize)
        largest = meeting.most(max([prod(cells.shape) for _, cells in self._gives], default=0))
        self._largest_bytes = largest * itemsize
        self._most = max(min(SLOT_BYTES // AREA_ALIGNMENT // areas * AREA_ALIGNMENT // max(itemsize, 1), largest), 1)
        self._area = -(-self._most * itemsize // AREA_ALIGNMENT) * AREA_ALIGNMENT
        self._slots = Slots.of(self._area * areas)
        lengths: dict[int, int] = {}
        for member, cells in self._gives:
            lengths[member] = lengths.get(member, 0) + sum(1 for _ in self._pieces(cells))
        self._count = meeting.most(max(lengths.values(), default=0))
        self._programs: dict[tuple[tuple[int, ...], tuple[int, ...]], RelayProgram] = {}

    @property
    def packs_first(self) -> bool:
        """Whether all boxes are packed before any is landed."""
        return self._count <= 1

    def suits(self, are_readable: Callable[[], bool]) -> bool:
        """Whether this beats other ways through memory; alike on all.  Collective.

        ``are_readable()``: whether all boxes can be read where they lie, also collective; asked where it matters.
        The meeting's `note_end` follows each run.
        """
        if self.is_certain:
            self.meeting.count_relay()
            return True
        if not self._fits or self._largest_bytes <= MOST_RELAYED_BOX:
            return False
        return self.meeting.better_relayed(self._largest_bytes, are_readable(), MOST_RELAYED_BOX, self._number)

    @cached_property
    def is_certain(self) -> bool:
        """Whether boxes are relayed at any distance; alike on all.  Collective at its first use."""
        fits = self._fits and 0 < self._largest_bytes <= MOST_RELAYED_BOX
        return fits and self.meeting.rings() is not None

    @property
    def is_compiled(self) -> bool:
        """Whether compiled runs relay them, which keep the interpreter's lock; alike on all.  Collective at first."""
        return self.is_certain and self._largest_bytes <= MOST_COMPILED

    def run(self, x: np.ndarray, result: np.ndarray) -> None:
        """Move all boxes from ``x`` to ``result``, which share no memory.  Collective."""
        self.meeting.relay(self.program(x, result), x, result)

    def program(self, x: np.ndarray, result: np.ndarray) -> RelayProgram:
        """The relay of arrays with the strides of these.  Local, once it `is_certain`."""
        key = x.strides, result.strides
        program = self._programs.get(key)
        if program is None:
            if len(self._programs) >= _MOST_PROGRAMS:
                self._programs.clear()
            rings = self.meeting.rings()
            if rings is None:
                raise ValueError("relayed where members have no rings")
            program = self._programs[key] = self._make(rings, *key)
        return program

    def _make(self, rings: Rings, given: tuple[int, ...], into: tuple[int, ...]) -> RelayProgram:
        itemsize, me = self._itemsize, self._me
        steps = self._packing_steps(self._gives, given)
        numbers: dict[int, int] = {}
        for take in self._takes:
            most = self._most
            if take.member == me:  # of any size, so cut into about as many pieces as there are steps
                most = max(most, -(-prod(take.source.shape) // self._count))
            for source, target in zip(_pieces(take.source, most), _pieces(take.target, most), strict=True):
                number = numbers[take.member] = numbers.get(take.member, -1) + 1
                start = self._start(number, take.member, me)
                strides, base = c_strides(source.shape, itemsize), at.FIRST_RING + take.member
                if take.member == me:
                    number, strides = min(number, self._count - 1), source.strides(given)
                    start, base = source.offset(given), at.FROM_X
                ends = target.strides(into), target.offset(into), base, at.INTO_RESULT
                steps[number].lands.append(kernels.box_row(source.shape, itemsize, strides, start, *ends))
        n_bytes = sum(prod(take.target.shape) for take in self._takes) * itemsize
        return RelayProgram(rings, self._slots, steps, n_bytes, streams=kernels.streams_for(n_bytes, STREAM_FROM))

    def _packing_steps(self, gives: Sequence[tuple[int, Cells]], given: tuple[int, ...]) -> list[RelayStep]:
        """All steps, with the rows that pack ``gives``; the next piece for each member is in the next step."""
        itemsize, me = self._itemsize, self._me
        steps = [RelayStep([], [], []) for _ in range(self._count)]
        numbers: dict[int, int] = {}
        for member, cells in gives:
            for piece in self._pieces(cells):
                number = numbers[member] = numbers.get(member, -1) + 1
                first, packed = piece.offset(given), c_strides(piece.shape, itemsize)
                to = packed, self._start(number, me, member), at.FROM_X, at.FIRST_RING + me
                steps[number].packs.append(kernels.box_row(piece.shape, itemsize, piece.strides(given), first, *to))
        return steps

    def _start(self, step: int, owner: int, reader: int) -> int:
        """The first byte, in the ring of ``owner``, of what it packs for ``reader`` in a step."""
        return self._slots.start(step) + self._area * self._area_of(owner, reader)

    def _area_of(self, owner: int, reader: int) -> int:
        return area_of(owner, reader)

    def _pieces(self, cells: Cells) -> Iterator[Cells]:
        """``cells`` cut into pieces for the areas of slots; both ends of a box cut it alike."""
        return _pieces(cells, self._most)


def _pieces(cells: Cells, most: int) -> Iterator[Cells]:
    """``cells`` cut into pieces of at most ``most``."""
    for box in pieces_of(Box.from_shape(cells.shape), most):
        starts = [first + at_ * step for first, at_, step in zip(cells.starts, box.starts, cells.steps, strict=True)]
        yield Cells(tuple(starts), cells.steps, box.shape)
