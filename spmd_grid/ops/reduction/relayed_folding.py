"""Reductions of arrays that pass through the staging memory of a node, in the steps of a relay."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from spmd_grid import kernels
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
from spmd_grid.exchange.transfer.transfer import run_of
from spmd_grid.grid.box import Box, pieces_of
from spmd_grid.kernels import BoxRow
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.links.sizes import most_folded_whole
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.loops.work import LoopWork
from spmd_grid.ops.reduction.folding import Folding, flat_target
from spmd_grid.ops.reduction.slice_folding import slices_of
from spmd_grid.reduction_kind import ReductionKind
from spmd_grid.typing import Shape

__all__ = ["RelayedFolding"]

# Between near processors, larger arrays that can be read are faster to read: each member then folds a part.
_WHOLE_IF_NEAR, _BLOCKS_IF_NEAR = 1 << 19, 1 << 18

# Root folds up to this number of arrays alone as fast as it packs, folds and copies slices; more, up to these bytes.
_FEW_ARRAYS, _ROOT_ALONE = 4, 1 << 16


class RelayedFolding:
    """Folds the members' arrays of ``shape`` and ``dtype``, in steps.

    ``root``: the only member with a result.  ``blocks``: the boxes of all members, if each keeps its own.
    """

    def __init__(
        self,
        call: CollectiveCall,
        shape: Shape,
        dtype: np.dtype,
        kind: ReductionKind,
        root: int | None,
        blocks: Sequence[Box] | None,
        folding: Folding,
    ):
        self._call, self._shape, self._dtype, self._root, self._blocks = call, shape, dtype, root, blocks
        self._is_average = kind.is_average  # then the sum is divided, which is not the relay's part
        self._kind = "sum" if kind.is_average else kind.name
        self._folding = folding
        self._n_bytes = Box.from_shape(shape).size * dtype.itemsize
        compiled = call.path is DIRECT and kernels.supports(dtype, self._kind)
        self._is_compiled = compiled and has_areas(call.comm.size, dtype.itemsize)
        self._program: RelayProgram | None = None

    def suits(self, readable: bool) -> bool:
        """Whether this beats reading the arrays where they lie, if they are ``readable``, or messages.

        Collective; the same on all members.  The meeting's `note_end` follows each run.
        """
        if not self._is_compiled:
            return False
        key = self._call.fingerprint, self._n_bytes
        return self._call.meeting.better_relayed(self._n_bytes, readable, self._most_if_near, key)

    @property
    def _most_if_near(self) -> int:
        return _WHOLE_IF_NEAR if self._blocks is None else _BLOCKS_IF_NEAR

    def run(self, x: np.ndarray, target: np.ndarray | None) -> None:
        """Fold all arrays into ``target``, or this member's blocks of them.  Collective."""
        meeting = self._call.meeting
        assert isinstance(meeting, MemoryMeeting)
        rings = meeting.rings()
        assert rings is not None  # `suits` has seen them
        flat, finish = flat_target(target)
        meeting.relay(self._program_with(rings), x, flat)
        if flat is not None:
            self._folding.divide(flat)
        if finish is not None:
            finish()

    def loop_work(self) -> LoopWork | None:
        """Return what compiled runs do for contiguous arrays, if the relay is all of the fold and is known.  Local."""
        meeting = self._call.meeting
        if not (self._is_compiled and self._call.lets_read and isinstance(meeting, MemoryMeeting)):
            return None
        known = None if self._is_average else meeting.known_relay(self._n_bytes, self._most_if_near)
        if known is None:
            return None
        members = range(self._call.comm.size) if known.depends else ()
        relay = self._program_with(known.rings)
        return LoopWork(relay=relay, unless_read=members, if_far=known.if_far, if_near=known.if_near)

    def _program_with(self, rings: Rings) -> RelayProgram:
        if self._program is None:
            if self._blocks is not None:
                self._program = self._of_blocks(rings, self._blocks)
            elif self._is_sliced:
                self._program = self._of_slices(rings)
            else:
                self._program = self._of_wholes(rings)
        return self._program

    @property
    def _is_sliced(self) -> bool:
        size = self._call.comm.size
        if self._root is not None:
            return size > _FEW_ARRAYS and self._n_bytes > _ROOT_ALONE
        return self._n_bytes > most_folded_whole(size)

    @cached_property
    def _fold(self) -> int:
        return kernels.fold_address(self._kind, self._dtype)

    def _of_wholes(self, rings: Rings) -> RelayProgram:
        """Steps in which all members, or root, fold a piece of whole arrays."""
        me, size, itemsize = self._call.comm.rank, self._call.comm.size, self._dtype.itemsize
        n, most = self._n_bytes // itemsize, SLOT_BYTES // itemsize
        slots, folds, steps = Slots.of(min(n, most) * itemsize), self._root in (None, me), []
        for number, first in enumerate(range(0, n, most)):
            count, start, at_byte = min(most, n - first), slots.start(number), first * itemsize
            row = kernels.box_row((count,), itemsize, (itemsize,), at_byte, (itemsize,), start, 0, at.FIRST_RING + me)
            words = [count, at_byte, *[at_byte if i == me else start for i in range(size)]] if folds else []
            steps.append(RelayStep([row] if self._root in (None, *_others(me, size)) else [], [], words))
        return RelayProgram(rings, slots, steps, self._n_bytes if folds else 0, self._fold if folds else 0)

    def _of_blocks(self, rings: Rings, blocks: Sequence[Box]) -> RelayProgram:
        """Steps in which every member folds a piece of its block; the slots have an area for each of them.

        The own block is packed as well where blocks are no runs of memory.
        """
        me, size, itemsize = self._call.comm.rank, self._call.comm.size, self._dtype.itemsize
        runs = [run_of(self._shape, [block]) for block in blocks]
        own = runs[me] if all(run is not None for run in runs) else None
        cuts, area, slots = self._cut(blocks, size if own is None else size - 1)
        steps = [RelayStep([], [], []) for _ in range(max(map(len, cuts)))]
        for reader, pieces in enumerate(cuts):
            done = 0
            for number, (step, piece) in enumerate(zip(steps, pieces)):
                start = slots.start(number)
                if reader != me or own is None:
                    step.packs.append(
                        self._pack(piece, start + area * (reader if own is None else area_of(me, reader)))
                    )
                if reader == me:
                    rows = [start + area * (me if own is None else area_of(i, me)) for i in range(size)]
                    if own is not None:
                        rows[me] = own[0] * itemsize + done
                    step.fold[:] = piece.size, done, *rows
                    done += piece.size * itemsize
        return RelayProgram(rings, slots, steps, blocks[me].size * itemsize, self._fold, own_in_ring=own is None)

    def _of_slices(self, rings: Rings) -> RelayProgram:
        """The steps of a fold by slices: every member folds its slice, and all, or root, copy the others' results.

        If only root has a result, the others fold into memory of the program.
        """
        me, size, itemsize = self._call.comm.rank, self._call.comm.size, self._dtype.itemsize
        flat = (itemsize,)
        slices = slices_of(self._n_bytes // itemsize, size)
        has_result = self._root in (None, me)
        folded_from = 0 if has_result else slices[me].starts[0] * itemsize
        cuts, area, slots = self._cut(slices, size)
        steps = [RelayStep([], [], []) for _ in range(max(map(len, cuts)) + 2)]
        for member, pieces in enumerate(cuts):
            ring = at.FIRST_RING + member
            for number, piece in enumerate(pieces):
                first, start = piece.starts[0] * itemsize, slots.start(number)
                result = slots.start(number + 2) + area * (size - 1)
                last = steps[number + 2]
                if member != me:
                    steps[number].packs.append(self._pack(piece, start + area * area_of(me, member)))
                    ends = ring, at.INTO_RESULT
                    if has_result:
                        last.lands.append(kernels.box_row(piece.shape, itemsize, flat, result, flat, first, *ends))
                else:
                    rows = [first if i == me else start + area * area_of(i, me) for i in range(size)]
                    into = first - folded_from
                    steps[number].fold[:] = piece.size, into, *rows
                    ends = at.INTO_RESULT, ring
                    if self._root != me:
                        last.packs.append(kernels.box_row(piece.shape, itemsize, flat, into, flat, result, *ends))
        scratch = 0 if has_result else slices[me].size * itemsize
        return RelayProgram(rings, slots, steps, self._n_bytes, self._fold, spreads=True, scratch_bytes=scratch)

    def _cut(self, boxes: Sequence[Box], areas: int) -> tuple[list[list[Box]], int, Slots]:
        """The pieces of each box, the bytes of an area for one of them, and slots of these areas."""
        itemsize, largest = self._dtype.itemsize, max(box.size for box in boxes)
        most = max(min(SLOT_BYTES // AREA_ALIGNMENT // areas * AREA_ALIGNMENT // itemsize, largest), 1)
        area = -(-most * itemsize // AREA_ALIGNMENT) * AREA_ALIGNMENT
        return [list(pieces_of(box, most)) for box in boxes], area, Slots.of(area * areas)

    def _pack(self, piece: Box, start: int) -> BoxRow | None:
        """The row that packs a piece of this member's array, or of its cells in a row, at ``start`` of its ring."""
        itemsize = self._dtype.itemsize
        given = c_strides(self._shape, itemsize) if self._blocks is not None else (itemsize,)
        offset = sum(first * stride for first, stride in zip(piece.starts, given, strict=True))
        ends = at.FROM_X, at.FIRST_RING + self._call.comm.rank
        return kernels.box_row(piece.shape, itemsize, given, offset, c_strides(piece.shape, itemsize), start, *ends)


def _others(me: int, size: int) -> list[int]:
    return [member for member in range(size) if member != me]
