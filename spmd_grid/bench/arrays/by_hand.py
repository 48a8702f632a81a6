"""The expressions of the arrays benchmark as an expert writes them: numpy on this rank's blocks, and our operations.

Results go into arrays that are made beforehand; plans and exchanges are prepared.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.array import zeros
from spmd_grid.bench.arrays.cases import RANDOM, ArraysCase
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.exchange import HaloExchange
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.reshard.execute import run_plan
from spmd_grid.reshard.plan import plan_reshard

__all__ = ["ByHand", "by_hand"]

_AXES = (0,)
Call = Callable[[], Any]


class ByHand(NamedTuple):
    """A call that gives this rank's part of the result, and the cells of the global result that it holds."""

    call: Call
    cells: Any = ...


class _Trial(NamedTuple):
    """This rank's blocks ``x`` and ``y`` of both operands, and its rows of the first."""

    case: ArraysCase
    grid: ProcessGrid
    x: np.ndarray
    y: np.ndarray
    rows: slice
    stack: ExitStack


def by_hand(case: ArraysCase, grid: ProcessGrid, x: np.ndarray, y: np.ndarray, stack: ExitStack) -> ByHand:
    """The expression by hand.  Collective over ``grid``, a line of all ranks.  ``stack`` frees what was prepared."""
    rows = case.layouts(grid.grid)[0].core_box(grid.own_coords).slices()[0]
    return _WAYS[case.op](_Trial(case, grid, x, y, rows, stack))


def _add(trial: _Trial) -> ByHand:
    x, y, out = trial.x, trial.y, np.empty_like(trial.x)
    return ByHand(lambda: np.add(x, y, out=out), trial.rows)


def _add_to(trial: _Trial) -> ByHand:
    x, y = trial.x, trial.y
    return ByHand(lambda: np.add(x, y, out=x), trial.rows)


def _exp(trial: _Trial) -> ByHand:
    x, out = trial.x, np.empty_like(trial.x)
    return ByHand(lambda: np.exp(x, out=out), trial.rows)


def _stencil(trial: _Trial) -> ByHand:
    grid, (layout, _) = trial.grid, trial.case.layouts(trial.grid.grid)
    sharding, shape = Sharding(grid, [[0]], halo_sizes=[1, 1]), layout.global_shape
    first = trial.rows.start
    u = zeros(shape, sharding, grid)
    u.core[...] = trial.x
    halo = trial.stack.enter_context(HaloExchange(grid, sharding, shape, "float64"))
    # The rows of the result, in the local array and in the global result: the rim of the domain has none.
    start, stop = max(first, 1), min(trial.rows.stop, shape[0] - 1)
    local = u.local
    v, update = local[start - first : stop - first + 2], halo.update

    def call() -> np.ndarray:
        update(u)
        return 0.25 * (v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:])

    return ByHand(call, slice(start - 1, stop - 1))


def _sum(trial: _Trial) -> ByHand:
    x, grid = trial.x, trial.grid
    return ByHand(lambda: all_reduce(np.sum(x), grid, _AXES, "sum"))


def _sum_rows(trial: _Trial) -> ByHand:
    x, grid = trial.x, trial.grid
    return ByHand(lambda: all_reduce(np.sum(x, axis=0), grid, _AXES, "sum"))


def _matmul(trial: _Trial) -> ByHand:
    x, y, grid, out = trial.x, trial.y, trial.grid, np.empty((trial.x.shape[0], trial.case.side))
    whole = grid.allocate((trial.case.side, trial.case.side), np.float64)
    return ByHand(lambda: np.matmul(x, all_gather(y, grid, _AXES, 0, out=whole), out=out), trial.rows)


def _transpose(trial: _Trial) -> ByHand:
    x, out = trial.x.T, np.empty(trial.x.shape[::-1])

    def call() -> np.ndarray:
        np.copyto(out, x)
        return out

    return ByHand(call, (slice(None), trial.rows))


def _inner_rows(trial: _Trial) -> ByHand:
    grid, (layout, _) = trial.grid, trial.case.layouts(trial.grid.grid)
    n, first = layout.global_shape[0], trial.rows.start
    starts = [min(max(device * trial.case.side - 1, 0), n - 2) for device in range(grid.size)]
    shape = n - 2, *layout.global_shape[1:]
    target = Sharding(grid, [[0]])
    plan = plan_reshard(Sharding(grid, [[0]], sharded_dims_offsets=[*starts, n - 2]), target, shape, "float64")
    held = trial.x[max(1 - first, 0) : min(n - 1 - first, trial.case.side)]
    out = grid.allocate(target.shard_shape(shape, grid.own_coords), np.float64)
    return ByHand(lambda: run_plan(plan, held, grid, out), target.shard_slices(shape, grid.own_coords))


def _cumsum(trial: _Trial) -> ByHand:
    x, grid, out, rank = trial.x, trial.grid, np.empty_like(trial.x), trial.grid.rank

    def call() -> np.ndarray:
        np.cumsum(x, axis=0, out=out)
        totals = all_gather(out[-1:], grid, _AXES, 0)
        np.add(out, totals[:rank].sum(axis=0), out=out)
        return out

    return ByHand(call, trial.rows)


def _add_columns(trial: _Trial) -> ByHand:
    x, y, grid, (rows, columns) = trial.x, trial.y, trial.grid, trial.case.layouts(trial.grid.grid)
    plan = plan_reshard(columns.sharding, rows.sharding, rows.global_shape, "float64")
    moved, out = grid.allocate(x.shape, np.float64), np.empty_like(x)
    return ByHand(lambda: np.add(x, run_plan(plan, y, grid, moved), out=out), trial.rows)


def _sort(trial: _Trial) -> ByHand:
    """All blocks on every rank, sorted there: fewer lines than any sort that keeps them apart."""
    x, grid, rows = trial.x, trial.grid, trial.rows
    whole = grid.allocate((trial.case.side * grid.size,), np.float64)

    def call() -> np.ndarray:
        all_gather(x, grid, _AXES, 0, out=whole).sort()
        return whole[rows].copy()

    return ByHand(call, rows)


def _random(trial: _Trial) -> ByHand:
    generator, out = np.random.Generator(np.random.Philox(trial.grid.rank)), np.empty_like(trial.x)
    return ByHand(lambda: generator.standard_normal(out=out), trial.rows)


_WAYS: dict[str, Callable[[_Trial], ByHand]] = {
    "a + b": _add,
    "a += b": _add_to,
    "np.exp(a)": _exp,
    "5-point stencil in slices": _stencil,
    "a.sum()": _sum,
    "a.sum(axis=0)": _sum_rows,
    "a @ b": _matmul,
    "a.T": _transpose,
    "a[1:-1]": _inner_rows,
    "np.cumsum(a, axis=0)": _cumsum,
    "a + b, b cut by columns": _add_columns,
    "np.sort(a), 1-d": _sort,
    RANDOM: _random,
}
