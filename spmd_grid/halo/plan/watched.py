"""A halo plan that is watched: its calls are recorded, and in checking mode compared before they begin.

A class of its own, so that a plan that is not watched pays nothing.  Simulated ranks need no comparison: a mismatch
is a deadlock, which they find at once.  Compiled loops make none: in checking mode, all processes must make an update
from such loops, or none; otherwise they wait for one another in different groups, and all raise the error that says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.halo.plan.halo_plan import HaloPlan, PlanActivity
from spmd_grid.halo.plan.specification import HaloSpecification
from spmd_grid.ops.calls.compare import AgreePlan
from spmd_grid.watch.recorder import Recorder

__all__ = ["make_plan"]

R = TypeVar("R")


def make_plan(grid: ProcessGrid, axes: tuple[int, ...], asked: HaloSpecification, name: str | None = None) -> HaloPlan:
    """A plan, watched where operations are recorded.  As `HaloPlan`."""
    return (HaloPlan if grid.recorder is None else _WatchedPlan)(grid, axes, asked, name)


class _MethodCall(PlanActivity):
    """The calls of one method of a plan; ``compare`` compares one of them between the processes."""

    compare: Callable[[], object] | None = None


def _recorded(method: Callable[..., R], together: bool = True) -> Callable[..., R]:
    """``method``, recorded; ``together``: the whole group calls it at once, which checking mode verifies."""
    name = method.__name__
    agreement = AgreePlan(f"HaloExchange.{name}")

    def checked(self: _WatchedPlan, recorder: Recorder, activity: _MethodCall, *args: Any) -> R:
        if together and recorder.check and not (self.channel.comm.shares_objects or self.is_closed):
            if activity.compare is None:
                activity.compare = agreement.comparison(self.grid, self.axes, self.text)
            activity.compare()
        result = method(self, *args)
        if together:
            reverse = self.reverse if name == "accumulate" else None
            recorder.moved(self.channel if reverse is None else reverse.channel)
        return result

    @wraps(method)
    def call(self: _WatchedPlan, *args: Any) -> R:
        recorder = self.grid.process.recorder
        if recorder is None or not recorder.is_idle:
            return method(self, *args)
        activity = self.method_calls.get(name)
        if activity is None:
            activity = self.method_calls[name] = _MethodCall(f"HaloExchange.{name} of {self.title}")
        field = args[0][0] if args and args[0] else None
        return recorder.run(activity, field, checked, self, recorder, activity, *args)

    return call


class _WatchedPlan(HaloPlan):
    def __init__(self, *args: Any):
        self.method_calls: dict[str, _MethodCall] = {}
        super().__init__(*args)

    update = _recorded(HaloPlan.update)
    start = _recorded(HaloPlan.start)
    accumulate = _recorded(HaloPlan.accumulate)
    wait = _recorded(HaloPlan.wait, together=False)
