"""The entry of compiled loops into a plan of an operation.

The first run of a loop is Python's own, `OperationPlan.run`; so is every run that is not of the common kind, with its
checks, errors, records and traces.  Where small arrays travel in the lines of a `LineMeeting`, the entry then
prepares a compiled run (``kernels/protocol/loop_run.py``), which meets the same members in the same lines: it does not
matter which of them are in compiled loops.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import RequestError
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.calls.opening import Opening
from spmd_grid.ops.loops.compiled_run import CompiledRun, Finish, PlannedRun, can_be_compiled, run_agreed
from spmd_grid.ops.loops.work import LoopWork
from spmd_grid.transport.gate import Gate

__all__ = ["CompiledPart", "LoopActivity", "LoopEntry", "Ran", "RunnablePlan", "last_run", "run_in_loop"]

_entries: weakref.WeakValueDictionary[int, LoopEntry] = weakref.WeakValueDictionary()


class LoopActivity:
    """A plan's runs in compiled loops, as reports describe them; ``made_at``: the call site where it was made."""

    def __init__(self, text: str, made_at: str):
        self._text, self.made_at = text, made_at

    def describe(self) -> str:
        return self._text


class Ran(NamedTuple):
    """A run that Python has made: this member's opening, all members' headers, its array, and the work.

    ``x`` is None where it is ignored, ``work`` where there can be no compiled run.
    """

    opening: Opening | None
    headers: bytes
    x: np.ndarray | None
    work: LoopWork | None


def last_run(call: PlannedRun, x: Any, out: np.ndarray) -> Ran | None:
    """The last run of an operation's plan, in the form that `CompiledPart` needs.  Local."""
    opening, taken = call.opening_for(x, out)
    headers = next(iter(opening.agreed), b"") if call.comm.size == 1 else call.meeting.last.headers
    agreed = opening.agreed.get(headers)
    if agreed is None or not out.flags.c_contiguous:
        return None
    return Ran(opening, headers, taken, None if taken is not None and taken is not x else agreed.loop_work())


class CompiledPart(NamedTuple):
    """The part of a plan that compiled code may run by itself: one call, by its name in errors.

    ``find(x, out)``: what Python's last run, of such arrays, did; None if the next one may tell.  ``finish`` ends one
    that Python goes on with.  ``make(name, gate, call)``: the run, to be prepared.
    """

    name: str
    gate: Gate
    call: PlannedRun
    activity: LoopActivity
    find: Callable[[Any, np.ndarray], Ran | None]
    finish: Finish = run_agreed
    make: Callable[[str, Gate, PlannedRun], CompiledRun] = CompiledRun


class RunnablePlan(Protocol):
    """The part of a plan that its entry uses."""

    def run(self, x: Any = None, out: np.ndarray | None = None) -> Any:
        """Run the plan."""

    def compiled_part(self) -> CompiledPart | None:
        """Return the part that compiled code may run by itself."""


def run_in_loop(state: int, code: int, x: Any, out: np.ndarray) -> None:
    """Runs, or goes on to run, the plan whose entry has this state, as its outcome in compiled code requires."""
    entry = _entries.get(state)
    if entry is None:
        raise RequestError("a compiled loop runs a plan that is gone; pass the plan to the compiled function")
    entry.run(code, x, out)


class LoopEntry:
    """Lets compiled loops run ``plan``, which they hold while they run."""

    def __init__(self, plan: RunnablePlan):
        self._plan = weakref.ref(plan)
        part = plan.compiled_part()
        self._is_settled = part is None  # whether it is known if there is a compiled run
        self._run: CompiledRun | None = None
        self._state = np.zeros(at.RUN_WORDS, np.int64)
        if part is not None:
            self._run, self._part = part.make(part.name, part.gate, part.call), part
            self._state = self._run.state
        self.address = kernels.address_of(self._state)
        _entries[self.address] = self

    def refresh(self) -> None:
        """Finds whether the compiled run may be taken now: traces contain every run, and Python writes them.  Local."""
        run = self._run
        if run is not None:
            recorder = run.call.comm.process.recorder
            self._state[at.RUN_READY] = run.is_prepared and (recorder is None or recorder.on_end is None)

    def retire(self) -> None:
        """Leaves all runs to Python from now on.  Local."""
        self._is_settled, self._run = True, None
        self._state[at.RUN_READY] = 0

    def run(self, code: int, x: Any, out: np.ndarray) -> None:
        """Runs the plan after compiled code has ended with ``code``.  Collective, as the plan's run is."""
        run = self._run
        if code == at.BY_PYTHON or run is None:
            plan = self._plan()
            if plan is None:
                raise RequestError("a compiled loop runs a plan that is gone; pass the plan to the compiled function")
            plan.run(x, out)
            if not self._is_settled:
                self._prepare(x, out)
        elif code == at.OTHERS:
            run.call.comm.process.activity = self._part.activity
            run.gate.run(run.name, run.go_on, x, out, self._part.finish)
        else:
            run.end(f"{run.name} in a compiled loop", x, out)

    def _prepare(self, x: Any, out: np.ndarray) -> None:
        """Prepares the compiled run after Python has run the plan on arrays like ``x`` and ``out``.  Local."""
        run = self._run
        if run is None or run.gate.thread_name():
            return
        if not can_be_compiled(run.call):
            self._is_settled = True
            return
        ran = self._part.find(x, out)
        if ran is None:
            return  # the next run may be of the common kind
        self._is_settled = True
        if ran.work is None:
            return
        if run.call.comm.size > 1:
            run.call.meeting.let_loop_in(self._part.activity)
        run.prepare(ran.work, ran.opening, ran.headers, ran.x, out)
        self.refresh()
