"""The entry of compiled loops into a plan of an operation.

The first run of a loop is Python's own, `OperationPlan.run`; so is every run that is not of the common kind, with its
checks, errors, records and traces.  Where small arrays travel in the lines of a `MemoryMeeting`, the entry then
prepares a compiled run (``kernels/protocol/loop_run.py``), which meets the same members in the same lines: it does not
matter which of them are in compiled loops.
"""

from __future__ import annotations

import weakref
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import RequestError, SpmdError
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.paths import DIRECT
from spmd_grid.kernels.list_object import length_address
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.calls.opening import Opening
from spmd_grid.ops.loops.work import LoopWork
from spmd_grid.transport.communicator import HEADER_BYTES, Communicator
from spmd_grid.transport.gate import Gate

__all__ = ["CompiledPart", "LoopActivity", "LoopEntry", "PlannedRun", "RunnablePlan", "run_in_loop"]

_entries: weakref.WeakValueDictionary[int, LoopEntry] = weakref.WeakValueDictionary()


class PlannedRun(Protocol):
    """The part of a `CollectiveCall` that compiled runs need."""

    comm: Communicator
    path: str
    meeting: Any

    def describe(self) -> str:
        """Describe the call for reports."""

    def opening_for(self, x: Any, out: Any) -> tuple[Opening, np.ndarray | None]:
        """Make the opening that describes this member's arrays."""

    def resolve(self, opening: Opening, frames: Any) -> Any:
        """Find what the frames of a meeting mean.  Collective."""


class LoopActivity:
    """A plan's runs in compiled loops, as reports describe them; ``made_at``: the call site where it was made."""

    def __init__(self, text: str, made_at: str):
        self._text, self.made_at = text, made_at

    def describe(self) -> str:
        return self._text


class CompiledPart(NamedTuple):
    """The part of a plan that compiled code may run by itself: one call, by the operation's own name in errors."""

    name: str
    gate: Gate
    call: PlannedRun
    activity: LoopActivity


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
        self._state = np.zeros(at.RUN_WORDS, np.int64)
        self.address = kernels.address_of(self._state)
        self._is_settled = False  # whether it is known if there is a compiled run
        self._is_prepared = False
        self._opening: Opening | None = None
        self._alive: list[np.ndarray] = []
        part = plan.compiled_part()
        self._call: PlannedRun | None = None
        if part is None:
            self._is_settled = True
        else:
            self._name, self._gate, self._call, self._activity = part
        _entries[self.address] = self

    def refresh(self) -> None:
        """Finds whether the compiled run may be taken now: traces contain every run, and Python writes them.  Local."""
        recorder = None if self._call is None else self._call.comm.process.recorder
        self._state[at.RUN_READY] = self._is_prepared and (recorder is None or recorder.on_end is None)

    def retire(self) -> None:
        """Leaves all runs to Python from now on.  Local."""
        self._is_settled, self._is_prepared = True, False
        self._state[at.RUN_READY] = 0

    def run(self, code: int, x: Any, out: np.ndarray) -> None:
        """Runs the plan after compiled code has ended with ``code``.  Collective, as the plan's run is."""
        if code == at.BY_PYTHON:
            plan = self._plan()
            if plan is None:
                raise RequestError("a compiled loop runs a plan that is gone; pass the plan to the compiled function")
            plan.run(x, out)
            if not self._is_settled:
                self._prepare(x, out)
        elif code == at.OTHERS:
            self._gate.run(f"{self._name}.plan.run", self._go_on, x, out)
        else:
            self._end()

    def _end(self) -> None:
        try:
            self._meeting.end_loop()
        except BaseException as error:
            if not isinstance(error, SpmdError) or error.cuts_off:
                self._gate.cut_off(f"{self._name}.plan.run in a compiled loop", error)
            raise

    def _go_on(self, x: Any, out: np.ndarray) -> None:
        """The rest of a run from its meeting on, as Python makes it; the gate has been passed."""
        call, opening = self._call, self._opening
        if call is None or opening is None:
            raise RequestError(f"{self._name}: a compiled loop has met without an opening")
        call.comm.process.activity = self._activity
        call.comm.frame[:HEADER_BYTES] = opening.header
        frames = self._meeting.go_on()
        agreed = opening.agreed.get(frames.headers)
        if agreed is None:
            agreed = call.resolve(opening, frames)
        agreed.run(x, out, frames)

    # -- preparing -----------------------------------------------------------------------------------------------

    def _prepare(self, x: Any, out: np.ndarray) -> None:
        """Prepares the compiled run after Python has run the plan on arrays like ``x`` and ``out``.  Local."""
        call = self._call
        if call is None or call.comm.process.gate.thread_name():
            return
        meeting, alone = call.meeting, call.comm.size == 1
        tokens = length_address(self._gate.tokens)
        if not tokens or not (alone or (isinstance(meeting, MemoryMeeting) and call.path is DIRECT)):
            self._is_settled = True
            return
        opening, taken = call.opening_for(x, out)
        headers = next(iter(opening.agreed), b"") if alone else meeting.last.headers
        agreed = opening.agreed.get(headers)
        if agreed is None or not out.flags.c_contiguous:
            return  # the next run may be of the common kind
        self._is_settled = True
        work: LoopWork | None = None if taken is not None and taken is not x else agreed.loop_work()
        if work is None:
            return
        self._opening = opening
        if not alone:
            self._meeting: MemoryMeeting = meeting
            meeting.let_loop_in(self._activity)
        self._fill(work, headers, taken, out, tokens)
        self._is_prepared = True
        self.refresh()

    def _fill(self, work: LoopWork, headers: bytes, x: np.ndarray | None, out: np.ndarray, tokens: int) -> None:
        """Writes the state: see ``RUN_*`` in kernels/protocol/slots.py."""
        state, call = self._state, self._call
        assert call is not None  # the caller has looked
        size = call.comm.size
        folded = self._keep(np.zeros(1 + size, np.int64))
        rows = folded[1:] if work.scratch is None else self._keep(np.zeros(size, np.int64))
        state[at.RUN_COURSE] = kernels.loop_run_address
        state[at.RUN_MEETING] = 0 if size == 1 else self._meeting.address
        state[at.RUN_THREAD] = np.uint64(self._gate.owner).astype(np.int64)
        state[at.RUN_TOKENS], state[at.RUN_BARRED] = tokens, kernels.address_of(self._gate.barred)
        state[at.RUN_KEY] = 2 * int.from_bytes(blake2b(headers, digest_size=7).digest(), "little") + 2
        state[at.RUN_HEADERS] = kernels.address_of(self._keep(np.frombuffer(headers, np.uint8)))
        state[at.RUN_BYTES] = 0 if x is None else x.nbytes
        state[at.RUN_SHIFT] = work.shift
        if work.constant is not None:
            rows = self._keep(np.zeros(size + 1, np.int64))
            rows[-1] = kernels.address_of(self._keep(work.constant))
        state[at.RUN_ROWS] = kernels.address_of(rows)
        table = self._keep(work.table)
        state[at.RUN_COPY], state[at.RUN_TABLE] = kernels.copy_address, kernels.address_of(table)
        state[at.RUN_COLUMNS], state[at.RUN_SOURCES] = table.shape[1], len(work.copies)
        state[at.RUN_FIRST] = kernels.address_of(self._keep(np.array(work.firsts, np.int64)))
        if work.fold is not None:
            folded[0] = size
            state[at.RUN_FOLD], state[at.RUN_COUNT] = work.fold
            state[at.RUN_FOLDED] = kernels.address_of(folded)
        if work.scratch is not None:
            state[at.RUN_SCRATCH] = kernels.address_of(self._keep(work.scratch))
            folded[1:] = [kernels.address_of(row) for row in work.scratch]
        _describe(state[at.RUN_X :], x, False)
        writes = work.fold is not None or len(table) > 0
        _describe(state[at.RUN_OUT :], out if writes else None, True)

    def _keep(self, array: np.ndarray) -> np.ndarray:
        self._alive.append(array)
        return array


def _describe(words: np.ndarray, array: np.ndarray | None, is_written: bool) -> None:
    """Writes what compiled code must pass; None: any array."""
    if array is not None:
        words[at.A_DTYPE], words[at.A_WRITTEN] = at.dtype_word(array.dtype), is_written
        words[at.A_NDIM] = array.ndim
        words[at.A_EXTENTS : at.A_EXTENTS + array.ndim] = array.shape
