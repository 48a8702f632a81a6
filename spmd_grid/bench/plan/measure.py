"""The planning benchmark: the time in which one process plans, on grids of 8 to 1,048,576 devices.

Planning means that a process makes both layouts from new shardings, and lists what it sends and receives.  Kinds are
measured one after the other; the grids of a kind, and the devices on them, take turns.  The devices are a sample, of
which those with the most messages are timed.  No other process takes part.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from itertools import count, groupby
from time import perf_counter

import numpy as np

from spmd_grid.bench.common.machine import machine
from spmd_grid.bench.common.report import Outputs, one_process, say, write_files
from spmd_grid.bench.plan.cases import PlanCase
from spmd_grid.bench.plan.report import PlanRow, PlanTimes, rows_of, summary, table
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.geometry.messages import Piece, Redistribution
from spmd_grid.reshard.plan import plan_reshard
from spmd_grid.typing import MultiIndex

__all__ = ["Planner", "measure_kind", "run_bench"]

_SAMPLE = 64  # devices whose messages are counted
_TIMED = 8  # of those with the most messages
_TURN_SECONDS = 2e-3
_AUTO_TIMES = 5  # times that plan_reshard is timed
_numbers = count(1)  # plans are cached by their arguments, so each is made for a new dtype of 8 bytes


def run_bench(cases: Sequence[PlanCase], rounds: int, outputs: Outputs) -> None:
    """Measure and print the rows of ``cases``.  Local."""
    setting = machine()
    say(
        f"{one_process(setting)}; medians over {rounds} interleaved rounds, of the devices with the most messages",
        "plan: layouts, geometry, own receives and sends; auto, totals: plan_reshard and plan.totals()",
        "",
        table().head(),
    )
    rows: list[PlanRow] = []
    for _, alike in groupby(cases, key=lambda case: case.kind):
        rows += (found := rows_of(measure_kind(list(alike), rounds)))
        say(*map(table().line, found))
    say("", *summary(rows))
    caption = f"Planning by {one_process(setting)}; medians of `python -m spmd_grid bench plan`."
    write_files(outputs, setting | {"rounds": rounds}, caption, table(), rows, summary(rows))


class Planner:
    """A case that can be planned again and again, and the times of that in ``times``."""

    def __init__(self, case: PlanCase) -> None:
        self.case, self.grid = case, Grid(case.grid_shape)
        draw = np.random.default_rng(0)
        devices = draw.choice(case.devices, min(case.devices, _SAMPLE), replace=False)
        found: list[tuple[PlanTimes, MultiIndex]] = []
        for device in sorted(devices.tolist()):
            coords = self.grid.multi_index(device)
            receives, sends = self._plan(*case.shardings(self.grid), coords)
            partners = {piece.process for piece in (*receives, *sends)}
            found.append((PlanTimes(case, len(receives), len(sends), len(partners)), coords))
        most = max(times.receives + times.sends for times, _ in found)
        busiest = [each for each in found if each[0].receives + each[0].sends == most][:_TIMED]
        self._coords = [coords for _, coords in busiest]
        self.times = busiest[0][0]
        start = perf_counter()
        self.turn(3)
        self.n = max(1, round(3 * _TURN_SECONDS / (perf_counter() - start)))
        self.times.seconds.clear()
        self.times.shardings.clear()

    def _plan(self, source: Sharding, target: Sharding, coords: MultiIndex) -> tuple[Sequence[Piece], Sequence[Piece]]:
        shape = self.case.global_shape
        moves = Redistribution(Layout(source, shape), Layout(target, shape))
        return moves.receives(coords), moves.sends(coords)

    def turn(self, n: int) -> None:
        """Plan ``n`` times."""
        for i in range(n):
            coords = self._coords[i % len(self._coords)]
            begin = perf_counter()
            source, target = self.case.shardings(self.grid)
            start = perf_counter()
            self._plan(source, target, coords)
            self.times.seconds.append(perf_counter() - start)
            self.times.shardings.append(start - begin)

    def plan_auto(self) -> None:
        """Time plan_reshard, which chooses among all strategies, and the totals of its plan."""
        for _ in range(_AUTO_TIMES):
            dtype = np.dtype(f"datetime64[{next(_numbers)}s]")
            source, target = self.case.shardings(self.grid)
            start = perf_counter()
            plan = plan_reshard(source, target, self.case.global_shape, dtype)
            middle = perf_counter()
            plan.totals()
            self.times.totals.append(perf_counter() - middle)
            self.times.auto.append(middle - start)


def measure_kind(cases: list[PlanCase], rounds: int) -> list[PlanTimes]:
    """The times of ``cases``, which take turns.  Local."""
    planners = [Planner(case) for case in cases]
    order = np.random.default_rng(0)
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for which in order.permutation(len(planners)):
                planners[which].turn(planners[which].n)
        for planner in planners:
            planner.plan_auto()
    finally:
        gc.enable()
    return [planner.times for planner in planners]
