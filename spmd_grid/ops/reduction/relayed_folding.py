"""Reductions of arrays that pass through the staging memory of a node, in the steps of a relay."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.agreement.relay import RelayProgram, RelayStep, Rings, area_of, has_areas
from spmd_grid.exchange.channel.copy_table import c_strides
from spmd_grid.exchange.paths import DIRECT
from spmd_grid.exchange.transfer.transfer import run_of
from spmd_grid.grid.box import Box
from spmd_grid.kernels import BoxRow
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.links.sizes import MOST_RELAYED_BLOCKS, MOST_RELAYED_WHOLE
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.loops.work import LoopWork
from spmd_grid.ops.reduction.folding import Folding, flat_target
from spmd_grid.ops.reduction.relayed_alike import cut_into_areas, relay_of_alike
from spmd_grid.reduction_kind import ReductionKind
from spmd_grid.typing import Shape

__all__ = ["RelayedFolding"]


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
        return MOST_RELAYED_WHOLE if self._blocks is None else MOST_RELAYED_BLOCKS

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
            else:
                members, ends = range(self._call.comm.size), (self._dtype.itemsize, self._n_bytes, self._fold)
                self._program = relay_of_alike(rings, members, *ends, self._root)
        return self._program

    @cached_property
    def _fold(self) -> int:
        return kernels.fold_address(self._kind, self._dtype)

    def _of_blocks(self, rings: Rings, blocks: Sequence[Box]) -> RelayProgram:
        """Steps in which every member folds a piece of its block; the slots have an area for each of them.

        The own block is packed as well where blocks are no runs of memory.
        """
        me, size, itemsize = self._call.comm.rank, self._call.comm.size, self._dtype.itemsize
        runs = [run_of(self._shape, [block]) for block in blocks]
        own = runs[me] if all(run is not None for run in runs) else None
        cuts, area, slots = cut_into_areas(blocks, size if own is None else size - 1, itemsize)
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

    def _pack(self, piece: Box, start: int) -> BoxRow | None:
        """The row that packs a piece of this member's array at ``start`` of its ring."""
        itemsize = self._dtype.itemsize
        given = c_strides(self._shape, itemsize)
        offset = sum(first * stride for first, stride in zip(piece.starts, given, strict=True))
        ends = at.FROM_X, at.FIRST_RING + self._call.comm.rank
        return kernels.box_row(piece.shape, itemsize, given, offset, c_strides(piece.shape, itemsize), start, *ends)
