"""The rows of the watch benchmark: small operations, in which the added time shows most."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from typing import NamedTuple

import numpy as np

from spmd_grid.array import zeros
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.exchange import HaloExchange
from spmd_grid.halo.update_halo import update_halo
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.ops.broadcast import broadcast
from spmd_grid.ops.send_recv import recv, send
from spmd_grid.ops.shift import shift
from spmd_grid.reshard.execute import run_plan
from spmd_grid.reshard.plan import plan_reshard

__all__ = ["Call", "WatchCase", "all_cases", "quick_cases"]

_AXES = (0,)
_SIDE = 64  # of two-dimensional arrays along the dimension that is not cut; of a halo's block along both dimensions

Call = Callable[[], object]


class WatchCase(NamedTuple):
    """One operation on a line of all ranks.

    ``make`` gives the function to time; it is collective and called in the mode that is timed.  The stack closes what
    it opens.
    """

    name: str
    make: Callable[[ProcessGrid, ExitStack], Call]


def all_cases() -> list[WatchCase]:
    return [
        WatchCase("all_reduce, 8 B", _all_reduce),
        WatchCase("broadcast, 8 B", _broadcast),
        WatchCase("shift, 8 B", _shift),
        WatchCase("send or recv, 8 B", _send_or_recv),
        WatchCase("all_reduce.plan, 8 B", _plan),
        WatchCase("plan.run of all_reduce, 8 B", _run),
        WatchCase("update_halo, 64^2 blocks", _update_halo),
        WatchCase("HaloExchange.update, 64^2 blocks", _halo_exchange),
        WatchCase("run_plan, 64^2 rows to columns", _run_plan),
        WatchCase("ShardedArray.reshard, 64^2 rows to columns", _reshard),
    ]


def quick_cases() -> list[WatchCase]:
    """An operation, a plan, and the halo exchange, whose calls only the checking mode compares."""
    return [case for case in all_cases() if case.make in (_all_reduce, _run, _halo_exchange)]


# -- the operations --------------------------------------------------------------------------------------------


def _all_reduce(grid: ProcessGrid, stack: ExitStack) -> Call:
    x, out = _double(grid)
    return lambda: all_reduce(x, grid, _AXES, "sum", out=out)


def _broadcast(grid: ProcessGrid, stack: ExitStack) -> Call:
    x, out = _double(grid)
    return lambda: broadcast(x, grid, _AXES, (0,), out=out)


def _shift(grid: ProcessGrid, stack: ExitStack) -> Call:
    x, out = _double(grid)
    return lambda: shift(x, grid, _AXES, 0, 1, rotate=True, out=out)


def _send_or_recv(grid: ProcessGrid, stack: ExitStack) -> Call:
    """Back and forth between pairs of ranks: calls alternate between send and recv."""
    x, out = _double(grid)
    partner = grid.rank ^ 1
    if partner >= grid.size:
        return lambda: None
    there: Call = partial(send, x, grid, _AXES, (partner,))
    back: Call = partial(recv, grid, _AXES, (partner,), out=out)
    turns = cycle([there, back] if grid.rank < partner else [back, there])
    return lambda: next(turns)()


def _plan(grid: ProcessGrid, stack: ExitStack) -> Call:
    return lambda: all_reduce.plan(grid, (1,), "float64", _AXES, "sum")


def _run(grid: ProcessGrid, stack: ExitStack) -> Call:
    plan = stack.enter_context(all_reduce.plan(grid, (1,), "float64", _AXES, "sum"))
    return partial(plan.run, *_double(grid))


def _update_halo(grid: ProcessGrid, stack: ExitStack) -> Call:
    x = np.ones((_SIDE + 2, _SIDE))
    return lambda: update_halo(x, grid, ((0,),), (1, 1), periodic=True)


def _halo_exchange(grid: ProcessGrid, stack: ExitStack) -> Call:
    sharding, shape = Sharding(grid, [[0]], halo_sizes=[1, 1]), (_SIDE * grid.size, _SIDE)
    # Every mode has its own exchange; the path is fixed, so that all take the same.
    halo = stack.enter_context(HaloExchange(grid, sharding, shape, "float64", periodic=True, path="read"))
    return partial(halo.update, zeros(shape, sharding, grid))


def _run_plan(grid: ProcessGrid, stack: ExitStack) -> Call:
    rows, columns = _rows_and_columns(grid)
    plan = plan_reshard(rows, columns, (_SIDE, _SIDE), "float64")
    x, out = (zeros((_SIDE, _SIDE), sharding, grid).local for sharding in (rows, columns))
    return lambda: run_plan(plan, x, grid, out)


def _reshard(grid: ProcessGrid, stack: ExitStack) -> Call:
    rows, columns = _rows_and_columns(grid)
    u, out = (zeros((_SIDE, _SIDE), sharding, grid) for sharding in (rows, columns))
    return lambda: u.reshard(columns, out=out)


def _rows_and_columns(grid: ProcessGrid) -> tuple[Sharding, Sharding]:
    return Sharding(grid, [[0], []]), Sharding(grid, [[], [0]])


def _double(grid: ProcessGrid) -> tuple[np.ndarray, np.ndarray]:
    """An array of one double, and one for the result."""
    return grid.allocate((1,), np.float64, zeroed=True), grid.allocate((1,), np.float64)
