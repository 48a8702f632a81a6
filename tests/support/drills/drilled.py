"""The operations that are drilled: all of them, each in a form in which one rank can do it wrongly.

An operation is prepared once, by all ranks alike; then it runs with a `Way`, that of the culprit differing from the
others'.  The same code runs on simulated ranks and in MPI's processes.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import spmd_grid as sg

SHAPE = (4, 6)


@dataclass(frozen=True)
class Way:
    """A way to call the operation: the array, the argument (the other one?), the order of axes."""

    shape: tuple[int, int] = SHAPE
    dtype: str = "f8"
    other: bool = False
    axes: tuple[int, int] = (0, 1)

    def x(self, grid):
        return np.full(self.shape, grid.rank + 1, self.dtype)


# What the culprit does otherwise.
DIFFERENCES = {
    "another shape": {"shape": (5, 6)},
    "another extent": {"shape": (4, 7)},
    "another dtype": {"dtype": "f4"},
    "another argument": {"other": True},
    "another order of axes": {"axes": (1, 0)},
}
ENDS = ("raises", "exits", "skips", "is killed", "sleeps")


@dataclass(frozen=True)
class Drilled:
    """``run(grid, prepared, way)`` after ``prepared = prepare(grid)``; it is warmed up unless ``is_first_use``."""

    run: Callable[[Any, Any, Way], Any]
    prepare: Callable[[Any], Any] = lambda grid: None
    is_first_use: bool = False
    words: str | None = None  # what reports call it; None: its name


def culprit(grid) -> int:
    return grid.size - 1


def coords(shape, rank):
    return [int(c) for c in np.unravel_index(rank, shape)]


def in_order(way, place):
    """The coordinates of a device in the order of the axes asked for."""
    return [place[axis] for axis in way.axes]


def root(grid, way):
    return in_order(way, coords(grid.shape, culprit(grid) if way.other else 0))


def shardings(grid, way=Way()):
    source = sg.Sharding(grid, [list(way.axes)])
    return source, sg.Sharding(grid, [[], [0]] if not way.other else [[], [1]])


def exchanges(grid):
    sharding = sg.Sharding(grid, [[0], [1]], halo_sizes=[1, 1, 1, 1])
    shape = tuple(2 * extent for extent in grid.shape)
    return sg.HaloExchange(grid, sharding, shape, "f8", periodic=True, name="u")


def update(grid, halo, way):
    extra = np.subtract(way.shape, SHAPE)
    u = np.full((4 + extra[0], 4 + extra[1]), grid.rank, way.dtype)
    halo.update(u, *[u] * way.other)
    return u


def reshard_locally(grid, way, run):
    extent = 4 * grid.size
    source, target = shardings(grid, way)
    local = np.full((4 + way.shape[0] - SHAPE[0], 3 + way.shape[1] - SHAPE[1]), grid.rank, way.dtype)
    return run(local, source, target, (extent, 3))


def run_plan(grid, way):
    def run(local, source, target, shape):
        return sg.run_plan(sg.plan_reshard(source, target, shape, way.dtype), local, grid)

    return reshard_locally(grid, way, run)


def send_from_culprit(grid, prepared, way):
    """The culprit sends."""
    if grid.rank == culprit(grid):
        place = 0 if not way.other else culprit(grid)
        sg.send(way.x(grid), grid, way.axes, in_order(way, coords(grid.shape, place)))
    elif grid.rank == 0:
        return sg.recv(grid, (0, 1), coords(grid.shape, culprit(grid)))


def receive_at_culprit(grid, prepared, way):
    """The culprit receives."""
    if grid.rank == 0:
        sg.send(Way().x(grid), grid, (0, 1), coords(grid.shape, culprit(grid)))
    elif grid.rank == culprit(grid):
        place = 0 if not way.other else culprit(grid)
        return sg.recv(grid, way.axes, in_order(way, coords(grid.shape, place)))


def use_new_group(grid, prepared, way):
    """The ranks the other way round: nobody has met in this order yet."""
    order = range(grid.size)[:: 1 if way.other else -1]
    backwards = sg.init_grid(grid.shape, ranks=order)
    return sg.all_reduce(way.x(grid), backwards, way.axes, "sum")


def reduction(way):
    return "max" if way.other else "sum"


def reduction_plans(grid):
    return [sg.all_reduce.plan(grid, SHAPE, "f8", (0, 1), kind) for kind in ("sum", "max")]


def one_axis(way):
    return 0 if way.other else 1


OPERATIONS = {
    "all_gather": Drilled(lambda g, _, w: sg.all_gather(w.x(g), g, w.axes, one_axis(w))),
    "all_slice": Drilled(lambda g, _, w: sg.all_slice(w.x(g), g, w.axes, one_axis(w))),
    "all_to_all": Drilled(lambda g, _, w: sg.all_to_all(w.x(g), g, w.axes, 1 - one_axis(w), one_axis(w))),
    "broadcast": Drilled(lambda g, _, w: sg.broadcast(w.x(g), g, w.axes, root(g, w))),
    "gather": Drilled(lambda g, _, w: sg.gather(w.x(g), g, w.axes, 1, root(g, w))),
    "scatter": Drilled(lambda g, _, w: sg.scatter(w.x(g), g, w.axes, 1, root(g, w))),
    "all_reduce": Drilled(lambda g, _, w: sg.all_reduce(w.x(g), g, w.axes, reduction(w))),
    "reduce": Drilled(lambda g, _, w: sg.reduce(w.x(g), g, w.axes, reduction(w), root(g, Way()))),
    "reduce_scatter": Drilled(lambda g, _, w: sg.reduce_scatter(w.x(g), g, w.axes, reduction(w), 1)),
    "shift": Drilled(lambda g, _, w: sg.shift(w.x(g), g, w.axes, 0, -1 if w.other else 1, rotate=True)),
    "send": Drilled(send_from_culprit, words="recv"),
    "recv": Drilled(receive_at_culprit),
    "update_halo": Drilled(
        lambda g, _, w: sg.update_halo(w.x(g), g, [[a] for a in w.axes], [1, 1 - w.other] * 2, periodic=True)
    ),
    "HaloExchange.update": Drilled(update, exchanges, words="HaloExchange"),
    "reshard": Drilled(
        lambda g, _, w: reshard_locally(g, w, lambda x, s, t, shape: sg.reshard(x, s, t, g, shape)),
    ),
    "run_plan": Drilled(lambda g, _, w: run_plan(g, w)),
    "all_reduce.start": Drilled(
        lambda g, _, w: sg.all_reduce.start(w.x(g), g, w.axes, reduction(w)).wait(), words="all_reduce"
    ),
    "all_reduce.plan.run": Drilled(lambda g, plans, w: plans[w.other].run(w.x(g)), reduction_plans, words="all_reduce"),
    "first use of a group": Drilled(use_new_group, is_first_use=True, words="all_reduce"),
}


def grid_shape(n):
    return (2, 2) if n == 4 else (n, 1)


def is_recoverable(operation, fault):
    """Whether all ranks go on after this difference, on n x 1 ranks."""
    return not (fault == "another argument" and operation in ("send", "recv", "first use of a group"))


def way_of(grid, fault):
    return replace(Way(), **DIFFERENCES[fault]) if grid.rank == culprit(grid) else Way()


def meet(grid):
    return sg.all_reduce(1, grid, (0, 1), "sum")


def differ(grid, operation, fault):
    """The outcome of a difference on this rank: the result or the error; and whether the program can go on."""
    drilled = OPERATIONS[operation]
    prepared = drilled.prepare(grid)
    if not drilled.is_first_use:
        drilled.run(grid, prepared, Way())
    meet(grid)
    began = time.perf_counter()
    try:
        outcome = "result", drilled.run(grid, prepared, way_of(grid, fault))
    except sg.SpmdError as error:
        outcome = type(error).__name__, str(error)
    seconds = time.perf_counter() - began
    assert meet(grid) == grid.size
    return *outcome, seconds


def end(grid, operation, fault, note_time, nap=30.0):
    """The culprit ends, or does something else, where the others go on to the operation."""
    drilled = OPERATIONS[operation]
    prepared = drilled.prepare(grid)
    if not drilled.is_first_use:
        drilled.run(grid, prepared, Way())
    meet(grid)
    if grid.rank == culprit(grid):
        time.sleep(0.02)  # the others wait by now
        note_time()
        if fault == "raises":
            raise ValueError("on purpose")
        if fault == "exits":
            sys.exit(3)
        if fault == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "skips":
            return None
        for _ in range(int(nap / 0.02)):  # in pieces: simulated ranks can be stopped between them
            time.sleep(0.02)
    return drilled.run(grid, prepared, Way())
