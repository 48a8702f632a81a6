"""The first run of a request: every process reads its cells where the others hold them, and nothing is kept.

Programs that balance their load ask for other layouts in every step.  To choose a plan, to compare it, and to make its
exchanges and buffers takes many times as long as to move the cells once, so a plan is bound for the second run.  Each
process lists and checks what it takes by itself: others need not have planned alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid.errors import PlanError
from spmd_grid.exchange.paths import DIRECT
from spmd_grid.exchange.transfer.flat_bytes import copy_views, view_of
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.reshard.executor.bound_plan import outside
from spmd_grid.reshard.executor.exchanges.as_movement import facts_of, receives_of
from spmd_grid.reshard.executor.members import coords_of
from spmd_grid.reshard.executor.specification import ReshardSpecification
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.verify.exchanges import check_receives
from spmd_grid.transport.communicator import Frames
from spmd_grid.watch.traffic import Traffic, group_name

__all__ = ["FirstRun"]


class FirstRun:
    """One run of a resharding of arrays of ``dtype``, out of the arrays that the members let one another read."""

    def __init__(
        self,
        specified: ReshardSpecification,
        dtype: np.dtype,
        call: CollectiveCall,
        grid: ProcessGrid,
        arrays: Sequence[np.ndarray | None],
        posted: np.ndarray | None,
    ):
        self._specified, self._dtype, self._call, self._grid, self._arrays = specified, dtype, call, grid, arrays
        self._posted = posted  # which others read until the end

    @staticmethod
    def may_suit(specified: ReshardSpecification, call: CollectiveCall) -> bool:
        """Whether requests like this one run so for the first time, if all arrays can be read.  Local; alike on all.

        Partial values are left to plans: the strategy decides in which order they are combined.
        """
        partial = specified.source.sharding.partial_axes or specified.target.sharding.partial_axes
        return specified.has_choice and not partial and call.path is DIRECT and call.comm.size > 1

    @classmethod
    def of(
        cls,
        specified: ReshardSpecification,
        dtype: np.dtype,
        call: CollectiveCall,
        grid: ProcessGrid,
        frames: Frames,
        posted: np.ndarray | None,
    ) -> FirstRun | None:
        """The run after the meeting with ``frames``; None, on all members alike, where some array cannot be read.

        ``posted``: the array, or a copy of it, with which this member has met the others.
        """
        if frames.locations is None and frames.exposed is None:
            return None
        facts = facts_of(specified.source, call.comm, dtype)
        arrays = call.meeting.arrays(frames, facts)
        if arrays is None or any(x is None and fact.nbytes for x, fact in zip(arrays, facts)):
            return None
        return cls(specified, dtype, call, grid, arrays, posted)

    def run(
        self, arrays: Sequence[np.ndarray] | None, outs: Sequence[np.ndarray] | None, frames: Frames
    ) -> list[np.ndarray] | None:
        """The array in the target's layout, in ``outs`` where given; None on a process outside the target.

        Collective.  ``outs`` share no memory with an array that others read.
        """
        comm, target = self._call.comm, self._specified.target
        coords, results = coords_of(target, comm), None
        if coords is not None:
            process, move = comm.processes[comm.rank], self._move
            try:
                check_receives(move, process, coords)
            except PlanError as error:
                error.cuts_off = True  # the others do not know of it
                raise
            result = self._grid.allocate(target.local_shape(coords), self._dtype) if outs is None else outs[0]
            pairs = []
            for receive in receives_of(move, process, comm):
                source = self._arrays[receive.peer]
                assert source is not None  # checked above: the peer holds these cells
                pairs.append((view_of(source, receive.source_box), view_of(result, receive.box)))
            copy_views(pairs)
            for cells in outside(target, coords):
                result[cells] = np.zeros((), self._dtype)
            results = [result]
        if frames.lent:
            self._call.meeting.depart(frames)
        return results

    @property
    def _move(self) -> Redistribution:
        return Redistribution(self._specified.source, self._specified.target, self._dtype.itemsize)

    def traffic(self) -> Traffic:
        """The bytes that this process sends to each other one, for traces."""
        comm = self._call.comm
        sent: dict[int, int] = {}
        coords, move = coords_of(self._specified.source, comm), self._move
        for process, box in () if coords is None else move.sends(coords):
            sent[process] = sent.get(process, 0) + box.size * move.itemsize
        return Traffic(sent, "direct", group_name(comm.processes))
