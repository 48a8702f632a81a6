"""Bound reshardings whose runs do not meet, where processes are on several nodes: they send what others need at once.

The first run of a bound plan meets, and compares it.  Later ones do not (`ops/calls/plan_ahead.py`) if the plan has one
step, of one array, and if no cell crosses to a node more often than in runs that meet.  Arrays that come with the
frames of a meeting travel in lines and messages, larger ones in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from spmd_grid.errors import SpmdError
from spmd_grid.exchange.agreement.crossing_meeting import CrossingMeeting
from spmd_grid.exchange.nodes.direct import goes_direct
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.exchange.paths import MIXED
from spmd_grid.exchange.transfer.flat_bytes import copy_views
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.kernels.ahead.slots import LINE_POST_BYTES
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.calls.arguments import gate_of
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.calls.plan_ahead import PlanAhead, ahead_run_of
from spmd_grid.ops.loops.entry import CompiledPart, LoopActivity
from spmd_grid.ops.loops.quick_call import QuickCall
from spmd_grid.ops.loops.work import LoopWork, copies_of_transfer
from spmd_grid.ops.movement.ahead import AheadMessage, AheadWork, ahead_messages, ahead_work, direct_messages
from spmd_grid.ops.movement.crossing_pieces import pieces_of_movement
from spmd_grid.ops.movement.items import Item
from spmd_grid.ops.movement.posted import fit_lines
from spmd_grid.reshard.executor.arguments import LocalArrays, LocalResult
from spmd_grid.reshard.executor.bound_plan import BoundPlan
from spmd_grid.reshard.executor.exchanges.as_movement import facts_of, receives_of, transfer_of
from spmd_grid.reshard.executor.exchanges.carried_boxes import stays_within
from spmd_grid.reshard.executor.exchanges.node_sharing import NodeSharing
from spmd_grid.reshard.executor.prepared_reshard import PreparedReshard
from spmd_grid.reshard.executor.specification import ReshardSpecification
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.plan_value import PlanValue
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import Shape
from spmd_grid.watch.traffic import Traffic

__all__ = ["ReshardAhead"]

# Members of the largest groups, and bytes of the largest arrays, for which the time of a meeting counts.
_MOST_MEMBERS, _MOST_BYTES = 16, 1 << 24
_LEAST_BYTES = at.LINE_ARRAY_BYTES  # of larger arrays that travel in pieces


class ReshardAhead(PreparedReshard):
    """The runs of one bound plan; ``made_at``: the call site where it was bound."""

    def __init__(self, plan: PlanValue, grid: ProcessGrid, made_at: str):
        super().__init__("run_plan", ReshardSpecification.of_plan(plan, is_bound=True), grid)
        self.plan, self._made_at = plan, made_at
        self._ahead: PlanAhead | None = None
        self.is_settled = False  # whether the first run has shown if there are runs without a meeting

    @staticmethod
    def may_suit(plan: PlanValue, prepared: PreparedReshard) -> bool:
        """Whether runs of a plan might not meet.  Local; the same on all that it connects."""
        call = prepared.call
        return call is not None and call.path is MIXED and len(plan.run_steps) == 1 and not prepared.is_checked

    def run(self, local: LocalArrays, out: LocalArrays, name: str | None = None) -> LocalResult:
        """Run the resharding, as any; the first time with a meeting.  Collective."""
        if self._ahead is not None:
            return self._run_ahead(self._ahead, local, out)
        result = super().run(local, out, name)
        if not self.is_settled:
            self.is_settled, self._name = True, name
            self._ahead = self._make_ahead()
        return result

    def compiled_part(self) -> CompiledPart | None:
        """Return the part that compiled code may run by itself; None where Python makes all runs.  Local."""
        return None if self._ahead is None else self._ahead.compiled_part()

    def _run_ahead(self, ahead: PlanAhead, local: LocalArrays, out: LocalArrays) -> LocalResult:
        recorder = self._joint_grid.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(self._call, local, self._run_ahead, ahead, local, out)
        try:
            arrays, outs = self._checked(local, out)
        except SpmdError as error:
            blamed = self._call.blame(error)
            blamed.cuts_off = True
            raise blamed from None
        x, target = None if arrays is None else arrays[0], None if outs is None else outs[0]
        if x is not None and target is not None and np.may_share_memory(x, target):
            copy = np.empty(x.shape, x.dtype)
            copy_views([(x, copy)])
            x = copy
        result = ahead.run(self._call, x, target)
        if self._quick is not None and x is local and target is out:
            ahead.learn(self._quick, target, result)
        several = isinstance(local, list | tuple) or isinstance(out, list | tuple)
        return [result] if several and result is not None else result

    def _make_ahead(self) -> PlanAhead | None:
        """The runs without a meeting; None where there are none, alike on all members.  Collective."""
        [types] = self._plans
        call, gate = self._call, self._call.comm.process.gate
        movement = None if types.several else _movement_of(self._bound_plan(types), call, self._joint_grid)
        if movement is None:
            return None
        mine, activity = movement.facts[call.comm.rank], LoopActivity(self.describe(self._name), self._made_at)
        run = ahead_run_of("run_plan", gate, call, movement, lambda: activity, "run_plan")
        if run is None:
            return None
        if QuickCall.is_possible(call):
            self._quick = QuickCall("run_plan", gate, call, self.run_alone, allocate=self._joint_grid.allocate)
        return PlanAhead(run, call, movement, mine.shape, movement.dtype, lambda x: x)

    def run_alone(self, local: LocalArrays = None, out: LocalArrays = None) -> LocalResult:
        """Run the resharding by Python, as an operation of its own.  Collective."""
        return gate_of("run_plan", self._grid).run("run_plan", self.run, local, out, self.plan.name)


class _Movement:
    """The boxes of a resharding as those of an operation that moves them."""

    def __init__(self, bound: BoundPlan, move: Redistribution, comm: Communicator, grid: ProcessGrid):
        self._bound, self._comm, self._grid = bound, comm, grid
        (self.dtype,) = bound.plan.dtypes
        self._receives = [receives_of(move, process, comm) for process in comm.processes]
        self.facts = facts_of(move.source, comm, self.dtype)
        self._transfer = transfer_of(move, comm, self._receives[comm.rank])
        self.shape = self._transfer.target_shape
        self._is_short = bound.carried is not None

    def ahead_work(self, nodes: NodeMap, swap: Callable[[bytes], list[bytes]]) -> AheadWork | None:
        """This member's part of a run; None where runs have to meet, alike on all members.  Local."""
        shapes = [fact.shape for fact in self.facts]
        items = [[Item(each.peer, each.source_box) for each in receives] for receives in self._receives]
        messages = self._messages(shapes, items, nodes) if self._is_short else self._small_parts(shapes, items, nodes)
        if messages is not None:
            work = LoopWork(copies_of_transfer(self._transfer, shapes, self.dtype))
            return ahead_work(self._transfer, shapes, items, messages, work, self.dtype, nodes)
        if self._is_short:
            return None
        pieces, read_bytes = pieces_of_movement(self._transfer, shapes, items, self.dtype, nodes)
        return AheadWork.by_pieces(pieces, self._comm.rank, read_bytes)

    def _messages(
        self, shapes: Sequence[Shape | None], items: Sequence[Sequence[Item]], nodes: NodeMap
    ) -> list[AheadMessage] | None:
        """The messages between nodes: on shared cores the fewest, since each costs more there than to pass it on.

        None if cells would cross more often than in runs that meet.
        """
        direct = direct_messages(shapes, items, nodes, self.dtype)
        if direct is not None and goes_direct(self._comm):
            return direct
        joined = ahead_messages(items, nodes, at.LINE_ARRAY_BYTES // max(self.dtype.itemsize, 1))
        if sum(message.cells for message in joined) > self.crossings(nodes):
            return None
        return direct if direct is not None and len(direct) < len(joined) else joined

    def _small_parts(
        self, shapes: Sequence[Shape | None], items: Sequence[Sequence[Item]], nodes: NodeMap
    ) -> list[AheadMessage] | None:
        """The messages between nodes if all parts of larger arrays are small; None: they go in pieces."""
        if not fit_lines(shapes, items, self.dtype, nodes):
            return None
        direct = direct_messages(shapes, items, nodes, self.dtype) or []
        cells = [message.cells for message in direct]
        is_small = max(cells, default=0) * self.dtype.itemsize <= LINE_POST_BYTES
        return direct if direct and is_small and sum(cells) <= self.crossings(nodes) else None

    def new_target(self) -> np.ndarray:
        """An array for the result.  Local."""
        assert self.shape is not None  # it has one
        return self._grid.allocate(self.shape, self.dtype)

    def traffic(self) -> Traffic:
        """The bytes that this process sends, for traces."""
        return self._bound.traffic()

    def crossings(self, nodes: NodeMap) -> int:
        """The number of cells that cross between nodes."""
        found = {
            (nodes.node_of[member], each.peer, each.source_box)
            for member, receives in enumerate(self._receives)
            for each in receives
            if nodes.node_of[member] != nodes.node_of[each.peer]
        }
        return sum(box.size for _, _, box in found)


def _movement_of(bound: BoundPlan, call: CollectiveCall, grid: ProcessGrid) -> _Movement | None:
    """The movement of a plan of one step, unless its arrays are too large; None for others, alike on all.  Local."""
    move, comm, meeting = bound.only_move(), call.comm, call.meeting
    if move is None or comm.size > _MOST_MEMBERS or not isinstance(meeting, CrossingMeeting):
        return None
    is_short = bound.carried is not None
    is_long = _LEAST_BYTES < _largest(move, comm, bound.plan.dtypes[0]) <= _MOST_BYTES
    if not is_short and not (is_long and stays_within(move, comm)):
        return None
    movement = _Movement(bound, move, comm, grid)
    crossing = movement.crossings(meeting.nodes)
    if is_short:
        return movement if crossing else None
    return movement if 0 < crossing <= NodeSharing(move, comm, meeting.nodes).crossing_cells else None


def _largest(move: Redistribution, comm: Communicator, dtype: np.dtype) -> int:
    """The bytes of the largest array of any member."""
    return max(fact.nbytes for layout in (move.source, move.target) for fact in facts_of(layout, comm, dtype))
