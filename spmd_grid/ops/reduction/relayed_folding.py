"""Reductions of arrays that pass through the staging memory of a node, in the steps of a relay."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.agreement.relay import SLOT_BYTES, Program, Slots, Step
from spmd_grid.exchange.channel.copy_table import c_strides
from spmd_grid.exchange.paths import DIRECT
from spmd_grid.grid.box import Box, pieces_of
from spmd_grid.kernels import BoxRow
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.reduction.folding import Folding, flat_target
from spmd_grid.reduction_kind import ReductionKind
from spmd_grid.typing import Shape

__all__ = ["RelayedFolding"]

# Between near processors, arrays that can be read are faster to read from this size on: each member then folds a part.
_WHOLE_IF_NEAR, _BLOCKS_IF_NEAR = (1 << 20) - 1, 1 << 18
_LINES = 128  # bytes that no two readers share


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
        self._kind = "sum" if kind.is_average else kind.name
        self._folding = folding
        self._n_bytes = Box.from_shape(shape).size * dtype.itemsize
        self._is_compiled = kind.elementwise and kernels.supports(dtype, self._kind)
        self._program: Program | None = None

    def suits(self, readable: bool) -> bool:
        """Whether this beats reading the arrays where they lie, if they are ``readable``, or messages.

        The same on all members; collective when first used.
        """
        if self._call.path is not DIRECT or not self._is_compiled:
            return False
        most_if_near = _WHOLE_IF_NEAR if self._blocks is None else _BLOCKS_IF_NEAR
        return self._call.meeting.better_relayed(self._n_bytes, readable, most_if_near)

    def run(self, x: np.ndarray, target: np.ndarray | None) -> None:
        """Fold all arrays into ``target``, or this member's blocks of them.  Collective."""
        meeting = self._call.meeting
        assert isinstance(meeting, MemoryMeeting)
        if self._program is None:
            rings = meeting.rings()
            assert rings is not None  # `suits` has seen them
            self._program = self._of_wholes(rings) if self._blocks is None else self._of_blocks(rings, self._blocks)
        flat, finish = flat_target(target)
        meeting.relay(self._program, x, flat)
        if flat is not None:
            self._folding.divide(flat)
        if finish is not None:
            finish()

    @cached_property
    def _fold(self) -> int:
        return kernels.fold_address(self._kind, self._dtype)

    def _of_wholes(self, rings: np.ndarray) -> Program:
        """Steps in which all members, or root, fold a piece of whole arrays."""
        me, size, itemsize = self._call.comm.rank, self._call.comm.size, self._dtype.itemsize
        n, most = self._n_bytes // itemsize, SLOT_BYTES // itemsize
        slots, folds, steps = Slots.of(min(n, most) * itemsize), self._root in (None, me), []
        for number, first in enumerate(range(0, n, most)):
            count, start, at_byte = min(most, n - first), slots.start(number), first * itemsize
            row = kernels.box_row((count,), itemsize, (itemsize,), at_byte, (itemsize,), start, 0, at.FIRST_RING + me)
            words = [count, at_byte, *[at_byte if i == me else start for i in range(size)]] if folds else []
            steps.append(Step([row] if self._root in (None, *_others(me, size)) else [], [], words))
        return Program(rings, slots, steps, self._n_bytes if folds else 0, self._fold if folds else 0)

    def _of_blocks(self, rings: np.ndarray, blocks: Sequence[Box]) -> Program:
        """Steps in which every member folds a piece of its block, of which each has an area in the slots."""
        me, size, itemsize = self._call.comm.rank, self._call.comm.size, self._dtype.itemsize
        largest = max(block.size for block in blocks)
        most = max(min(SLOT_BYTES // _LINES // size * _LINES // itemsize, largest), 1)
        area = -(-most * itemsize // _LINES) * _LINES
        slots, given = Slots.of(area * size), c_strides(self._shape, itemsize)
        cuts = [list(pieces_of(block, most)) for block in blocks]
        packs: list[list[BoxRow | None]] = [[] for _ in range(max(map(len, cuts)))]
        folds: list[list[int]] = [[] for _ in packs]
        for reader, pieces in enumerate(cuts):
            done = 0
            for number, piece in enumerate(pieces):
                start = slots.start(number) + area * reader
                offset = sum(first * stride for first, stride in zip(piece.starts, given, strict=True))
                packed = c_strides(piece.shape, itemsize)
                ends = at.FROM_X, at.FIRST_RING + me
                packs[number].append(kernels.box_row(piece.shape, itemsize, given, offset, packed, start, *ends))
                if reader == me:
                    folds[number] = [piece.size, done, *[start] * size]
                    done += piece.size * itemsize
        steps = [Step(rows, [], words) for rows, words in zip(packs, folds, strict=True)]
        return Program(rings, slots, steps, blocks[me].size * itemsize, self._fold, own_in_ring=True)


def _others(me: int, size: int) -> list[int]:
    return [member for member in range(size) if member != me]
