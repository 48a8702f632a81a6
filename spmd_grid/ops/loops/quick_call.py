"""Operations as one compiled function, for calls from Python: after a few calls on arrays of one kind.

`QuickCall` is called as the operation is.  Where it knows a compiled run for the arrays, the operation is made without
another step of Python (``kernels/protocol/quick_call.py``); else ``slow`` makes it, and `learn` prepares such a run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from sys import intern
from typing import Any

import numpy as np

from spmd_grid import kernels
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.calls.opening import Opening, Turns
from spmd_grid.ops.loops.compiled_run import CompiledRun, Finish, PlannedRun, can_be_compiled, run_agreed
from spmd_grid.ops.loops.work import LoopWork
from spmd_grid.transport.gate import Gate

__all__ = ["QuickCall"]

_MOST_RUNS = 8  # of one call, for arrays of different kinds
_MOST_STRANGERS = 8  # meetings in which other members have changed their arrays, until a run is given up
_MOST_MADE_BYTES = 1 << 12  # larger results come from the arena

_NONE, _OUT = None, intern("out")


class QuickCall:
    """The quick form of ``call``, whose name in errors is ``name``: the function ``run(x, out)``.

    ``slow``, called with the same arguments, makes every operation that no compiled run is for.  ``finish`` ends an
    operation that Python goes on with.  ``allocate(shape, dtype)`` makes large results.  ``turns``: the caller's
    count of operations that Python has made, which says when to `learn`.
    """

    def __init__(
        self,
        name: str,
        gate: Gate,
        call: PlannedRun,
        slow: Callable[..., Any],
        finish: Finish = run_agreed,
        allocate: Callable[..., np.ndarray] = np.empty,
        turns: Turns | None = None,
    ):
        self._turns = turns or Turns()
        self._finish, self._allocate = finish, allocate
        self._name, self._gate, self._call = name, gate, call
        self._runs: list[CompiledRun] = []
        self._head = head = np.zeros(at.QUICK_WORDS, np.int64)
        self._objects = slow, call.comm.process.watched
        head[at.QUICK_SLOW], head[at.QUICK_WATCHED] = id(slow), kernels.address_of(call.comm.process.watched)
        head[at.QUICK_NONE], head[at.QUICK_OUT], head[at.QUICK_ARRAY] = id(_NONE), id(_OUT), id(np.ndarray)
        head[at.QUICK_TYPE], head[at.QUICK_FIELDS] = object.__basicsize__ - 8, kernels.FIELDS_OFFSET
        self.run: Callable[..., Any] = kernels.new_quick_call(kernels.address_of(head), self)

    @staticmethod
    def is_possible(call: PlannedRun) -> bool:
        """Whether there can be compiled runs of a call, once its members have met.  Local."""
        return bool(kernels.FIELDS_OFFSET) and not call.comm.shares_objects and can_be_compiled(call)

    def learn(
        self, opening: Opening, agreed: Any, headers: bytes, x: np.ndarray | None, out: np.ndarray | None, result: Any
    ) -> None:
        """Prepares a run for arrays like those of an operation that Python has made.  Local.

        ``opening`` is this member's, ``headers`` are those of all members, of which ``agreed`` was made.
        """
        find_work = getattr(agreed, "loop_work", None)
        if find_work is None or opening.agreed.get(headers) is not agreed:
            return
        work = find_work()
        if work is None or work.is_partial:
            self._turns.begin_again(opening)  # relays, or the system's copies, may be known then
        if work is not None and not (work.is_partial and any(run.is_of(opening, headers) for run in self._runs)):
            self.add(work, opening, headers, x, result, self.maker(out, result))

    def maker(self, out: np.ndarray | None, result: np.ndarray | None) -> Callable[..., np.ndarray] | None:
        """The function that makes results like this one; None where ``out`` was passed for it.  Local."""
        if result is None or out is not None:
            return None
        return np.empty if result.nbytes < _MOST_MADE_BYTES else self._allocate

    def add(
        self,
        work: LoopWork,
        opening: Opening,
        headers: bytes,
        x: np.ndarray | None,
        result: np.ndarray | None,
        make: Callable[..., np.ndarray] | None,
    ) -> None:
        """Prepares a run that does ``work`` on arrays like these.  Local.

        ``make(shape, dtype)`` makes results; None where they are passed.
        """
        run = CompiledRun(self._name, self._gate, self._call)
        run.prepare(work, opening, headers, x, result)
        self.enlist(run, result, make)

    def enlist(self, run: CompiledRun, result: np.ndarray | None, make: Callable[..., np.ndarray] | None) -> None:
        """Adds a run that has been prepared for arrays like ``result``; ``make`` as of `add`.  Local."""
        state = run.state
        state[at.RUN_RETURNS] = result is not None
        if result is not None and make is not None:
            state[at.RUN_MAKE] = id(run.keep(partial(make, result.shape, result.dtype)))
        state[at.RUN_GO_ON], state[at.RUN_END] = [
            id(run.keep(partial(function, run))) for function in (self._go_on, self._end)
        ]
        if len(self._runs) >= _MOST_RUNS:
            self.forget()
        self._runs.append(run)
        state[at.RUN_NEXT] = self._head[at.QUICK_FIRST]
        self._head[at.QUICK_FIRST] = run.address

    def forget(self) -> None:
        """Leaves all operations to ``slow``, until it has learned again.  Local."""
        self._head[at.QUICK_FIRST] = 0
        for run in self._runs:
            if run.opening is not None:
                self._turns.begin_again(run.opening)
        self._runs.clear()

    def _go_on(self, run: CompiledRun, x: Any, out: np.ndarray | None) -> Any:
        """The rest of an operation that compiled code has left to Python after its post.  Collective."""
        try:
            gate, token = self._gate, None
            token = gate.idle.pop()
            self._call.comm.process.activity = self._call
            result = run.go_on(x if run.state[at.RUN_X + at.A_DTYPE] else None, out, self._finish)
            if run.strangers > _MOST_STRANGERS:
                self.forget()
            gate.idle.append(token)
            return result
        except BaseException as error:
            self._gate.fail(self._name, locals().get("token"), error)
            raise

    def _end(self, run: CompiledRun, x: Any, out: np.ndarray | None) -> None:
        """Raise the error for which a relay was given up."""
        try:
            gate, token = self._gate, None
            token = gate.idle.pop()
            run.end(self._name, x, out)
        except BaseException as error:
            self._gate.fail(self._name, locals().get("token"), error)
            raise
