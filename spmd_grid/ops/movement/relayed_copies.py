"""Moves arrays through the staging memory of a node, in the steps of a relay."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.header import Facts, given_results
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
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
from spmd_grid.exchange.paths import DIRECT
from spmd_grid.exchange.transfer.fetch import FetchProgram
from spmd_grid.exchange.transfer.transfer import Transfer
from spmd_grid.grid.box import Box, pieces_of
from spmd_grid.kernels import BoxRow
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.calls.bounded_cache import keep
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.loops.work import LoopWork
from spmd_grid.typing import Shape

__all__ = ["RelayedCopies"]

# Between near processors, larger arrays that can be read are faster to read; where words are slow, it is tried.
_MOST_IF_NEAR, _MOST_IF_LATE = 1 << 18, 1 << 14

Strides = tuple[int, ...]


class RelayedCopies:
    """Moves the boxes of ``transfer`` through staging memory, in steps.

    If members send different parts (``transfer.parts``), a slot has an area for each reader; otherwise it holds a piece
    of the whole array.
    """

    def __init__(self, call: CollectiveCall, facts: Sequence[Facts], transfer: Transfer):
        self._call, self._facts, self._transfer = call, facts, transfer
        self._most = max(fact.nbytes for fact in facts)
        itemsize = max(self._itemsize(member) for member in range(len(facts)))
        self._fits = call.path is DIRECT and has_areas(call.comm.size, itemsize)
        self._key = call.fingerprint, self._most, given_results(facts)
        self._programs: dict[tuple[Strides, Strides], RelayProgram] = {}

    def suits(self, readable: bool) -> bool:
        """Whether this beats reading the arrays where they lie, if they are ``readable``, or messages.

        Collective; the same on all members.  The meeting's `note_end` follows each run.
        """
        if not self._fits:
            return False
        return self._call.meeting.better_relayed(self._most, readable, _MOST_IF_NEAR, self._key, _MOST_IF_LATE)

    def run(self, x: np.ndarray | None, target: np.ndarray | None) -> None:
        """Move all boxes from ``x`` to ``target``.  Collective."""
        meeting = self._call.meeting
        assert isinstance(meeting, MemoryMeeting)
        rings = meeting.rings()
        assert rings is not None  # `suits` has seen them
        key = () if x is None else x.strides, () if target is None else target.strides
        meeting.relay(self._program(rings, *key), x, target)

    def loop_work(self, given: Strides, into: Strides, read: FetchProgram | None) -> LoopWork | None:
        """Return what compiled runs do for arrays with such strides: relay them, if that is known, or ``read`` them.

        Local.  ``read``: for arrays that all can be read.
        """
        meeting, members = self._call.meeting, [member for member, fact in enumerate(self._facts) if fact.nbytes]
        if not (self._fits and self._call.lets_read and isinstance(meeting, MemoryMeeting)):
            return None
        known = meeting.known_relay(self._most, _MOST_IF_NEAR, _MOST_IF_LATE)
        reads = LoopWork(read=read, read_ways=meeting.read_ways(self._key), bases=meeting.bases(), unless_read=members)
        if known is None:
            return None if read is None else reads
        relay = self._program(known.rings, given, into)
        if not known.depends:
            return LoopWork(relay=relay)
        return reads._replace(relay=relay, if_far=known.if_far, if_near=known.if_near)

    def _program(self, rings: Rings, given: Strides, into: Strides) -> RelayProgram:
        program = self._programs.get((given, into))
        if program is None:
            program = (self._parts if self._transfer.parts else self._wholes)(rings, given, into)
            keep(self._programs, (given, into), program)
        return program

    @property
    def _n_bytes(self) -> int:
        """Number of bytes of this member's result."""
        return sum(receive.box.size * self._itemsize(receive.peer) for receive in self._transfer.receives)

    def _itemsize(self, member: int) -> int:
        dtype = self._facts[member].dtype
        return 0 if dtype is None else dtype.itemsize

    def _wholes(self, rings: Rings, given: Strides, into: Strides) -> RelayProgram:
        """Steps that pack pieces of whole arrays."""
        me, transfer = self._transfer.rank, self._transfer
        pieces: list[list[Box]] = []
        for member, fact in enumerate(self._facts):
            most = SLOT_BYTES // max(self._itemsize(member), 1)
            pieces.append([] if fact.shape is None else list(pieces_of(Box.from_shape(fact.shape), max(most, 1))))
        sizes = [piece.size * self._itemsize(i) for i, found in enumerate(pieces) for piece in found]
        slots = Slots.of(max(sizes, default=0))
        is_read = any(send.peer != me for send in transfer.sends)
        steps = []
        for number in range(max(map(len, pieces), default=0)):
            now = [found[number] if number < len(found) else None for found in pieces]
            packs: list[BoxRow | None] = []
            lands: list[BoxRow | None] = []
            mine = now[me]
            if mine is not None and is_read:
                packs.append(self._pack(mine, given, slots.start(number)))
            for receive in transfer.receives:
                piece = now[receive.peer]
                if piece is None:
                    continue
                common = receive.source_box.intersect(piece)
                if not common.is_empty:
                    target = common.relative_to(receive.source_box.starts).shift(receive.box.starts)
                    inside = common.relative_to(piece.starts)
                    packed = slots.start(number), inside, piece.shape
                    lands.append(self._land(receive.peer, packed, common, given, target, into))
            steps.append(RelayStep(packs, lands, []))
        return RelayProgram(rings, slots, steps, self._n_bytes)

    def _parts(self, rings: Rings, given: Strides, into: Strides) -> RelayProgram:
        """Steps that pack pieces of what each reader needs, in an area of its own."""
        transfer, me = self._transfer, self._transfer.rank
        areas = transfer.size - 1
        itemsize = max(self._itemsize(member) for member in range(transfer.size))
        largest = max(prod(shape) for shape in transfer.parts)
        most = max(min(SLOT_BYTES // AREA_ALIGNMENT // areas * AREA_ALIGNMENT // max(itemsize, 1), largest), 1)
        area = -(-most * itemsize // AREA_ALIGNMENT) * AREA_ALIGNMENT
        slots = Slots.of(area * areas)
        count = max(len(_pieces(Box.from_shape(shape), most)) for shape in transfer.parts)
        packs: list[list[BoxRow | None]] = [[] for _ in range(count)]
        lands: list[list[BoxRow | None]] = [[] for _ in range(count)]
        for send in transfer.sends:
            if send.peer != me:
                for number, piece in enumerate(_pieces(send.box, most)):
                    start = slots.start(number) + area * area_of(me, send.peer)
                    packs[number].append(self._pack(piece, given, start))
        for receive in transfer.receives:
            for number, piece in enumerate(_pieces(receive.source_box, most)):
                target = piece.relative_to(receive.source_box.starts).shift(receive.box.starts)
                packed = (
                    slots.start(number) + area * area_of(receive.peer, me),
                    Box.from_shape(piece.shape),
                    piece.shape,
                )
                lands[number].append(self._land(receive.peer, packed, piece, given, target, into))
        return RelayProgram(
            rings, slots, [RelayStep(*step, []) for step in zip(packs, lands, strict=True)], self._n_bytes
        )

    def _pack(self, piece: Box, given: Strides, start: int) -> BoxRow | None:
        """The row that packs a piece of this member's array at ``start`` of its ring."""
        me = self._transfer.rank
        itemsize = self._itemsize(me)
        packed = c_strides(piece.shape, itemsize)
        ends = at.FROM_X, at.FIRST_RING + me
        return kernels.box_row(piece.shape, itemsize, given, _offset(piece, given), packed, start, *ends)

    def _land(
        self, peer: int, packed: tuple[int, Box, Shape], source: Box, given: Strides, target: Box, into: Strides
    ) -> BoxRow | None:
        """The row that copies a box to ``target``: out of what ``peer`` has packed, or from the own array.

        ``packed``: where the piece begins, the box within the piece, and the shape of the piece.
        """
        itemsize = self._itemsize(peer)
        ends = _offset(target, into), at.FIRST_RING + peer, at.INTO_RESULT
        if peer == self._transfer.rank:
            return kernels.box_row(
                source.shape, itemsize, given, _offset(source, given), into, ends[0], at.FROM_X, at.INTO_RESULT
            )
        start, inside, shape = packed
        strides = c_strides(shape, itemsize)
        return kernels.box_row(source.shape, itemsize, strides, start + _offset(inside, strides), into, *ends)


def _pieces(box: Box, most: int) -> list[Box]:
    return list(pieces_of(box, most))


def _offset(box: Box, strides: Strides) -> int:
    return sum(start * stride for start, stride in zip(box.starts, strides, strict=True))
