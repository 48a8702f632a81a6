"""The rows of the watch benchmark: small operations, where the time that watching adds shows most."""

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
_SIDE = 64  # cells along each dimension: of the whole array in reshardings, of a rank's block in halo exchanges

Call = Callable[[], object]


class WatchCase(NamedTuple):
    """One operation on a line of all ranks.

    ``make(grid, stack)`` returns the function to time, and leaves what must be closed after it to ``stack``.  It is
    collective, and called in the mode that is timed.
    """

    name: str
    make: Callable[[ProcessGrid, ExitStack], Call]


def all_cases() -> list[WatchCase]:
    return [
        WatchCase("all_reduce, 8 B", _all_reduce),
        WatchCase("broadcast, 8 B", _broadcast),
        WatchCase("shift, 8 B", _shift),
        WatchCase("send or recv, 8 B", _send_or_recv),
        WatchCase("all_reduce.plan, 8 B", _make_plan),
        WatchCase("plan.run of all_reduce, 8 B", _run_operation_plan),
        WatchCase("update_halo, 64^2 blocks", _update_halo),
        WatchCase("HaloExchange.update, 64^2 blocks", _halo_exchange),
        WatchCase("run_plan, 64^2 rows to columns", _run_reshard_plan),
        WatchCase("ShardedArray.reshard, 64^2 rows to columns", _reshard),
    ]


def quick_cases() -> list[WatchCase]:
    """An operation, a plan, and the halo exchange, whose calls are compared in the checking mode only."""
    return [case for case in all_cases() if case.make in (_all_reduce, _run_operation_plan, _halo_exchange)]


# -- the operations --------------------------------------------------------------------------------------------


def _all_reduce(grid: ProcessGrid, stack: ExitStack) -> Call:
    x, out = _source_and_result(grid)
    return lambda: all_reduce(x, grid, _AXES, "sum", out=out)


def _broadcast(grid: ProcessGrid, stack: ExitStack) -> Call:
    x, out = _source_and_result(grid)
    return lambda: broadcast(x, grid, _AXES, (0,), out=out)


def _shift(grid: ProcessGrid, stack: ExitStack) -> Call:
    x, out = _source_and_result(grid)
    return lambda: shift(x, grid, _AXES, 0, 1, rotate=True, out=out)


def _send_or_recv(grid: ProcessGrid, stack: ExitStack) -> Call:
    """Send a double back and forth between the ranks of a pair: calls alternate between send and recv."""
    x, out = _source_and_result(grid)
    partner = grid.rank ^ 1
    if partner >= grid.size:
        return lambda: None
    send_call: Call = partial(send, x, grid, _AXES, (partner,))
    recv_call: Call = partial(recv, grid, _AXES, (partner,), out=out)
    turns = cycle([send_call, recv_call] if grid.rank < partner else [recv_call, send_call])
    return lambda: next(turns)()


def _make_plan(grid: ProcessGrid, stack: ExitStack) -> Call:
    return lambda: all_reduce.plan(grid, (1,), "float64", _AXES, "sum")


def _run_operation_plan(grid: ProcessGrid, stack: ExitStack) -> Call:
    plan = stack.enter_context(all_reduce.plan(grid, (1,), "float64", _AXES, "sum"))
    return partial(plan.run, *_source_and_result(grid))


def _update_halo(grid: ProcessGrid, stack: ExitStack) -> Call:
    x = np.ones((_SIDE + 2, _SIDE))
    return lambda: update_halo(x, grid, ((0,),), (1, 1), periodic=True)


def _halo_exchange(grid: ProcessGrid, stack: ExitStack) -> Call:
    sharding, shape = Sharding(grid, [[0]], halo_sizes=[1, 1]), (_SIDE * grid.size, _SIDE)
    # Each mode makes its own exchange, which would choose a path: the path is fixed, so that all take the same.
    halo = stack.enter_context(HaloExchange(grid, sharding, shape, "float64", periodic=True, path="read"))
    return partial(halo.update, zeros(shape, sharding, grid))


def _run_reshard_plan(grid: ProcessGrid, stack: ExitStack) -> Call:
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


def _source_and_result(grid: ProcessGrid) -> tuple[np.ndarray, np.ndarray]:
    """A source and a result array of one double each."""
    return grid.allocate((1,), np.float64, zeroed=True), grid.allocate((1,), np.float64)
