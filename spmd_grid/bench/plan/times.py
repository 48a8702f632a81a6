"""How long one process takes to plan: measured alone, without any other process.

To plan is to make both layouts from shardings that have not been used before, and to list what this process sends and
receives.  Kinds are measured one after the other; grids and devices take turns.  The devices are a sample; what counts
is those with the most messages.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from itertools import count
from time import perf_counter

import numpy as np

from spmd_grid.bench.plan.cases import PlanCase
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.plan import plan_reshard

__all__ = ["PlanTimes", "Planner", "measure_kind"]

_SAMPLE = 64  # devices that are looked at
_KEPT = 8  # of those with the most messages
_TURN_SECONDS = 2e-3
_WHOLE = 5  # how often all of plan_reshard is timed
_numbers = count(1)  # for dtypes of 8 bytes that nobody has planned for: plans are kept by their arguments


@dataclass
class PlanTimes:
    """Seconds of each time that a process planned, and how many messages it and how many partners it then had.

    ``shardings``: seconds to make both shardings, which come before; ``auto``, ``totals``: of plan_reshard with
    strategy "auto" and of the totals of what it gives, which are those of all devices.
    """

    case: PlanCase
    receives: int
    sends: int
    partners: int
    seconds: list[float] = field(default_factory=list)
    shardings: list[float] = field(default_factory=list)
    auto: list[float] = field(default_factory=list)
    totals: list[float] = field(default_factory=list)


class Planner:
    """A case, ready to be planned again and again; ``times`` says what that took."""

    def __init__(self, case: PlanCase):
        self.case, self.grid = case, Grid(case.grid_shape)
        draw = np.random.default_rng(0)
        numbers = draw.choice(case.devices, min(case.devices, _SAMPLE), replace=False)
        found = []
        for number in sorted(numbers.tolist()):
            coords = self.grid.multi_index(number)
            receives, sends = self._plan(*case.shardings(self.grid), coords)
            partners = {piece.process for piece in (*receives, *sends)}
            found.append((len(receives) + len(sends), len(receives), len(sends), len(partners), coords))
        most = max(messages for messages, *_ in found)
        busiest = [each for each in found if each[0] == most][:_KEPT]
        self._coords = [coords for *_, coords in busiest]
        self.times = PlanTimes(case, *busiest[0][1:4])
        start = perf_counter()
        self.turn(3)
        self.n = max(1, round(3 * _TURN_SECONDS / (perf_counter() - start)))
        self.times.seconds.clear()
        self.times.shardings.clear()

    def _plan(self, source, target, coords):
        shape = self.case.global_shape
        moves = Redistribution(Layout(source, shape), Layout(target, shape))
        return moves.receives(coords), moves.sends(coords)

    def turn(self, n: int) -> None:
        """Plans ``n`` times."""
        for i in range(n):
            coords = self._coords[i % len(self._coords)]
            begin = perf_counter()
            source, target = self.case.shardings(self.grid)
            start = perf_counter()
            self._plan(source, target, coords)
            self.times.seconds.append(perf_counter() - start)
            self.times.shardings.append(start - begin)

    def whole(self) -> None:
        """The whole plan, with a choice among all ways."""
        for _ in range(_WHOLE):
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
            planner.whole()
    finally:
        gc.enable()
    return [planner.times for planner in planners]
