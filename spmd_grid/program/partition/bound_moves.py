"""Moves bound to processes: prepared collectives, called with the line of the user's function that asks for them.

A step of a plan that is one of the engine's collectives runs as that collective's own plan, which is faster than an
exchange of boxes; the other steps run by the resharding plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.ops.all_to_all import all_to_all
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.reduce_scatter import reduce_scatter
from spmd_grid.program.ir import CallSite, Operation
from spmd_grid.program.partition.steps import Move
from spmd_grid.reshard.planner.steps import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER, SLICE, Step

__all__ = ["BoundMove", "bind_move", "is_collective", "planned", "slicing", "where_of", "with_line"]

# From the local array of the source, and perhaps an array for the result, the local array of the target.
Run: TypeAlias = Callable[..., Any]
# Step kinds after which blocks are those of the ceil rule: the collectives cut by no other.
_CUTTING = REDUCE_SCATTER, ALL_TO_ALL


class BoundMove(NamedTuple):
    """``run(x, out=None)`` moves; ``first``: the collective that it begins with, where that has a plan of its own.

    ``takes_out``: whether it writes to ``out``; ``axes``: those over which ``first`` extends; ``is_local``: whether it
    sends nothing.  ``wait``: where ``run`` only starts it, what gives the local array of the target, and
    ``abandon`` what ends it after an error.
    """

    run: Run
    takes_out: bool
    first: OperationPlan | None = None
    axes: tuple[int, ...] = ()
    is_local: bool = False
    wait: Run | None = None
    abandon: Callable[[], None] | None = None


def bind_move(move: Move, grid: ProcessGrid) -> BoundMove:
    """The move on the processes of ``grid``.  Collective over the grid."""
    site = None if move.operation is None else move.operation.site
    steps = move.plan.steps
    if not steps or not all(is_collective(step) for step in steps):
        plan = move.plan
        shape = move.source.layout.local_shape(grid.own_coords)

        def by_plan(x: Any, out: np.ndarray | None = None) -> Any:
            return plan.run(np.asarray(x).reshape(shape), grid, out)

        return BoundMove(_at(site, by_plan), True)
    stages: list[Run] = []
    first: OperationPlan | None = None
    axes: tuple[int, ...] = ()
    for step in steps:
        if step.kind == SLICE:
            stages.append(slicing(step, grid))
            continue
        plan_of_step = planned(step, move.source.dtype, grid, move.name)
        if first is None:
            first, axes = plan_of_step, step.grid_axes
        stages.append(plan_of_step.run)
    if len(stages) == 1:
        return BoundMove(_at(site, stages[0]), steps[0].kind != SLICE, first, axes, first is None)
    *before, last = stages
    takes_out = steps[-1].kind != SLICE

    def chain(x: Any, out: np.ndarray | None = None) -> Any:
        for stage in before:
            x = stage(x)
        return last(x, out) if takes_out else last(x)

    return BoundMove(_at(site, chain), takes_out, first, axes, first is None)


def where_of(operation: Operation | None) -> str:
    """The operation and the line that it comes from: ``matmul at model.py:12``."""
    if operation is None:
        return "the results"
    site = operation.site
    return operation.name if site is None else f"{operation.name} at {site.file.rpartition('/')[2]}:{site.line}"


def is_collective(step: Step) -> bool:
    """Whether a collective of the engine does the step: alike on all processes."""
    source, target = step.source.sharding, step.target.sharding
    if source.halo_sizes or target.halo_sizes or not step.source.grid.is_like(step.target.grid):
        return False
    if step.kind in _CUTTING:
        return target.blocks == "ceil" and not target.sharded_dims_offsets
    return step.kind in (ALL_REDUCE, ALL_GATHER, SLICE)


def planned(step: Step, dtype: np.dtype, grid: ProcessGrid, name: str) -> OperationPlan:
    """The step as a plan of its collective.  Collective over its groups."""
    shape, axes = step.source.local_shape(grid.own_coords), step.grid_axes
    kind = step.source.sharding.partial_kind
    if step.kind == ALL_REDUCE:
        return all_reduce.plan(grid, shape, dtype, axes, kind, name=name)
    if step.kind == REDUCE_SCATTER:
        return reduce_scatter.plan(grid, shape, dtype, axes, kind, step.dims[0], name=name)
    if step.kind == ALL_GATHER:
        return all_gather.plan(grid, shape, dtype, axes, step.dims[0], name=name)
    return all_to_all.plan(grid, shape, dtype, axes, step.dims[0], step.dims[1], name=name)


def slicing(step: Step, grid: ProcessGrid) -> Run:
    """The own block of what this device holds."""
    held, wanted = (each.core_box(grid.own_coords) for each in (step.source, step.target))
    cells = wanted.relative_to(held.starts).slices()
    return lambda x: np.ascontiguousarray(x[cells])


def _at(site: CallSite | None, run: Run) -> Run:
    """``run``, called from the line of the user's function: traces, reports of hangs and tracebacks then name it."""
    if site is None:
        return run
    moved = lambda x, out=None: run(x, out) if out is not None else run(x)  # noqa: E731  # its code becomes the line's
    return with_line(site, moved)


def with_line(site: CallSite, function: Any) -> Run:
    """``function``, a new one, with the code's file and line set to those of the call."""
    function.__code__ = function.__code__.replace(
        co_filename=site.file, co_firstlineno=site.line, co_name=site.function, co_qualname=site.function
    )
    return function
