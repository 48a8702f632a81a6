"""Reshardings as collective operations: checked and agreed upon, bound once, then run again and again.

A plan and a request without a plan take the same way.  They differ in what is known before the processes meet: a plan
knows the dtypes, a request becomes a plan once the processes have agreed on them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.errors import GridError, SpmdError
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.paths import chosen_path
from spmd_grid.exchange.transfer.flat_bytes import copy_views
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import gate_of
from spmd_grid.ops.calls.bounded_cache import keep_call
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.calls.compare import AgreePlan
from spmd_grid.ops.calls.opening import Opening
from spmd_grid.ops.loops.entry import Ran
from spmd_grid.ops.loops.quick_call import QuickCall
from spmd_grid.reshard.executor.arguments import ArrayTypes, LocalArrays, LocalResult, output_arrays, source_arrays
from spmd_grid.reshard.executor.bound_plan import BoundPlan
from spmd_grid.reshard.executor.exchanges.box_exchange import MOST_STAGED_BYTES
from spmd_grid.reshard.executor.exchanges.carried_boxes import carried_bytes
from spmd_grid.reshard.executor.first_run import FirstRun
from spmd_grid.reshard.executor.kept_plans import KeptPlans
from spmd_grid.reshard.executor.members import coords_of
from spmd_grid.reshard.executor.specification import ReshardOperation, ReshardSpecification
from spmd_grid.reshard.geometry.components import connected_processes, is_searched
from spmd_grid.reshard.plan_value import PlanValue
from spmd_grid.reshard.verify.steps import check_plan_steps
from spmd_grid.transport.communicator import HEADER_BYTES, Frames

__all__ = ["PreparedReshard", "prepare", "prepared_plan", "run_planned", "run_quickly", "run_slowly"]

_operations = {name: (ReshardOperation(name), AgreePlan(name)) for name in ("reshard", "run_plan")}


def run_planned(plan: PlanValue, local: LocalArrays, grid: ProcessGrid, out: LocalArrays) -> LocalResult:
    """Run ``plan``, as a part of an operation that has gone through the gate.  As `Plan.run`."""
    key = "run_plan", plan, chosen_path(), grid.process.gate.thread_name()
    return prepared_plan(plan, key, grid).run(local, out, plan.name)


def run_quickly(plan: PlanValue, local: LocalArrays, grid: ProcessGrid, out: LocalArrays) -> LocalResult:
    """Run ``plan``, by one compiled function where there is one.  As `Plan.run`."""
    try:
        quick = grid.calls["run_plan", plan, chosen_path(), ""].quick_for(plan)
    except (KeyError, TypeError, AttributeError):
        quick = None
    return run_slowly(plan, local, grid, out) if quick is None else quick.run(local, out)


def run_slowly(plan: PlanValue, local: LocalArrays, grid: ProcessGrid, out: LocalArrays) -> LocalResult:
    """Run ``plan``, step by step.  As `Plan.run`."""
    return gate_of("run_plan", grid).run("run_plan", run_planned, plan, local, grid, out)


def prepared_plan(plan: PlanValue, key: tuple[Hashable, ...], grid: ProcessGrid) -> PreparedReshard:
    """The prepared resharding of a plan, kept on ``grid`` under ``key``.  Local.  Raises GridError."""
    prepared: PreparedReshard | None = grid.calls.get(key)
    if prepared is None or prepared.is_checked != _is_checked(grid):
        prepared = prepare("run_plan", key, grid, ReshardSpecification.of_plan(plan))
    return prepared


def prepare(op: str, key: tuple[Hashable, ...], grid: ProcessGrid, specified: ReshardSpecification) -> PreparedReshard:
    """A new prepared resharding, kept on ``grid`` under ``key``.  Local.  Raises GridError."""
    source, target = specified.source.grid, specified.target.grid
    if not (grid.grid.is_like(source) or grid.grid.is_like(target)):
        raise GridError(f"{op}: grid is {grid.grid!r}; the layouts are on {source!r} and {target!r}")
    prepared = PreparedReshard(op, specified, grid)
    keep_call(grid, key, prepared)
    return prepared


def _is_checked(grid: ProcessGrid) -> bool:
    """Whether all processes compare their calls, even those between which nothing moves."""
    return grid.recorder is not None and grid.recorder.check


class _Named(NamedTuple):
    """A resharding with the name of its plan, for reports."""

    call: CollectiveCall
    name: str

    def describe(self) -> str:
        return f"run_plan {self.name!r} {self.call.describe().removeprefix('run_plan')}"


class PreparedReshard:
    """A resharding on the processes of both layouts' grids: everything that does not depend on the arrays.

    With a plan, and on several nodes, it is a resharding on the processes that the plan connects with this one: others
    need neither wait nor learn of errors.
    """

    def __init__(self, op: str, specified: ReshardSpecification, grid: ProcessGrid):
        source, target = specified.source, specified.target
        self._op, self._specified, self._grid = op, specified, grid
        operation, self._same_steps = _operations[op]
        self._has_plan = specified.types is not None
        self.is_checked = _is_checked(grid)
        processes = tuple(sorted({p for each in (source.grid, target.grid) for p in each.ranks or range(each.size)}))
        nodes, plan = grid.process.nodes, specified.plan
        if plan is not None and not self.is_checked and is_searched(processes, nodes) and grid.rank in processes:
            processes = connected_processes(plan.moves, grid.rank, processes, nodes)
        self._joint_grid = grid.like(Grid((len(processes),), ranks=processes), op)
        self._takes_part = self._joint_grid.coords is not None
        if self._takes_part:
            thread_name = grid.process.gate.thread_name()
            self._call = operation.find_call(self._joint_grid, [0], (specified,), thread_name=thread_name)
            before, after = coords_of(source, self._call.comm), coords_of(target, self._call.comm)
            self._may_be_first = not self._has_plan and FirstRun.may_suit(specified, self._call)
            self._source_shape = None if before is None else source.local_shape(before)
            self._target_shape = None if after is None else target.local_shape(after)
        self._quick: QuickCall | None = None  # the whole operation, where it has compiled runs
        self._name: str | None = None  # that of its plan
        self._known: set[bool] = set()  # whether runs with and without ``out`` have been looked at
        self._plans: dict[ArrayTypes, tuple[PlanValue, Hashable]] = {}  # with its key among the kept ones
        self._openings: dict[ArrayTypes | None, Opening] = {}

    @property
    def call(self) -> CollectiveCall | None:
        """The agreement of its processes; None on one without a part."""
        return self._call if self._takes_part else None

    def describe(self, name: str | None) -> str:
        """Describe it for reports; ``name``: that of its plan."""
        return (self._call if name is None else _Named(self._call, name)).describe()

    def quick_for(self, plan: PlanValue) -> QuickCall | None:
        """The whole operation by compiled code, once it is known; ``plan`` is equal to its own, but for its name."""
        return self._quick if plan.name == self._name else None

    def run(self, local: LocalArrays, out: LocalArrays, name: str | None = None) -> LocalResult:
        """Run the resharding; None on a process without a part of the result.  Collective.

        ``name``: the plan's name in reports.
        """
        if not self._takes_part:
            return None
        recorder = self._joint_grid.process.recorder
        if recorder is not None and recorder.is_idle:
            activity = self._call if name is None else _Named(self._call, name)
            return recorder.run(activity, local, self.run, local, out)
        arrays, outs, opening = self._check_arrays(local, out)
        is_first = self._may_be_first and self._kept.is_first(self._specified.signature)
        types, frames, ready = self._agree(opening, self._posted(arrays, outs, is_first), is_first)
        if recorder is not None:
            recorder.moved(ready)
        results = ready.run(arrays, outs, frames)
        if recorder is None and self._has_plan and (out is None) not in self._known:
            self._learn(types, opening, frames.headers, local, out, results, name)
        return results if results is None or types.several else results[0]

    def _posted(
        self, arrays: list[np.ndarray] | None, outs: list[np.ndarray] | None, is_first: bool
    ) -> np.ndarray | None:
        """The array with which this process meets the others: a small one, or one that they may read.  Local."""
        if arrays is None or len(arrays) > 1:
            return None
        [x], meeting = arrays, meeting_of(self._call.comm)
        if is_first:
            is_apart = outs is None or not np.may_share_memory(x, outs[0])
            if is_apart and (x.nbytes <= meeting.posted_bytes or (x.flags.c_contiguous and meeting.reads_in_place(x))):
                return x
            return self._copy(x) if x.nbytes <= MOST_STAGED_BYTES else None
        if x.nbytes <= carried_bytes(self._call.comm):
            return x
        is_fetched = isinstance(meeting, MemoryMeeting) and self._call.lets_read and meeting.may_fetch(x.nbytes)
        if not is_fetched or meeting.reads_in_place(x) or (outs is not None and np.may_share_memory(x, outs[0])):
            return None
        return x

    def _copy(self, x: np.ndarray) -> np.ndarray:
        """A copy that others can read, while this process may write to ``x``."""
        copy = self._joint_grid.allocate(x.shape, x.dtype)
        copy_views([(x, copy)])
        return copy

    def _agree(
        self, opening: Opening, x: np.ndarray | None, is_first: bool
    ) -> tuple[ArrayTypes, Frames, BoundPlan | FirstRun]:
        """The meeting that opens a run, with an array or none, and what is ready to run after it."""
        call = self._call
        types, frames = call.agree(opening, x)
        if is_first:
            self._kept.note(self._specified.signature)
            if not types.several:
                first = FirstRun.of(self._specified, types.dtypes[0], call, self._joint_grid, frames, x)
                if first is not None:
                    return types, frames, first
            x = x if x is not None and x.nbytes <= carried_bytes(call.comm) else None
        if types in self._plans and (bound := self._kept.find(self._plans[types][1])) is not None:
            return types, frames, bound
        bound = self._bound_plan(types)
        if bound.carried is not None:  # others' arrays came with frames that the members have swapped meanwhile
            types, frames = call.agree(opening, x)
        return types, frames, bound

    def _check_arrays(
        self, local: LocalArrays, out: LocalArrays
    ) -> tuple[list[np.ndarray] | None, list[np.ndarray] | None, Opening]:
        """The arrays of this process, and the opening that states their types, or why it cannot take part.  Local."""
        call, specified = self._call, self._specified
        try:
            arrays, outs = self._checked(local, out)
            found = arrays or outs
            if found is None:
                return arrays, outs, self._opening_of(specified.types)
            types, is_list = specified.types, isinstance(local if arrays else out, list | tuple)
            if types is None or types.several != is_list:
                types = ArrayTypes(is_list, tuple([array.dtype for array in found]))
            return arrays, outs, self._opening_of(types)
        except SpmdError as error:
            if call.comm.size == 1:
                raise
            return None, None, call.refusal(call.blame(error))

    def _checked(self, local: LocalArrays, out: LocalArrays) -> tuple[list[np.ndarray] | None, list[np.ndarray] | None]:
        """The arrays of this process.  Local.  Raises an error for the others to learn of, whatever went wrong."""
        specified = self._specified
        dtypes, arrays, outs = None if specified.types is None else specified.types.dtypes, None, None
        try:
            if self._source_shape is not None:
                arrays = source_arrays(local, specified.source, self._source_shape, dtypes)
            if self._target_shape is not None and out is not None:
                outs = output_arrays(out, local, specified.target, self._target_shape, dtypes, arrays is not None)
        except Exception as error:
            kind = type(error) if isinstance(error, SpmdError) else SpmdError
            text = str(error) if isinstance(error, SpmdError) else f"{type(error).__name__}: {error}"
            raise kind(f"{self._op}: {text}") from None
        return arrays, outs

    def _opening_of(self, types: ArrayTypes | None) -> Opening:
        found = self._openings.get(types)
        if found is None:
            facts = Facts(None, None) if types is None else types.facts()
            found = self._openings[types] = self._call.opening(facts)
            if types is not None and len(types.dtypes) == 1 and self._source_shape is not None:
                own = Facts(self._source_shape, types.dtypes[0])
                found.inline_stop = HEADER_BYTES + own.nbytes if own.fits_inline else 0
        return found

    def _bound_plan(self, types: ArrayTypes) -> BoundPlan:
        """The plan with its exchanges ready on these processes.

        Collective where it is not kept: so what is kept depends on nothing that differs between the processes.
        """
        call = self._call
        if types not in self._plans:
            plan = self._specified.plan_for(types.dtypes, call.comm)
            self._plans[types] = plan, (plan, chosen_path())
        plan, key = self._plans[types]
        kept = self._kept
        bound = kept.find(key)
        if bound is not None:
            return bound
        error = None
        try:
            check_plan_steps(plan.run_steps, plan.source, plan.target, self._joint_grid.rank, plan.moves)
        except SpmdError as found_wrong:
            error = call.blame(found_wrong)
        self._same_steps.agree(self._joint_grid, (0,), plan.signature, error)  # two versions might plan differently
        bound = BoundPlan(plan, self._joint_grid, call.comm, call)
        kept.add(key, bound)
        return bound

    @cached_property
    def _kept(self) -> KeptPlans:
        kept: KeptPlans = self._joint_grid.kept.setdefault(("bound plans", self._call.comm.processes), KeptPlans())
        return kept

    # -- runs by compiled code -----------------------------------------------------------------------------------------

    def _learn(
        self,
        types: ArrayTypes,
        opening: Opening,
        headers: bytes,
        local: LocalArrays,
        out: LocalArrays,
        results: Sequence[np.ndarray] | None,
        name: str | None,
    ) -> None:
        """Prepare a compiled run for arrays like these, which Python has moved.  Local."""
        _, key = self._plans[types]
        if not self._kept.is_pinned(key):
            if self._kept.stays_with_python(key):
                self._known.add(out is None)
            return
        result = None if results is None else results[0]
        ran = self._ran(opening, headers, local, result if out is None else out)
        if ran is None or self._call.comm.process.gate.thread_name():
            return
        self._known.add(out is None)
        if ran.work is None or not QuickCall.is_possible(self._call):
            return
        if self._quick is None:
            self._name, gate = name, self._call.comm.process.gate
            self._quick = QuickCall("run_plan", gate, self._call, partial(self._by_python, types, name), self.finish)
        self._quick.add(ran.work, opening, headers, ran.x, result, self._joint_grid.allocate if out is None else None)

    def _by_python(
        self, types: ArrayTypes, name: str | None, local: LocalArrays, out: LocalArrays = None
    ) -> LocalResult:
        """A run of the plan, as `run_slowly`."""
        return run_slowly(replace(self._plans[types][0], name=name), local, self._grid, out)

    def _ran(self, opening: Opening, headers: bytes, x: Any, out: Any) -> Ran | None:
        """A run with these arrays, for compiled code; None where they are of no common kind.  Local."""
        types = opening.agreed.get(headers)
        x, out = None if self._source_shape is None else x, None if self._target_shape is None else out
        if types is None or not (_is_plain(x) and _is_plain(out)):
            return None
        key = self._plans[types][1]
        bound = self._kept.find(key) if self._kept.is_pinned(key) else None
        return Ran(opening, headers, x, None if bound is None else bound.loop_work(x, out))

    def last_run(self, x: Any, out: np.ndarray) -> Ran | None:
        """The last run by Python, of such arrays, in the form that compiled loops need.  Local."""
        _, _, opening = self._check_arrays(x, out)
        ran = self._ran(opening, next(iter(opening.agreed), b""), x, out)  # all that have run a plan have its types
        return None if ran is None or ran.work is None else ran

    def finish(self, types: ArrayTypes, x: np.ndarray | None, out: np.ndarray | None, frames: Frames) -> LocalResult:
        """The part of a run after its meeting.  Collective."""
        given = None if self._source_shape is None or x is None else [x]
        outs = None if self._target_shape is None or out is None else [out]
        results = self._bound_plan(types).run(given, outs, frames)
        return None if results is None else results[0]


def _is_plain(array: Any) -> bool:
    """Whether compiled code can take an array, or None."""
    return array is None or (type(array) is np.ndarray and array.flags.carray)
