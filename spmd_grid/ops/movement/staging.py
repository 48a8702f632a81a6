"""Moves arrays that other members cannot read through shared memory, piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.paths import DIRECT
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.exchange.transfer.transfer import Receive, Transfer
from spmd_grid.grid.box import Box, pieces_of
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.calls.shape_rules import dtype_of
from spmd_grid.ops.movement.member_arrays import DirectCopies, MemberArrays

__all__ = ["StagedCopies"]

# Arrays of up to this many bytes go through shared memory even if messages would need no packing.
_STAGED_BYTES = 1 << 21


class StagedCopies:
    """Moves arrays that other members cannot read through shared memory, piece by piece.

    In each round every member posts a piece of its array, while others still copy from the round before.
    ``in_runs``: whether all boxes of all members are runs of their arrays.
    """

    def __init__(self, call: CollectiveCall, facts: Sequence[Facts], transfer: Transfer, in_runs: bool):
        self._call, self._facts, self._transfer = call, facts, transfer
        self._copies: list[tuple[Box | None, MemberArrays, DirectCopies]] = []
        self._most = max(fact.nbytes for fact in facts)
        self._in_runs = in_runs

    @property
    def is_better(self) -> bool:
        """Whether this beats messages.  Local, equal on all members.

        MPI copies a large message once, directly from array to array; but boxes that are no runs would be packed.
        """
        if self._call.path is not DIRECT or not self._call.meeting.stage_bytes:
            return False
        return not self._in_runs or self._most <= _STAGED_BYTES

    def run(self, x: np.ndarray | None, target: np.ndarray | None) -> bool:
        """Move all pieces; False if some member had no space for a piece: all members return the same.

        Collective over the group, after a meeting in which not all arrays could be read.
        """
        if not self._copies:
            self._copies = self._rounds()
        meeting = self._call.meeting
        for piece, arrays, copies in self._copies:
            frames = meeting.swap(None if piece is None or x is None else view_of(x, piece))
            found = arrays.of(frames)
            if found is None:
                return False
            copies.run(frames, found, target)
            if frames.lent:
                meeting.depart(frames)
        return True

    def _rounds(self) -> list[tuple[Box | None, MemberArrays, DirectCopies]]:
        most = self._call.meeting.stage_bytes
        pieces = [
            []
            if fact.shape is None
            else list(pieces_of(Box.from_shape(fact.shape), most // max(dtype_of(fact).itemsize, 1)))
            for fact in self._facts
        ]
        rounds = []
        for number in range(max(map(len, pieces))):
            posted = [each[number] if number < len(each) else None for each in pieces]
            facts = [
                Facts(None, None) if box is None else Facts(box.shape, fact.dtype)
                for box, fact in zip(posted, self._facts, strict=True)
            ]
            receives = []
            for receive in self._transfer.receives:
                piece = posted[receive.peer]
                if piece is None:
                    continue
                common = receive.source_box.intersect(piece)
                if not common.is_empty:
                    target = common.relative_to(receive.source_box.starts).shift(receive.box.starts)
                    receives.append(Receive(receive.peer, common.relative_to(piece.starts), target))
            transfer = replace(self._transfer, receives=tuple(receives))
            rounds.append((posted[self._transfer.rank], MemberArrays(self._call, facts), DirectCopies(transfer)))
        return rounds
