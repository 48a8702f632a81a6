"""A plan bound to the processes that run it, for hot loops of Python and for compiled ones."""

from __future__ import annotations

from spmd_grid.exchange.paths import chosen_path
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import gate_of
from spmd_grid.ops.loops.entry import CompiledPart, LoopActivity
from spmd_grid.ops.loops.plan import LoopPlan
from spmd_grid.reshard.executor.ahead import ReshardAhead
from spmd_grid.reshard.executor.arguments import LocalArrays, LocalResult
from spmd_grid.reshard.executor.prepared_reshard import prepared_plan, run_slowly
from spmd_grid.reshard.plan_value import PlanValue
from spmd_grid.watch.call_site import call_site

__all__ = ["ReshardRun"]


class ReshardRun(LoopPlan):
    """A resharding on its processes; made by `Plan.bind`, and run as often as you like.

    Making it sends nothing: the first run compares the plan between processes and makes its buffers, as that of the
    plan itself does.  Between nodes, later runs of large arrays do not meet (``ahead.py``), so all processes take the
    bound plan.  numba's compiled functions take it as an argument and call its ``run(x, out)``.
    """

    def __init__(self, plan: PlanValue, grid: ProcessGrid):
        gate = gate_of("Plan.bind", grid)
        self.plan, self.grid, self._made_at = plan, grid, call_site()
        self._key = "run_plan", plan, chosen_path(), gate.thread_name()
        self._prepared = prepared_plan(plan, self._key, grid)
        self._ahead: ReshardAhead | None = None
        if not gate.thread_name() and ReshardAhead.may_suit(plan, self._prepared):
            self._ahead = ReshardAhead(plan, grid, self._made_at)

    def run(self, x: LocalArrays = None, out: LocalArrays = None) -> LocalResult:
        """Run the plan from the local array ``x`` to a new one, or to ``out``.

        Collective over the processes of both layouts' grids; arguments, result and errors as for `Plan.run`.
        """
        ahead = self._ahead
        if ahead is not None and not self.grid.process.gate.thread_name():
            result, quick = ahead.run_alone(x, out), ahead.quick_for(self.plan)
        else:
            result, quick = run_slowly(self.plan, x, self.grid, out), self._prepared.quick_for(self.plan)
        if quick is not None:
            self.__dict__["run"] = quick.run  # instead of the method
        return result

    def compiled_part(self) -> CompiledPart | None:
        """Return the part that compiled code may run by itself.  Local."""
        if self._ahead is not None:
            return self._ahead.compiled_part()
        prepared, gate = self._prepared, self.grid.process.gate
        call = prepared.call
        if call is None:
            return None
        activity = LoopActivity(prepared.describe(self.plan.name), self._made_at)
        return CompiledPart("run_plan", gate, call, activity, prepared.last_run, prepared.finish)

    def __repr__(self) -> str:
        return f"<{self.plan!r} on {self.grid!r}>"
