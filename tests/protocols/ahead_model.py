"""Members of a node that run ahead of one another, run after run, as kernels/ahead has it.

The functions are those of the package, run by the interpreter (see ``recorded``); there are no messages.  In each run
one member, the root, has a word, which all others read: in the root's line, where it posts it at once or passes it on
as what it receives; or where a large array lies; or in a copy, for which a member has one place; or of which they take
a copy that the root has made in its memory, as of pieces that it receives for its node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace

from support.protocols.recorded import WORD, Recorder, reread, small_slots
from support.protocols.weak_memory import Step

IN_LINES, PASSED_ON, IN_PLACE, IN_COPIES, IN_PIECES = "in lines", "passed on", "in place", "in copies", "in pieces"


@cache
def recorded_runs(size: int, lines: int, roots: tuple[int, ...], way: str = IN_LINES) -> tuple[tuple[Step, ...], ...]:
    """Record the programs of ``size`` members, which have ``lines`` lines each, for one run with each of ``roots``."""
    recorder = Recorder(size)
    members = [_Member(recorder, rank, lines, way) for rank in range(size)]
    for member in members:
        member.joins(members)

    def live(rank: int) -> None:
        for number, root in enumerate(roots, 1):
            members[rank].run(number, root)

    recorder.run(live)
    return tuple(map(tuple, recorder.programs()))


class _Member:
    def __init__(self, recorder: Recorder, rank: int, lines: int, way: str):
        from spmd_grid.kernels.ahead import blocks, messages, pieces, runs, slots
        from spmd_grid.kernels.protocol import sleeping

        self.recorder, self.rank, self.lines, self.way = recorder, rank, lines, way
        self.at = at = small_slots()
        self.ahead_at = ahead_at = SimpleNamespace(
            **vars(slots) | {"LINES": lines, "LINE_PASSED": 2 * WORD, "LINE_ARRAY": 3 * WORD, "COPY_SLOTS": 1}
        )
        self.line_bytes = 4 * WORD

        def _reaches(address: int, value: int) -> bool:
            return recorder.wait_for(0, address, value, 0) == at.FINE

        words = {name: getattr(recorder, name) for name in ("load", "store", "store_release", "wait_for", "move")}
        words |= {
            "at": at,
            "ahead_at": ahead_at,
            "load_acquire": lambda address: recorder.words[address],
            "_await_word": recorder.await_word,
            "_LAG": lines // 2,
            "copy_at": lambda copy, table, columns, first, last, source, into, how: recorder.move(source, into, WORD),
            "fold_at": lambda fold, rows, count, n, into, buffer: recorder.move(recorder.words[rows], into, n * WORD),
        }
        words["wake"] = reread(sleeping, words)["wake"]
        for module in (blocks, messages):
            words |= {name: reread(module, words)[name] for name in module.__all__}
        words |= {name: reread(pieces, words | {"_reaches": _reaches})[name] for name in pieces.__all__}
        kernels = reread(runs, words)
        self._begin, self._go, self._end = kernels["begin_ahead"], kernels["go_ahead"], kernels["end_ahead"]
        self.block = recorder.allocate(lines * 4 + 16, f"block {rank}")
        for turn in range(lines):
            for i, what in enumerate(("number", "key", "passed", "array")):
                recorder.names[self.block + turn * self.line_bytes + i * WORD] = f"{what} {rank}.{turn}"
        self.is_in_lines = way in (IN_LINES, PASSED_ON)
        self.x = recorder.allocate(1) if self.is_in_lines else recorder.allocate(1, f"x {rank}")
        self.memory = recorder.allocate(1, f"memory {rank}")
        self.copies = recorder.allocate(1, f"copy {rank}")
        self.result = recorder.allocate(1)

    def joins(self, members: Sequence[_Member]) -> None:
        at, ahead_at = self.at, self.ahead_at
        self.state, self.meeting = (self.recorder.allocate(n) for n in (ahead_at.BLOCKS + len(members), at.BLOCKS))
        self.call, self.rows = self.recorder.allocate(at.RUN_WORDS), self.recorder.allocate(len(members))
        self._set(self.state, {at.MEMBERS: len(members), at.MEMBER: self.rank, at.LINE_BYTES: self.line_bytes})
        self._set(self.state, {ahead_at.BLOCKS + i: member.block for i, member in enumerate(members)})
        self._set(self.state, {ahead_at.SEGMENT_BYTES: 1 << 60, ahead_at.TESTS: 1 << 60, ahead_at.COPIES: self.copies})
        self._set(self.call, {at.RUN_ROWS: self.rows})
        self.programs = [self._program(root, members) for root in range(len(members))]

    def _program(self, root: int, members: Sequence[_Member]) -> int:
        """The program of the plan with this root."""
        ahead_at, is_root, in_pieces = self.ahead_at, root == self.rank, self.way == IN_PIECES
        program, need = self.recorder.allocate(ahead_at.WORDS), self.recorder.allocate(ahead_at.NEED_WORDS)
        self._set(need, {ahead_at.NEED_MEMBER: root, ahead_at.NEED_SOURCE: root, ahead_at.NEED_AT: ahead_at.LINE_ARRAY})
        posts = ahead_at.OWN_ARRAY if is_root and not in_pieces else ahead_at.NO_ARRAY
        if self.way == PASSED_ON:
            passed, posts = self.recorder.allocate(ahead_at.PASS_WORDS), ahead_at.NO_ARRAY
            self._set(
                passed, {ahead_at.PASS_FROM: self.x, ahead_at.PASS_AT: ahead_at.LINE_ARRAY, ahead_at.PASS_BYTES: WORD}
            )
            self._set(program, {ahead_at.PASSES: int(is_root), ahead_at.PASS_ROWS: passed})
            self._set(need, {ahead_at.NEED_WORD: ahead_at.LINE_PASSED})
        self._set(program, {ahead_at.STATE: self.state, ahead_at.MEETING: self.meeting, ahead_at.KEY: 10 + root})
        self._set(program, {ahead_at.POSTS: posts, ahead_at.POST_BYTES: WORD, ahead_at.NEED_ROWS: need})
        self._set(program, {ahead_at.NEEDS: int(not is_root and not in_pieces)})
        if not self.is_in_lines:
            self._set(program, {ahead_at.PIECES: self._pieces(root, members[root])})
        return program

    def _pieces(self, root: int, maker: _Member) -> int:
        """Root makes a piece or a copy of its array in its memory, if not in place; others take that, or the array."""
        ahead_at, recorder, in_pieces = self.ahead_at, self.recorder, self.way == IN_PIECES
        pieces = recorder.allocate(ahead_at.PIECE_WORDS)
        step, take, row = (recorder.allocate(n) for n in (ahead_at.STEP_WORDS, ahead_at.TAKE_WORDS, 2))
        self._set(pieces, {ahead_at.STEP_ROWS: step, ahead_at.TAKE_ROWS: take, ahead_at.INPUT_ROWS: row})
        self._set(pieces, {ahead_at.FOLDED: recorder.allocate(1), ahead_at.MEMORY: self.memory})
        self._set(row, {ahead_at.POSITION_SOURCE: ahead_at.IN_MEMORY, ahead_at.POSITION_AT: self.x})
        self._set(step, {ahead_at.LAST_INPUT: 1, ahead_at.FOLD_INTO: self.memory, ahead_at.ELEMENTS: 1})
        self._set(step, {ahead_at.MADE: 1})
        source, position = (ahead_at.IN_MEMORY, maker.memory) if in_pieces else (root, 0)
        self._set(take, {ahead_at.POSITION_SOURCE: source, ahead_at.POSITION_AT: position, ahead_at.TAKE_MEMBER: root})
        self._set(take, {ahead_at.TAKE_MADE: int(in_pieces), ahead_at.TAKE_LAST: 1})
        if root == self.rank:
            in_copies = self.way == IN_COPIES
            self._set(pieces, {ahead_at.LENT: int(not in_copies), ahead_at.COPIED: int(in_copies)})
            self._set(pieces, {ahead_at.STEPS: int(in_pieces)})
        else:
            self._set(pieces, {ahead_at.TAKES: 1, ahead_at.LAST_READ: 1})
        return pieces

    def _set(self, base: int, values: dict[int, int]) -> None:
        for slot, value in values.items():
            self.recorder.words[base + slot * WORD] = value

    def run(self, number: int, root: int) -> None:
        """A run, in which all read what the root has made for it."""
        program, recorder = self.programs[root], self.recorder
        if root == self.rank or self.is_in_lines:
            recorder.store(self.x, 0, 1000 * number + root)
        assert self._begin(self.call, program, self.x, True) == self.at.FINE
        assert self._go(self.call, program, self.x, self.result, True) == self.at.FINE
        if root != self.rank:
            array = self.recorder.words[self.rows + root * WORD] if self.is_in_lines else self.result
            assert recorder.load(array) == 1000 * number + root
        assert self._end(program, True) == self.at.FINE
