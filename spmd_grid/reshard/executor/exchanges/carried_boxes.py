"""Small arrays that come with the frames of the meeting that opens a run: between nodes, nothing crosses after it."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.crossing_meeting import CrossingMeeting
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.paths import AUTO, MIXED, chosen_path
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.grid.box import Box
from spmd_grid.ops.calls.bounded_cache import keep
from spmd_grid.ops.loops.work import LoopWork, copies_of
from spmd_grid.reshard.executor.members import coords_of, coords_of_process, member_of
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.plan_value import PlanValue
from spmd_grid.transport.communicator import Communicator, Frames

__all__ = ["CarriedBoxes", "carried_bytes", "stays_within"]


def carried_bytes(comm: Communicator) -> int:
    """The size of the largest array that comes with a frame between the nodes of ``comm``; else 0.

    Collective where the members have not met; the same on all.
    """
    if comm.shares_memory or comm.shares_objects or comm.size == 1 or chosen_path() not in (AUTO, MIXED):
        return 0
    meeting = meeting_of(comm)
    return meeting.carried_bytes if isinstance(meeting, CrossingMeeting) else 0


def stays_within(move: Redistribution, comm: Communicator) -> bool:
    """Whether all that members of ``comm`` need comes from members: the steps of a plan may connect fewer processes."""
    grid, members = move.target.grid, set(comm.processes)
    targets = [coords for process in comm.processes if (coords := grid.coords_of_process(process)) is not None]
    return all(piece.process in members for coords in targets for piece in move.receives(coords))


class CarriedBoxes:
    """A plan whose arrays, one per process, all come with the frames: each process copies what it needs of them.

    This does all steps at once, since every process has the whole source.
    """

    def __init__(self, move: Redistribution, comm: Communicator, meeting: CrossingMeeting, facts: list[Facts]):
        self._meeting, self._facts = meeting, facts
        self.move = move
        # By member, the box in its array and in the result; of this process's own array.
        self._boxes: list[tuple[int, Box, Box]] = []
        self._own: list[tuple[Box, Box]] = []
        self._tables: dict[Hashable, np.ndarray] = {}  # by where arrays lie, and the strides of the result
        target = coords_of(move.target, comm)
        self._shape = None if target is None else move.target.local_shape(target)
        if target is None:
            return
        corner, kept, own = move.target.local_box(target).starts, move.kept_box(target), coords_of(move.source, comm)
        if kept is not None and own is not None:
            self._own.append((kept.relative_to(move.source.local_box(own).starts), kept.relative_to(corner)))
        for process, box in move.receives(target):
            origin = move.source.local_box(coords_of_process(move.source.grid, process)).starts
            self._boxes.append((member_of(process, comm), box.relative_to(origin), box.relative_to(corner)))

    @classmethod
    def of(cls, plan: PlanValue, comm: Communicator) -> CarriedBoxes | None:
        """Finds the boxes of a plan whose arrays come with the frames; None for other plans, alike on all processes.

        Collective where the members have not met.
        """
        most = carried_bytes(comm)
        if not most or len(plan.dtypes) > 1 or plan.chunks > 1 or not plan.run_steps:
            return None
        (dtype,), source = plan.dtypes, plan.source
        move = plan.moves[0]
        if len(plan.moves) > 1:
            move = Redistribution(source, plan.target, dtype.itemsize, move.node_size)
        if move.hidden is not None or not stays_within(move, comm):
            return None
        sources = [source.grid.coords_of_process(process) for process in comm.processes]
        facts = [
            Facts(None, None) if coords is None else Facts(source.local_shape(coords), dtype) for coords in sources
        ]
        meeting = meeting_of(comm)
        if not isinstance(meeting, CrossingMeeting) or max(fact.nbytes for fact in facts) > most:
            return None
        return cls(move, comm, meeting, facts)

    def run(self, frames: Frames, array: np.ndarray | None, result: np.ndarray | None) -> None:
        """Copies boxes out of the arrays in ``frames``, and of this process's own, into ``result``.  Local."""
        if result is None:
            return
        key = frames.locations, result.strides
        table = self._tables.get(key)
        if table is None:
            table = self._table(frames, result)
            keep(self._tables, key, table)
        if len(table):
            kernels.copy_table(kernels.address_of(table), table.shape[1], len(table), 0, kernels.address_of(result), 0)
        if array is not None:
            for there, here in self._own:
                view_of(result, here)[...] = view_of(array, there)

    def loop_work(self) -> LoopWork:
        """The same as a part of a compiled run, which begins with the meeting.  Local."""
        copies: list[list[kernels.BoxRow]] = [[] for _ in self._facts]
        if self._shape is not None:
            me = self._meeting.comm.rank
            for member, there, here in [*self._boxes, *((me, *boxes) for boxes in self._own)]:
                shape, dtype = self._facts[member].array()
                copies[member] += copies_of(shape, there, self._shape, here, dtype)
        return LoopWork(copies)

    def _table(self, frames: Frames, result: np.ndarray) -> np.ndarray:
        """The copy table of arrays as they lie now."""
        arrays, start, rows = self._meeting.arrays(frames, self._facts) or [], kernels.address_of(result), []
        for member, there, here in self._boxes:
            array = arrays[member]
            if array is None:
                raise LookupError(f"the array of member {member} has not come with the frames")
            source, into = view_of(array, there), view_of(result, here)
            rows.append(
                kernels.box_row(
                    source.shape,
                    source.itemsize,
                    source.strides,
                    kernels.address_of(source),
                    into.strides,
                    kernels.address_of(into) - start,
                )
            )
        return kernels.build_table([row for row in rows if row is not None])
