"""A plan bound to processes: its exchanges made ready, and the arrays between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TypeAlias

import numpy as np

from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.relay import RING_BYTES
from spmd_grid.exchange.paths import allows_memory, chosen_path
from spmd_grid.exchange.transfer.flat_bytes import copy_views, scratch
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.loops.work import LoopWork
from spmd_grid.ops.movement.fetched_copies import FetchedCopies
from spmd_grid.reshard.executor.exchanges.as_movement import facts_of, receives_of, transfer_of
from spmd_grid.reshard.executor.exchanges.box_exchange import MOST_STAGED_BYTES, BoxExchange
from spmd_grid.reshard.executor.exchanges.carried_boxes import CarriedBoxes
from spmd_grid.reshard.executor.exchanges.chunked_exchange import ChunkedExchange
from spmd_grid.reshard.executor.exchanges.native_collectives import NativeExchange, is_native
from spmd_grid.reshard.executor.members import coords_of
from spmd_grid.reshard.geometry.components import connected_within_node, is_searched
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.plan_value import PlanValue
from spmd_grid.reshard.planner.steps import Step
from spmd_grid.transport.communicator import Communicator, Frames
from spmd_grid.typing import MultiIndex, Shape
from spmd_grid.watch.traffic import Traffic, group_name

__all__ = ["BoundPlan"]

Exchange: TypeAlias = BoxExchange | ChunkedExchange | NativeExchange
Arrays: TypeAlias = Sequence[np.ndarray] | None  # by dtype; None on a process without a part


class BoundPlan:
    """A plan on the processes of ``comm``, ready to run.  Collective over these when made, and when run."""

    def __init__(self, plan: PlanValue, grid: ProcessGrid, comm: Communicator, activity: CollectiveCall | None = None):
        self.plan = plan
        self._grid, self._comm = grid, comm
        self.carried = CarriedBoxes.of(plan, comm)
        self._exchanges: list[Exchange] = []
        if self.carried is None:
            for part, move in zip(plan.run_steps, plan.moves):
                self._exchanges.append(self._bind(part, move, comm, activity))
        self._may_run_in_place = self.carried is None and (
            len(self._exchanges) != 1 or self._exchanges[0].works_in_place
        )
        self._fetched = None if activity is None else self._fetched_copies(activity)
        self._sent: dict[int, int] | None = None
        self._between: list[Arrays] | None = None
        coords = coords_of(plan.target, comm)
        self._result_shape = None if coords is None else plan.target.local_shape(coords)
        self._outside = [] if coords is None else list(outside(plan.target, coords))
        self.runs = 0  # by Python, until it is pinned (see `KeptPlans`)

    def _bind(self, part: Step, move: Redistribution, comm: Communicator, activity: CollectiveCall | None) -> Exchange:
        """One step ready to run, in the way that suits it: alike on all processes."""
        if self.plan.chunks > 1:
            return ChunkedExchange(move, self.plan.dtypes, comm, self.plan.chunks)
        group = self._group_of(move)
        if is_native(part, group, allows_memory(chosen_path())):
            return NativeExchange(part, self.plan.dtypes, comm, self._grid)
        capacity = MOST_STAGED_BYTES // len(self.plan.run_steps)
        follows = bool(self._exchanges) or group is not comm  # the meeting of a run is one of ``comm``
        return BoxExchange(move, self.plan.dtypes, group, activity, capacity, follows)

    def _group_of(self, move: Redistribution) -> Communicator:
        """The processes that take part in a step with this one.

        Collective.  In a plan of several steps between nodes, a step that stays within nodes concerns only the members
        that it connects: they relay its boxes, as in a plan of this step alone.
        """
        comm, nodes = self._comm, self._comm.process.nodes
        is_apart = len(self.plan.run_steps) > 1 and not comm.shares_objects and allows_memory(chosen_path())
        if not is_apart or not is_searched(comm.processes, nodes):
            return comm
        part = connected_within_node(move, comm.processes[comm.rank], comm.processes, nodes)
        return comm if part is None else self._grid.like(Grid((len(part),), ranks=part), "reshard").group((0,))

    def _fetched_copies(self, call: CollectiveCall) -> FetchedCopies | None:
        """Copies by the system that may take the place of a relay.  Collective; alike on all processes."""
        move, comm = self.only_move(), self._comm
        exchange = None if move is None or self.carried is not None else self._exchanges[0]
        relay = exchange.relay if isinstance(exchange, BoxExchange) else None
        if move is None or relay is None or relay.is_certain:  # as compiled runs relay
            return None
        facts = facts_of(move.source, comm, self.plan.dtypes[0])
        if not relay.meeting.may_fetch(max(fact.nbytes for fact in facts)):
            return None
        receives = receives_of(move, comm.processes[comm.rank], comm)
        return FetchedCopies(call, facts, transfer_of(move, comm, receives))

    def run(self, arrays: Arrays, outs: Arrays, frames: Frames) -> Arrays:
        """The arrays in the target's layout, in ``outs`` where given; None on a process outside the target.

        Collective.  ``arrays`` is None on a process outside the source.  They may be ``outs``.  ``frames``: those of
        the meeting with which the run has begun, with the arrays if these are `carried`.
        """
        results = self._allocate(self._result_shape) if outs is None else outs
        if self.carried is None and not self._exchanges:
            if arrays is not None and results is not None:
                for array, result in zip(arrays, results, strict=True):
                    np.copyto(result, array)
            return results
        if outs is None or arrays is None or self._may_run_in_place:
            self._run_exchanges(arrays, results, frames)
        else:
            # Cells that stay on this process would be overwritten before they have been read.
            with ExitStack() as aside:
                pairs = zip(arrays, outs, strict=True)
                arrays = [self._copy(x, aside) if np.may_share_memory(x, out) else x for x, out in pairs]
                self._run_exchanges(arrays, results, frames)
        if results is None:
            return None
        for result in results if self._outside else ():
            for cells in self._outside:
                result[cells] = np.zeros((), result.dtype)
        return results

    def loop_work(self, x: np.ndarray | None = None, result: np.ndarray | None = None) -> LoopWork | None:
        """Return what compiled code does of a run after the meeting; None, alike on all processes, where it cannot."""
        if self.plan.target.sharding.halo_sizes is not None:
            return None
        if self.carried is not None:
            return self.carried.loop_work()
        if len(self._exchanges) != 1 or not isinstance(self._exchanges[0], BoxExchange):
            return None
        copies = self._exchanges[0].copies(x, result)
        if copies is not None:
            return LoopWork([copies])
        relay = self._exchanges[0].program(x, result)
        return None if relay is None else LoopWork(relay=relay)

    def only_move(self) -> Redistribution | None:
        """The movement of boxes of one array, if the plan consists of it alone; else None."""
        exchanges, has_halo = self._exchanges, self.plan.target.sharding.halo_sizes is not None
        if has_halo or len(self.plan.dtypes) > 1:
            return None
        if self.carried is not None:
            return self.carried.move
        if len(exchanges) != 1 or not isinstance(exchanges[0], BoxExchange):
            return None
        return None if self.plan.moves[0].hidden is not None else self.plan.moves[0]

    def traffic(self) -> Traffic:
        """The bytes that this process sends to each other one, for traces."""
        comm = self._comm
        if self._sent is None:
            self._sent = {}
            parts: list[tuple[Redistribution, Exchange | None]] = [*zip(self.plan.moves, self._exchanges)]
            for move, exchange in parts if self.carried is None else [(self.carried.move, None)]:
                coords = coords_of(move.source, comm)
                pieces = () if coords is None else move.sends(coords)
                for process, box in exchange.sent if isinstance(exchange, BoxExchange) else pieces:
                    self._sent[process] = self._sent.get(process, 0) + box.size * move.itemsize
        return Traffic(self._sent, self.plan.strategy, group_name(comm.processes))

    @property
    def staging_bytes(self) -> int:
        """The most bytes that this process holds to move boxes, besides its arrays and those between steps.  Local.

        On one node no more than `MOST_STAGED_BYTES`, unless the plan runs in chunks, which have a limit of their own.
        Messages count in chunks only.
        """
        relays = any(isinstance(exchange, BoxExchange) and exchange.relay is not None for exchange in self._exchanges)
        return sum(exchange.staging_bytes for exchange in self._exchanges) + RING_BYTES * relays

    def _run_exchanges(self, arrays: Arrays, results: Arrays, frames: Frames) -> None:
        if self.carried is not None:
            self.carried.run(frames, None if arrays is None else arrays[0], None if results is None else results[0])
            return
        if self._fetched is not None and self._fetched.suits(frames):
            self._fetched.run(None if results is None else results[0], frames)
            meeting_of(self._comm).note_end()
            return
        stops = [arrays, *self._kept_between(), results]
        for exchange, before, after in zip(self._exchanges, stops, stops[1:]):
            exchange.run(before, after)

    def _copy(self, array: np.ndarray, aside: ExitStack) -> np.ndarray:
        """A copy that lasts as long as ``aside``."""
        copy = aside.enter_context(scratch(self._comm.process, array.shape, array.dtype))
        if copy is None:  # only where there is no shape
            return array
        copy_views([(array, copy)])
        return copy

    def _allocate(self, shape: Shape | None) -> Arrays:
        if shape is None:
            return None
        return [self._grid.allocate(shape, dtype) for dtype in self.plan.dtypes]

    def _kept_between(self) -> list[Arrays]:
        """The arrays between steps, made once: the first touch of memory costs more than the copies into it."""
        if self._between is None:
            self._between = [self._allocate(exchange.target_shape) for exchange in self._exchanges[:-1]]
        return self._between

    def retire(self) -> None:
        """Give back buffers and channels, once no neighbour needs them.  Local."""
        for exchange in self._exchanges:
            exchange.retire()
        self._between = None


def outside(layout: Layout, coords: MultiIndex) -> Iterator[tuple[slice, ...]]:
    """The cells of a local array that lie outside the domain, as indices.  Local."""
    inside = layout.in_domain_local(coords)
    shape = layout.local_shape(coords)
    for dim, (start, stop) in enumerate(zip(inside.starts, inside.stops, strict=True)):
        for low, high in ((0, start), (max(stop, start), shape[dim])):
            if low < high:
                yield (*[slice(None)] * dim, slice(low, high))
