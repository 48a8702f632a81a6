"""Runs of plans that do not meet between nodes: the compiled run (``kernels/ahead``), and its errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NoReturn

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import SpmdError
from spmd_grid.exchange.agreement.ahead_lines import AheadLines
from spmd_grid.kernels.ahead import slots as ahead_at
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.calls.opening import Opening
from spmd_grid.ops.loops.compiled_run import CompiledRun, Finish, PlannedRun
from spmd_grid.ops.loops.entry import LoopActivity
from spmd_grid.ops.loops.piece_program import PieceProgram
from spmd_grid.ops.loops.work import LoopWork
from spmd_grid.ops.movement.ahead import AheadWork, Need
from spmd_grid.transport.communicator import HEADER_BYTES
from spmd_grid.transport.gate import Gate

__all__ = ["AheadRun"]

_NO_HEADERS = bytes(HEADER_BYTES)


class AheadRun(CompiledRun):
    """The run of a plan whose members do not meet.

    ``agreed``: what they have agreed on when the plan was made, the bytes ``facts``, equal on all.  ``new_target()``
    makes the array for the result; None where this member has none.  ``memory``: the addresses of the memory for pieces
    of the members of the node, among them its own.
    """

    def __init__(
        self,
        operation: str,
        name: str,
        gate: Gate,
        call: PlannedRun,
        work: AheadWork,
        lines: AheadLines,
        facts: bytes,
        new_target: Callable[[], np.ndarray] | None,
        activity: LoopActivity,
        memory: dict[int, int],
        like: AheadRun | None = None,
    ):
        super().__init__(name, gate, call)
        self.operation, self.activity = operation, activity
        self.ahead, self._lines, self._facts, self._new_target = work, lines, facts, new_target
        self._keys: dict[str, int] = {}  # by threads
        self._memory = memory
        self._program: np.ndarray = self._program_words() if like is None else like.keep(like._program).copy()
        self._like = like  # whose memory for messages this run uses too
        self._program[ahead_at.KEY] = self._key("")
        lines.runs[kernels.address_of(self._program)] = self

    def again(self) -> AheadRun:
        """Another run of the same plan, to be prepared for arrays of one kind.  Local."""
        shared = self.ahead, self._lines, self._facts, self._new_target, self.activity, self._memory
        return AheadRun(self.operation, self.name, self.gate, self.call, *shared, self)

    def prepare(
        self, work: LoopWork, opening: Opening | None, headers: bytes, x: np.ndarray | None, out: np.ndarray | None
    ) -> None:
        self.opening, self._meeting = opening, self.call.meeting
        self._fill(self.ahead.work, _NO_HEADERS, x, out)
        if self._new_target is not None:
            self._describe(self.state[at.RUN_OUT :], out, True)
        self.state[at.RUN_AHEAD] = kernels.address_of(self._program)
        self.is_prepared = True

    def peers(self, outgoing: int) -> Sequence[int]:
        if outgoing and self.ahead.pieces is not None:
            return self.ahead.pieces.receivers
        return [each.peer for each in (self.ahead.sends if outgoing else self.ahead.receives)]

    def run(self, x: np.ndarray | None, out: np.ndarray | None, thread_name: str) -> np.ndarray | None:
        """Run on arrays that have been checked.  Members run it alike; see the class."""
        self._program[ahead_at.KEY] = self._key(thread_name)
        try:
            return self._finish(x, out, True)
        finally:
            self._program[ahead_at.KEY] = self._key("")

    def go_on(self, x: Any, out: np.ndarray | None, finish: Finish) -> Any:
        self._meeting.leave_loop()
        return self._finish(x, out, False)

    def end(self, operation: str, *arrays: object) -> NoReturn:
        self._meeting.leave_loop()
        try:
            self._lines.raise_for(at.ENDED, (self, *arrays))
        except BaseException as error:
            if not isinstance(error, SpmdError) or error.cuts_off:
                self.gate.cut_off(operation, error)
            raise

    def _finish(self, x: np.ndarray | None, out: np.ndarray | None, begins: bool) -> np.ndarray | None:
        given = None if x is None else np.require(x, requirements=("C", "A"))
        target = None
        if self._new_target is not None:
            target = self._new_target() if out is None or not out.flags.c_contiguous else out
        addresses = [0 if array is None else kernels.address_of(array) for array in (given, target)]
        code = kernels.run_ahead(self.address, *addresses, begins)
        if code == at.BUSY:
            where = "while a compiled loop of this process runs an operation of the same group"
            raise self.gate.refusal(self.call, where)
        if code != at.FINE:
            self._lines.raise_for(code, (self, given, target))
        if out is None or target is None or target is out:
            return target
        out[...] = target
        return out

    def _key(self, thread_name: str) -> int:
        """The number that says what is run; runs of threads with different names differ, as operations do."""
        if thread_name not in self._keys:
            digest = blake2b(self._facts + thread_name.encode(), digest_size=7).digest()
            key = self._keys[thread_name] = int.from_bytes(digest, "little") + 1
            thread = f" in thread {thread_name!r}" if thread_name else ""
            self._lines.texts[key] = f"{self.call.describe()}{thread}"
        return self._keys[thread_name]

    def _need(self, need: Need) -> list[int]:
        """The row of a line to read."""
        word = 0 if need.passed_to == 0 else ahead_at.LINE_PASSED
        lines, where = self._lines, need.passed_to or ahead_at.LINE_ARRAY - need.starts_at
        return [lines.near.index(need.member), need.source, lines.segment_of(need.member), word, where]

    def _program_words(self) -> np.ndarray:
        """The program for compiled code: see kernels/ahead/slots.py."""
        work, lines, posting = self.ahead, self._lines, self._lines.posting
        words = np.zeros(ahead_at.WORDS, np.int64)
        words[ahead_at.STATE], words[ahead_at.MEETING] = lines.address, lines.meeting.address
        received, sends, packs, passes = [], [], [], []
        copies: list[kernels.BoxRow] = []
        for sent in work.sends:
            address = self._message(sent.n_bytes)
            sends.append([sent.peer, address, sent.n_bytes, 0, 0])
            for source, rows in sent.packs:
                packs.append([source, len(copies), len(copies) + len(rows), address])
                copies += rows
        for taken in work.receives:
            where = self._words([[source] for source in taken.sources])
            if taken.opens_at is None:
                address = self._message(taken.n_bytes)
            else:
                address = self._memory[self.call.comm.rank] + taken.opens_at
            received.append([taken.peer, address, taken.n_bytes, len(taken.sources), where])
            if taken.passed_to:
                passes.append([address, taken.passed_to, taken.n_bytes])
        needs = [self._need(each) for each in work.needs]
        carries = [self._need(each) for each in work.carries]
        if work.pieces is not None:
            program = PieceProgram(work.pieces, lines, self._memory, self.call.comm.rank)
            words[ahead_at.PIECES] = self.keep(program).address
        words[ahead_at.SENDS], words[ahead_at.SEND_ROWS] = len(sends), self._words(sends)
        words[ahead_at.RECEIVES], words[ahead_at.RECEIVE_ROWS] = len(received), self._words(received)
        words[ahead_at.NEEDS], words[ahead_at.NEED_ROWS] = len(needs), self._words(needs)
        words[ahead_at.CARRIES], words[ahead_at.CARRY_ROWS] = len(carries), self._words(carries)
        words[ahead_at.PACKS], words[ahead_at.PACK_ROWS] = len(packs), self._words(packs)
        words[ahead_at.PASSES], words[ahead_at.PASS_ROWS] = len(passes), self._words(passes)
        words[ahead_at.POSTS], words[ahead_at.POST_BYTES] = work.posts, work.post_bytes
        words[ahead_at.POST_FROM] = work.post_from
        words[[ahead_at.POST_FIRST, ahead_at.POST_LAST]] = len(copies), len(copies) + len(work.post_rows)
        copies += work.post_rows
        table = self.keep(kernels.build_table(copies))
        words[ahead_at.TABLE], words[ahead_at.COLUMNS] = kernels.address_of(table), table.shape[1]
        handles = self.keep(np.zeros((len(sends) + len(received)) * posting.handle_bytes + 8, np.uint8))
        words[ahead_at.HANDLES], words[ahead_at.HANDLE_BYTES] = kernels.address_of(handles), posting.handle_bytes
        words[ahead_at.ISEND], words[ahead_at.IRECV] = posting.isend, posting.irecv
        words[ahead_at.IPROBE] = posting.iprobe
        words[ahead_at.DATATYPE], words[ahead_at.COMMUNICATOR] = posting.datatype, posting.comm
        words[ahead_at.ANY_TAG] = posting.tag
        return words

    def _message(self, n_bytes: int) -> int:
        """The address of memory for a message of ``n_bytes``."""
        return kernels.address_of(self.keep(np.zeros(n_bytes + 8, np.uint8)))

    def _words(self, rows: list[list[int]]) -> int:
        return kernels.address_of(self.keep(np.array(rows or [[0]], np.int64)))
