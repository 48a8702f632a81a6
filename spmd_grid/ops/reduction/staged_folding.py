"""Reductions of arrays that other members cannot read, in pieces that are copied to shared memory."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.paths import DIRECT
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.movement.member_arrays import MemberArrays
from spmd_grid.ops.reduction.folding import Folding, flat_target

__all__ = ["StagedFolding"]

# More than two members stage arrays only up to this many bytes.
_STAGED_BYTES = 1 << 21


class StagedFolding:
    """Folds the members' arrays of ``n`` elements on every member, piece by piece."""

    def __init__(self, call: CollectiveCall, n: int, dtype: np.dtype, folding: Folding):
        self._call, self._n, self._dtype, self._folding = call, n, dtype, folding

    @property
    def is_better(self) -> bool:
        """Whether this beats messages.  Local, equal on all members."""
        if self._call.path is not DIRECT or not self._call.meeting.stage_bytes:
            return False
        return self._call.comm.size == 2 or self._n * self._dtype.itemsize <= _STAGED_BYTES

    def run(self, x: np.ndarray, target: np.ndarray) -> bool:
        """Fold all arrays into ``target``; while this member folds, others may post the next piece.

        False if some member had no space for a piece; all members return the same.
        """
        flat, finish = flat_target(target)
        source, meeting = x.reshape(-1), self._call.meeting
        for piece, arrays in self._pieces:
            frames = meeting.swap(source[piece])
            found = arrays.of(frames)
            if found is None:
                return False
            rows = [kernels.address_of(array) for array in found]
            self._folding.addresses(np.array(rows, np.int64), flat[piece])
            if frames.lent:
                meeting.depart(frames)
        if finish is not None:
            finish()
        return True

    @cached_property
    def _pieces(self) -> list[tuple[slice, MemberArrays]]:
        step = self._call.meeting.stage_bytes // self._dtype.itemsize
        pieces = [slice(start, min(start + step, self._n)) for start in range(0, self._n, step)]
        facts = [Facts((piece.stop - piece.start,), self._dtype) for piece in pieces]
        size = self._call.comm.size
        return [(p, MemberArrays(self._call, [fact] * size)) for p, fact in zip(pieces, facts, strict=True)]
