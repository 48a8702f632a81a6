"""Moves that run together: small all_reduces as one, and exchanges of several arrays of one layout as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from math import prod
from typing import Any

import numpy as np

from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.program.partition.bound_moves import BoundMove, where_of
from spmd_grid.program.partition.steps import Move, Step
from spmd_grid.reshard.plan import plan_reshard
from spmd_grid.reshard.planner.steps import ALL_REDUCE

__all__ = ["bind_joint", "in_company"]


def in_company(steps: Sequence[Step]) -> list[list[Move]]:
    """The moves that stand side by side and run together, group by group."""
    runs = groupby(steps, lambda step: step.together if isinstance(step, Move) else 0)
    found = [[each for each in run if isinstance(each, Move)] for number, run in runs if number]
    return [each for each in found if len(each) > 1]


def bind_joint(moves: Sequence[Move], grid: ProcessGrid) -> BoundMove:
    """Moves that run together on the processes of ``grid``: ``run(*arrays)`` gives a list.  Collective."""
    first, name = moves[0], " and ".join(dict.fromkeys(where_of(each.operation) for each in moves))
    shapes = [each.source.layout.local_shape(grid.own_coords) for each in moves]
    (*others, last) = first.plan.steps
    if not others and last.kind == ALL_REDUCE:
        return _joint_all_reduce(first, shapes, grid, last.grid_axes, name)
    arguments = first.source.sharding, first.target.sharding, first.source.shape
    plan = plan_reshard(*arguments, [each.source.dtype for each in moves], name=name)

    def exchange(*arrays: Any) -> Any:
        return plan.run([np.asarray(x).reshape(shape) for x, shape in zip(arrays, shapes)], grid)

    return BoundMove(exchange, False)


def _joint_all_reduce(
    move: Move, shapes: Sequence[tuple[int, ...]], grid: ProcessGrid, axes: tuple[int, ...], name: str
) -> BoundMove:
    ends = np.cumsum([prod(shape) for shape in shapes]).tolist()
    kind, dtype = move.source.sharding.partial_kind, move.source.dtype
    plan = all_reduce.plan(grid, (ends[-1],), dtype, axes, kind, name=name)
    cells = [slice(start, end) for start, end in zip([0, *ends], ends)]
    run: Callable[..., Any] = plan.run

    def reduce(*arrays: Any) -> Any:
        found = run(np.concatenate([np.ravel(x) for x in arrays]))
        return [found[cut].reshape(shape) for cut, shape in zip(cells, shapes)]

    return BoundMove(reduce, False, plan, axes)
