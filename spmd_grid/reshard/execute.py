"""Reshardings as operations: agreed upon, bound once, then run again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spmd_grid.errors import DTypeError, GridError, OutputError, ShapeError, ShardingError, SpmdError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.paths import chosen_path
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.kernels import address_of
from spmd_grid.ops.calls.arguments import as_array, check_output, gate_of, hashable
from spmd_grid.ops.calls.collective import CollectiveCall, Opening, Operation, keep_call
from spmd_grid.ops.calls.compare import AgreePlan
from spmd_grid.reshard.executor.bound_plan import BoundPlan
from spmd_grid.reshard.executor.members import coords_of
from spmd_grid.reshard.plan import Plan, check_options, digest_of, plan_reshard
from spmd_grid.reshard.planner.cost import LinkModel
from spmd_grid.reshard.verify import check_plan_steps
from spmd_grid.transport.communicator import Communicator

__all__ = ["reshard", "reshard_local", "run_plan"]

# Bound plans of one group of processes are kept as long as their buffers are no larger than this, together.
_MOST_KEPT_BYTES = 1 << 30
_MOST_KEPT = 64


@dataclass(frozen=True)
class _Wish:
    """A resharding as all processes state it alike, before all of them know the dtype."""

    source: Sharding
    target: Sharding
    global_shape: tuple[int, ...]
    strategy: str
    memory_limit: int | None
    links: LinkModel | None

    @property
    def recipe(self) -> str:
        """A line that is equal for equal wishes, and for no others."""
        limit = "" if self.memory_limit is None else f", at most {self.memory_limit} bytes"
        shown = f"{self.source} -> {self.target}, global shape {self.global_shape}, {self.strategy}{limit}"
        return f"{shown} #{digest_of(self)}"

    def plan(self, dtypes: Sequence[np.dtype], comm: Communicator) -> Plan:
        links = self.links
        if links is None and all(comm.process.arena.base_of(process) is not None for process in comm.processes):
            links = LinkModel(node_size=max(comm.processes) + 1)  # all of them see each other's memory, and know it
        arguments = self.source, self.target, self.global_shape, list(dtypes), self.strategy
        return plan_reshard(*arguments, memory_limit=self.memory_limit, links=links)


class _Arrays(NamedTuple):
    """What a process brings: whether a list, and the dtypes."""

    several: bool
    dtypes: tuple[np.dtype, ...]

    @classmethod
    def of(cls, given, dtypes: Sequence[np.dtype]) -> _Arrays:
        return cls(isinstance(given, list | tuple), tuple(dtypes))

    @classmethod
    def of_facts(cls, facts: Facts) -> _Arrays:
        several, *tokens = facts.out_shape
        return cls(several, tuple(map(np.dtype, tokens)))

    def facts(self) -> Facts:
        """In as few bytes as can be, to fit into a header."""
        plain = [each.metadata is None and np.dtype(each.str) == each for each in self.dtypes]
        tokens = [each.str if is_plain else each for each, is_plain in zip(self.dtypes, plain)]
        return Facts(None, None, (self.several, *tokens))

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.dtypes))
        return f"a list of {shown}" if self.several else shown


class _Reshard(Operation):
    """All processes run the same plan on arrays of the same dtypes."""

    name = "reshard"

    def prepare(self, grid, axes, wish) -> dict:
        return {"plan": wish.recipe}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> _Arrays:
        """The arrays that all bring, of which some may learn here."""
        known = [(place, _Arrays.of_facts(fact)) for place, fact in enumerate(facts) if fact.out_shape is not None]
        if not known:
            raise DTypeError("reshard: no process has an array that tells its dtype")
        first, arrays = known[0]
        for place, other in known:
            if other != arrays:
                raise DTypeError(
                    f"reshard: dtypes differ: {call.label(first)} has {arrays}, {call.label(place)} has {other}; they"
                    " must be equal"
                )
        return arrays


_reshard, _same_steps = _Reshard(), AgreePlan("reshard")


def run_plan(plan: Plan, local, grid: ProcessGrid, out=None):
    """Runs a plan: this process's local array in the source's layout in, that in the target's layout out.

    Collective over the processes of both layouts' grids; others may call it, and get None.  ``local``: shape of the
    source's local array, halos included, of the plan's dtype; None on a process outside the source's grid.  ``grid``:
    bound to the grid of either layout.  Result: a new array of the shape of the target's local array, or ``out``,
    which may be ``local`` itself where the shapes are equal; cells outside the domain are 0.  None on a process
    outside the target's grid.  Where the plan is for a list of dtypes, ``local``, ``out`` and the result are lists.

    The first run checks the plan, compares it between the processes, and makes it ready; later ones find it.

    Raises `ShapeError`, `DTypeError`, `OutputError`, `MismatchError` and `GridError`, the same on every process.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2,))
    ...     rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
    ...     plan = sg.plan_reshard(rows, columns, (4, 3), "int64")
    ...     local = np.arange(12).reshape(4, 3)[rows.shard_slices((4, 3), grid.coords)]
    ...     return sg.run_plan(plan, local, grid).tolist()
    >>> sg.run_spmd(body, ranks=2)[1]
    [[2], [5], [8], [11]]
    """
    if not isinstance(plan, Plan):
        raise ShardingError(f"run_plan: plan is {plan!r}; it must be a Plan, as plan_reshard makes them")
    return gate_of("run_plan", grid).run("run_plan", _run_plan, plan, local, grid, out)


def _run_plan(plan: Plan, local, grid: ProcessGrid, out):
    key = "run_plan", plan, chosen_path(), grid.process.gate.thread_name()
    return _run(_prepare("run_plan", key, grid, lambda: (plan, plan.source, plan.target)), local, out, plan.name)


def reshard(
    local,
    source: Sharding,
    target: Sharding,
    grid: ProcessGrid,
    global_shape: Sequence[int],
    out=None,
    *,
    strategy: str = "auto",
    memory_limit: int | None = None,
    links: LinkModel | None = None,
):
    """Brings this process's local array from one sharding of a global array to another.

    Collective over the processes of both shardings' grids.  As `plan_reshard` and `run_plan`; the plan is kept, and
    found again by these arguments.  Several arrays, of any dtypes, share one exchange where ``local`` is a list; then
    ``out`` and the result are lists.  Without ``links``, processes of one node count as such.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2,))
    ...     split = sg.Sharding(grid, [[0]])
    ...     return sg.reshard(np.full(1, grid.rank), split, sg.Sharding(grid, [[]]), grid, (2,)).tolist()
    >>> sg.run_spmd(body, ranks=2)
    [[0, 1], [0, 1]]
    """
    arguments = local, source, target, grid, global_shape, out, strategy, memory_limit, links
    return gate_of("reshard", grid).run("reshard", reshard_local, *arguments)


def reshard_local(
    local,
    source: Sharding,
    target: Sharding,
    grid: ProcessGrid,
    global_shape: Sequence[int],
    out=None,
    strategy: str = "auto",
    memory_limit: int | None = None,
    links: LinkModel | None = None,
):
    """As `reshard`, as a part of an operation that has gone through the gate."""

    def make():
        for name, sharding in (("source", source), ("target", target)):
            if not isinstance(sharding, Sharding):
                raise ShardingError(f"reshard: {name} is {sharding!r}; it must be a Sharding")
        before, after = Layout(source, hashable(global_shape)), Layout(target, hashable(global_shape))
        check_options("reshard", strategy, memory_limit, links)
        return _Wish(source, target, before.global_shape, strategy, memory_limit, links), before, after

    options = hashable(global_shape), strategy, memory_limit, links
    key = "reshard", source, target, *options, chosen_path(), grid.process.gate.thread_name()
    return _run(_prepare("reshard", key, grid, make), local, out)


class _KeptPlans(OrderedDict):
    """Bound plans by what they are for, those used last at the end, as many as fit.  Local."""

    n_bytes = 0

    def add(self, key, bound: BoundPlan) -> None:
        """Keeps ``bound``, and gives up others that no longer fit."""
        self[key] = bound
        self.n_bytes += bound.plan.kept_bytes
        while len(self) > 1 and (self.n_bytes > _MOST_KEPT_BYTES or len(self) > _MOST_KEPT):
            _, oldest = self.popitem(last=False)
            self.n_bytes -= oldest.plan.kept_bytes
            oldest.retire()


class _Prepared:
    """What one process has to know of a resharding before it can start: found by its arguments, a look-up per call."""

    def __init__(self, op: str, wish: Plan | _Wish, before: Layout, after: Layout, grid: ProcessGrid):
        self.wish, self.before, self.after = wish, before, after
        self.dtypes = wish.dtypes if isinstance(wish, Plan) else None
        self.brings = _Arrays(wish.several, wish.dtypes) if isinstance(wish, Plan) else None
        processes = {process for each in (before.grid, after.grid) for process in each.ranks or range(each.size)}
        self.everybody = grid.like(Grid((len(processes),), ranks=tuple(sorted(processes))), op)
        self.takes_part = self.everybody.coords is not None
        if self.takes_part:
            self.call = _reshard.find_call(self.everybody, [0], (wish,), thread_name=grid.process.gate.thread_name())
            source, target = (coords_of(layout, self.call.comm) for layout in (before, after))
            self.given_shape = None if source is None else before.local_shape(source)
            self.result_shape = None if target is None else after.local_shape(target)
        self._keys: dict = {}
        self._openings: dict = {}

    def bring(self, local, out) -> tuple[list[np.ndarray] | None, list[np.ndarray] | None, Opening]:
        """The arrays of this process, and the opening that states their dtypes, or why it cannot take part.  Local."""
        call = self.call
        try:
            arrays, outs = self._given(local), self._taking(out, local)
            found = arrays or outs
            if found is not None:
                brought = _Arrays.of(local if arrays else out, [array.dtype for array in found])
            else:
                brought = self.brings
            return arrays, outs, self._opening_of(brought)
        except Exception as error:  # whatever went wrong here, the others wait to be told
            kind = type(error) if isinstance(error, SpmdError) else SpmdError
            text = str(error) if isinstance(error, SpmdError) else f"{type(error).__name__}: {error}"
            told = kind(f"reshard: {text}")
            if call.comm.size == 1:
                raise told from None
            return None, None, call.refusal(call.blame(told))

    def _opening_of(self, brought: _Arrays | None) -> Opening:
        found = self._openings.get(brought)
        if found is None:
            facts = Facts(None, None) if brought is None else brought.facts()
            found = self._openings[brought] = self.call.opening(facts)
        return found

    def _given(self, local) -> list[np.ndarray] | None:
        """This process's arrays in the source's layout; None where it has no part there."""
        shape = self.given_shape
        if shape is None:
            return None
        arrays = [as_array("local", _local_of("local", each, self.before)) for each in _several(local)]
        if not arrays:
            raise ShapeError("local is an empty list; it must have at least one array")
        for array in arrays:
            if array.shape != shape:
                raise ShapeError(f"local has shape {array.shape}; {self.before} makes it {shape}, halos included")
        _check_dtypes("local", arrays, self.dtypes)
        return arrays

    def _taking(self, out, local) -> list[np.ndarray] | None:
        """The arrays that the results go to, if they are given."""
        shape = self.result_shape
        if shape is None or out is None:
            return None
        outs = [_local_of("out", each, self.after) for each in _several(out)]
        given = [getattr(each, "local", each) for each in _several(local)]
        for i, each in enumerate(outs):
            check_output("out", each, None)
            if each.shape != shape:
                raise ShapeError(f"out has shape {each.shape}; {self.after} makes it {shape}, halos included")
            if 0 in each.strides and each.nbytes and any(s == 0 and n > 1 for s, n in zip(each.strides, each.shape)):
                raise OutputError("out has a stride of 0; each of its cells must have memory of its own")
            for j, array in enumerate(given):
                if isinstance(array, np.ndarray) and not (i == j and _same_memory(array, each)):
                    check_output("out", each, array)
            for other in outs[:i]:
                check_output("out", each, other)
        if self.given_shape is not None and isinstance(out, list | tuple) != isinstance(local, list | tuple):
            raise ShapeError(
                f"out is {type(out).__name__}, local {type(local).__name__}; both must be lists, or neither"
            )
        wanted = None if self.given_shape is None else tuple([np.asarray(array).dtype for array in given])
        _check_dtypes("out", outs, self.dtypes or wanted)
        return outs

    def bound(self, brought: _Arrays) -> BoundPlan:
        """The plan made ready on these processes; of those used last, as many as fit are kept.

        Collective where it is not: so what is kept depends on nothing that differs between the processes.
        """
        call = self.call
        if brought not in self._keys:
            plan = self.wish if isinstance(self.wish, Plan) else self.wish.plan(brought.dtypes, call.comm)
            self._keys[brought] = plan, (plan, chosen_path())
        plan, key = self._keys[brought]
        kept = self.everybody.kept.setdefault(("bound plans", call.comm.processes), _KeptPlans())
        bound = kept.get(key)
        if bound is not None:
            kept.move_to_end(key)
            return bound
        error = None
        try:
            check_plan_steps(plan.parts, plan.source, plan.target, self.everybody.rank, plan.moves)
        except SpmdError as found_wrong:
            error = call.blame(found_wrong)
        _same_steps.agree(self.everybody, [0], plan.recipe, error)  # two versions might plan differently
        bound = BoundPlan(plan, self.everybody, call.comm, call)
        kept.add(key, bound)
        return bound


class _Named(NamedTuple):
    """A resharding with the name of its plan, in words."""

    call: CollectiveCall
    name: str

    def describe(self) -> str:
        return f"run_plan {self.name!r}, {self.call.describe()}"


def _run(prepared: _Prepared, local, out, name: str | None = None):
    """Runs a resharding.  Collective over the processes of both layouts' grids."""
    if not prepared.takes_part:
        return None
    recorder = prepared.everybody.process.recorder
    if recorder is not None and recorder.is_idle:
        activity = prepared.call if name is None else _Named(prepared.call, name)
        return recorder.run(activity, local, _run, prepared, local, out)
    arrays, outs, opening = prepared.bring(local, out)
    brought, _ = prepared.call.agree(opening, None)
    bound = prepared.bound(brought)
    if recorder is not None:
        recorder.moved(bound)
    results = bound.run(arrays, outs)
    return results if results is None or brought.several else results[0]


def _prepare(op: str, key, grid: ProcessGrid, make) -> _Prepared:
    """What is kept on ``grid`` under ``key``; ``make`` gives the wish and both layouts of a new one.  Local."""
    try:
        return grid.calls[key]
    except (KeyError, TypeError):
        pass
    wish, before, after = make()
    if not any(grid.grid.is_like(each.grid) for each in (before, after)):
        raise GridError(f"{op}: grid is {grid.grid!r}; the layouts are on {before.grid!r} and {after.grid!r}")
    prepared = _Prepared(op, wish, before, after, grid)
    keep_call(grid, key, prepared)
    return prepared


def _same_memory(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are the same cells in the same order.  Local."""
    return address_of(a) == address_of(b) and a.shape == b.shape and a.strides == b.strides


def _several(arrays) -> Sequence:
    return arrays if isinstance(arrays, list | tuple) else [arrays]


def _local_of(what: str, array, layout: Layout):
    """The local array of a `ShardedArray`, which must have ``layout``; anything else as it is."""
    found = getattr(array, "layout", None)
    if not isinstance(found, Layout):
        return array
    if found != layout:
        raise ShapeError(f"{what} has layout {found}; it must be {layout}")
    return array.local


def _check_dtypes(what: str, arrays: Sequence[np.ndarray], dtypes) -> None:
    if dtypes is None:
        return
    if len(arrays) != len(dtypes):
        raise ShapeError(f"{len(arrays)} arrays as {what}; the plan is for {len(dtypes)}")
    for array, dtype in zip(arrays, dtypes, strict=True):
        if array.dtype != dtype:
            raise DTypeError(f"{what} has dtype {array.dtype}; it must be {dtype}")
