"""Runs of a plan that do not meet, in groups that span nodes (``kernels/ahead``).

Their plan has compared what members pass.  A run that one member alone cannot make cuts off the whole program: the
others may be in later runs, so they cannot raise its error where it belongs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from spmd_grid.errors import SpmdError
from spmd_grid.exchange.agreement.crossing_meeting import CrossingMeeting
from spmd_grid.exchange.agreement.header import Facts, encode_facts
from spmd_grid.exchange.agreement.learn_facts import swap_texts
from spmd_grid.exchange.paths import MIXED
from spmd_grid.ops.calls.arguments import as_array, check_output
from spmd_grid.ops.calls.plan_arrays import check_array
from spmd_grid.ops.calls.shape_rules import check_out
from spmd_grid.ops.loops.ahead_run import AheadRun
from spmd_grid.ops.loops.compiled_run import PlannedRun
from spmd_grid.ops.loops.entry import CompiledPart, LoopActivity, Ran
from spmd_grid.ops.loops.quick_call import QuickCall
from spmd_grid.transport.gate import Gate
from spmd_grid.typing import Shape

__all__ = ["CallAhead", "PlanAhead", "ahead_run_of"]

_TURNS = 2  # runs on arrays of one kind that Python makes, before compiled ones


class CallAhead(PlannedRun, Protocol):
    """The part of a `CollectiveCall` that runs without a meeting use."""

    fingerprint: bytes

    def label(self, member: int) -> str:
        """Name a member as the user knows it."""

    def blame(self, error: SpmdError) -> SpmdError:
        """The error with this member's name added."""


def ahead_run_of(
    name: str, gate: Gate, call: CallAhead, agreed: Any, activity: Callable[[], LoopActivity], run_name: str
) -> AheadRun | None:
    """The compiled run of a plan of operation ``name``; None if its members have to meet, alike on all.  Collective.

    ``run_name``: the run's name in errors.
    """
    meeting = call.meeting
    if call.path is not MIXED or not isinstance(meeting, CrossingMeeting) or not hasattr(agreed, "ahead_work"):
        return None
    work = agreed.ahead_work(meeting.nodes, partial(swap_texts, call.comm))
    lines = None if work is None else meeting.ahead_lines()
    if work is None or lines is None:
        return None
    memory = lines.allocate(0 if work.pieces is None else work.pieces.n_bytes)
    if memory is None:
        return None
    facts = call.fingerprint + b"".join(map(encode_facts, agreed.facts))
    target = None if agreed.shape is None else agreed.new_target
    run = AheadRun(name, run_name, gate, call, work, lines, facts, target, activity(), memory[1])
    run.keep(memory[0])
    run.prepare(work.work, None, b"", None, None)
    return run


class PlanAhead:
    """The runs of one plan: of ``call``, on which members have ``agreed``, with arrays of ``shape`` and ``dtype``.

    ``run``: as `ahead_run_of` makes it; ``convert``: turns an array into the one that takes part.
    """

    def __init__(
        self,
        run: AheadRun,
        call: CallAhead,
        agreed: Any,
        shape: Shape | None,
        dtype: np.dtype | None,
        convert: Callable[[np.ndarray], np.ndarray],
    ):
        self._convert = convert
        self._run, self._call, self._agreed, self._shape, self._dtype = run, call, agreed, shape, dtype
        self._turns: Counter[bool] = Counter()  # of runs that Python has made, by whether ``out`` was given

    def run(
        self, call: CallAhead, x: Any, out: np.ndarray | None, check_open: Callable[[], None] | None = None
    ) -> np.ndarray | None:
        """Run on ``x``, as the calling thread's ``call``.  Collective, and without a meeting.

        ``check_open``: refuses a plan that has been closed.
        """
        recorder, comm, name = call.comm.process.recorder, call.comm, self._run.operation
        try:
            if check_open is not None:
                check_open()
            if self._shape is not None:
                x = as_array(name, x)
                check_array(name, x, self._shape, self._dtype)
            if out is not None and self._agreed.shape is not None:
                check_output(name, out, x if self._shape is not None else None)
                given = [Facts(None, None, out.shape, out.dtype)]
                check_out(name, given, [self._agreed.shape], self._agreed.dtype, lambda _: call.label(comm.rank))
            if self._shape is not None:
                x = self._convert(x)
        except SpmdError as error:
            blamed = call.blame(error)
            blamed.cuts_off = True
            raise blamed from None
        if recorder is not None:
            recorder.moved(self._agreed)
        return self._run.run(None if self._shape is None else x, out, comm.process.gate.thread_name())

    @property
    def _converts(self) -> bool:
        """Whether Python converts arrays to another dtype before they take part."""
        return self._shape is not None and self._agreed.dtype != self._dtype

    def describe(self) -> str:
        """Describe for users how the arrays travel."""
        work = self._run.ahead
        if work.pieces is not None:
            arrivals = sum(len(step.arrivals) for step in work.pieces.steps)
            return (
                f"without a meeting: sends {len(work.pieces.leaves)} pieces to other nodes and receives {arrivals}, in"
                f" {work.pieces.n_bytes} bytes of memory; members of a node read one another's"
            )
        return (
            f"without a meeting: sends {len(work.sends)} messages to other nodes and receives {len(work.receives)};"
            " members of a node read one another's lines"
        )

    def learn(self, quick: QuickCall, out: np.ndarray | None, result: np.ndarray | None) -> None:
        """Prepare a compiled run for arrays like those of one that Python has made.  Local."""
        process = self._call.comm.process
        if process.recorder is not None or process.gate.thread_name() or self._converts:
            return
        if out is None and self._run.ahead.pieces is not None:
            return  # where Python goes on with a run, messages come into the result that was made before
        self._turns[out is None] += 1
        if self._turns[out is None] == _TURNS:
            run = self._prepared(result)
            quick.enlist(run, result, quick.maker(out, result))

    def _prepared(self, result: np.ndarray | None) -> AheadRun:
        x = None if self._shape is None else np.empty(self._shape, self._dtype)
        run = self._run.again()
        run.prepare(run.ahead.work, None, b"", x, result)
        return run

    def compiled_part(self) -> CompiledPart:
        """Return the part that compiled code may run by itself.  Local."""

        def find(x: Any, out: np.ndarray) -> Ran | None:
            given = None if self._shape is None else np.empty(self._shape, self._dtype)
            suits = out.flags.c_contiguous and not self._converts
            return Ran(None, b"", given, self._run.ahead.work) if suits else None

        run = self._run
        return CompiledPart(run.name, run.gate, self._call, run.activity, find, make=lambda *_: run.again())
