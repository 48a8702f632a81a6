"""The compiled run of an operation on small arrays of known shapes, and what Python does where it ends early.

Where arrays travel in the lines of a `LineMeeting`, one meeting and some copies are the whole operation
(``kernels/protocol/loop_run.py``).  The members meet as in Python's own run, so it does not matter which of them are in
the compiled one.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import SpmdError
from spmd_grid.exchange.agreement.line_meeting import LineMeeting
from spmd_grid.exchange.paths import DIRECT, MIXED
from spmd_grid.kernels.list_object import length_address
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.calls.opening import Opening
from spmd_grid.ops.loops.work import LoopWork
from spmd_grid.transport.communicator import HEADER_BYTES, Communicator
from spmd_grid.transport.gate import Gate

__all__ = ["CompiledRun", "Finish", "PlannedRun", "can_be_compiled", "run_agreed"]


Finish: TypeAlias = Callable[[Any, Any, Any, Any], Any]  # of what was agreed on, x, out, and the frames


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


def run_agreed(agreed: Any, x: Any, out: np.ndarray | None, frames: Any) -> Any:
    """Run to its end what members have agreed on.  Collective."""
    return agreed.run(x, out, frames)


def can_be_compiled(call: PlannedRun) -> bool:
    """Whether the members of a call meet where compiled runs do, and the calling thread is the one that may.  Local."""
    gate, alone = call.comm.process.gate, call.comm.size == 1
    meets = alone or (isinstance(call.meeting, LineMeeting) and call.path in (DIRECT, MIXED))
    return meets and bool(length_address(gate.tokens)) and not gate.thread_name()


class CompiledRun:
    """The compiled run of ``call``, which errors call ``name``, for members with certain headers; has a ``state``."""

    def __init__(self, name: str, gate: Gate, call: PlannedRun):
        self.name, self.gate, self.call = name, gate, call
        self.state = np.zeros(at.RUN_WORDS, np.int64)
        self.address = kernels.address_of(self.state)
        self.is_prepared = False
        self.opening: Opening | None = None
        self.strangers = 0  # meetings in which members had other headers
        self._headers = b""
        self._alive: list[Any] = []

    def prepare(
        self, work: LoopWork, opening: Opening | None, headers: bytes, x: np.ndarray | None, out: np.ndarray | None
    ) -> None:
        """Prepares the run for arrays like ``x`` and ``out``.  Local.

        ``opening`` is this member's, ``headers`` are those of all members; ``x`` is None where it is ignored.
        """
        self.opening, self._headers = opening, headers
        if self.call.comm.size > 1:
            self._meeting: LineMeeting = self.call.meeting
        self._fill(work, headers, x, out)
        self.is_prepared = True

    def keep(self, thing: Any) -> Any:
        """Keeps ``thing`` alive for the compiled code."""
        self._alive.append(thing)
        return thing

    def is_of(self, opening: Opening, headers: bytes) -> bool:
        """Whether it is for this member's ``opening`` and the ``headers`` of all members.  Local."""
        return self.opening is opening and self._headers == headers

    def go_on(self, x: Any, out: np.ndarray | None, finish: Finish) -> Any:
        """The rest of a run from its meeting on, as Python makes it; the gate has been passed.  Collective."""
        call, opening = self.call, self.opening
        assert opening is not None  # `prepare` has set it
        call.comm.frame[:HEADER_BYTES] = opening.header
        frames = self._meeting.go_on()
        if frames.headers != self._headers:
            self.strangers += 1
        agreed = opening.agreed.get(frames.headers)
        if agreed is None:
            agreed = call.resolve(opening, frames)
        return finish(agreed, x, out, frames)

    def end(self, operation: str, *arrays: object) -> NoReturn:
        """Raises the error for which compiled code has given up its wait; ``operation`` was cut off.

        ``arrays``: of the operation; they are kept where messages to or from them may still be on their way.
        """
        try:
            self._meeting.end_loop()
        except BaseException as error:
            if not isinstance(error, SpmdError) or error.cuts_off:
                self.gate.cut_off(operation, error)
            raise

    def _fill(self, work: LoopWork, headers: bytes, x: np.ndarray | None, out: np.ndarray | None) -> None:
        """Writes the state: see ``RUN_*`` in kernels/protocol/slots.py."""
        state, size = self.state, self.call.comm.size
        groups = [] if work.fold is None else work.fold.groups
        folded = self.keep(np.array([size, *[0] * size, len(groups), *groups], np.int64))
        rows = folded[1 : 1 + size] if work.scratch is None else self.keep(np.zeros(size, np.int64))
        state[at.RUN_COURSE] = kernels.loop_run_address
        state[at.RUN_MEETING] = 0 if size == 1 else self._meeting.address
        state[at.RUN_THREAD] = np.uint64(self.gate.owner).astype(np.int64)
        state[at.RUN_TOKENS] = length_address(self.keep(self.gate.tokens))
        state[at.RUN_BARRED] = kernels.address_of(self.keep(self.gate.barred))
        state[at.RUN_KEY] = 2 * int.from_bytes(blake2b(headers, digest_size=7).digest(), "little") + 2
        state[at.RUN_HEADERS] = kernels.address_of(self.keep(np.frombuffer(headers, np.uint8)))
        # All the work, after a meeting without arrays.
        follows = work.relay is not None or work.fetch is not None or work.read is not None
        state[at.RUN_BYTES] = 0 if x is None or follows else x.nbytes
        state[at.RUN_LATCH] = kernels.address_of(self.keep(self.gate.latch))
        if work.relay is not None:
            state[at.RUN_RELAY], state[at.RUN_RELAY_COURSE] = self.keep(work.relay).address, kernels.relay_address
        if work.ways is not None:
            state[at.RUN_WAYS] = kernels.address_of(self.keep(work.ways).words)
        if work.fetch is not None:
            state[at.RUN_FETCH], state[at.RUN_FETCH_COURSE] = self.keep(work.fetch).address, kernels.fetch_address
        if work.read is not None and work.read_ways is not None and work.bases is not None:
            state[at.RUN_READ], state[at.RUN_FETCH_COURSE] = self.keep(work.read).address, kernels.fetch_address
            state[at.RUN_READ_WAYS] = kernels.address_of(self.keep(work.read_ways).words)
            state[at.RUN_BASES] = kernels.address_of(self.keep(work.bases))
        if work.unless_read:
            members = self.keep(np.isin(np.arange(size), work.unless_read).astype(np.int64))
            state[at.RUN_UNLESS_READ] = kernels.address_of(members)
            state[at.RUN_IF_FAR], state[at.RUN_IF_NEAR] = work.if_far, work.if_near
            state[[at.RUN_SEGMENT, at.RUN_SEGMENT_BYTES]] = self.call.comm.process.arena.own_segment()
        state[at.RUN_SHIFT] = work.shift
        if work.constant is not None:
            rows = self.keep(np.zeros(size + 1, np.int64))
            rows[-1] = kernels.address_of(self.keep(work.constant))
        state[at.RUN_ROWS] = kernels.address_of(rows)
        table = self.keep(work.table)
        state[at.RUN_COPY], state[at.RUN_TABLE] = kernels.copy_address, kernels.address_of(table)
        state[at.RUN_COLUMNS], state[at.RUN_SOURCES] = table.shape[1], len(work.copies)
        state[at.RUN_FIRST] = kernels.address_of(self.keep(np.array(work.firsts, np.int64)))
        if work.fold is not None:
            state[at.RUN_FOLD], state[at.RUN_COUNT] = work.fold.address, work.fold.n
            state[at.RUN_FOLDED] = kernels.address_of(folded)
        if work.scratch is not None:
            state[at.RUN_SCRATCH] = kernels.address_of(self.keep(work.scratch))
            folded[1 : 1 + size] = [kernels.address_of(row) for row in work.scratch]
        self._describe(state[at.RUN_X :], x, False)
        has_result = work.fold is not None or follows or len(work.copies) > 0
        self._describe(state[at.RUN_OUT :], out if has_result else None, True)

    def _describe(self, words: np.ndarray, array: np.ndarray | None, is_written: bool) -> None:
        """Writes what compiled code must pass; None: any array."""
        if array is not None:
            words[at.A_DTYPE], words[at.A_WRITTEN] = at.dtype_word(array.dtype), is_written
            words[at.A_OBJECT], words[at.A_BYTES] = id(self.keep(array.dtype)), array.nbytes
            words[at.A_NDIM] = array.ndim
            words[at.A_EXTENTS : at.A_EXTENTS + array.ndim] = array.shape
