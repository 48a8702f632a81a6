"""Members of a node that run ahead of one another, run after run, as kernels/ahead/runs.py has it.

The functions are those of the package, run by the interpreter (see ``recorded``); there are no messages.  In each run
one member, the root, posts a word, which all others read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace

from support.protocols.recorded import WORD, Recorder, reread, small_slots
from support.protocols.weak_memory import Step


@cache
def recorded_runs(size: int, lines: int, roots: tuple[int, ...]) -> tuple[tuple[Step, ...], ...]:
    """Record the programs of ``size`` members, which have ``lines`` lines each, for one run with each of ``roots``."""
    recorder = Recorder(size)
    members = [_Member(recorder, rank, lines) for rank in range(size)]
    for member in members:
        member.joins(members)

    def live(rank: int) -> None:
        for number, root in enumerate(roots, 1):
            members[rank].run(number, root)

    recorder.run(live)
    return tuple(map(tuple, recorder.programs()))


class _Member:
    def __init__(self, recorder: Recorder, rank: int, lines: int):
        from spmd_grid.kernels.ahead import runs, slots
        from spmd_grid.kernels.protocol import sleeping

        self.recorder, self.rank, self.lines = recorder, rank, lines
        self.at = at = small_slots()
        self.ahead_at = ahead_at = SimpleNamespace(**vars(slots) | {"LINES": lines, "LINE_ARRAY": 2 * WORD})
        self.line_bytes = 3 * WORD
        words = {name: getattr(recorder, name) for name in ("load", "store", "store_release", "wait_for", "move")}
        words |= {
            "at": at,
            "ahead_at": ahead_at,
            "load_acquire": lambda address: recorder.words[address],
            "_LAG": lines // 2,
        }
        words["wake"] = reread(sleeping, words)["wake"]
        kernels = reread(runs, words)
        self._begin, self._go = kernels["begin_ahead"], kernels["go_ahead"]
        self.block = recorder.allocate(lines * 3, f"block {rank}")
        for turn in range(lines):
            for i, what in enumerate(("number", "key", "array")):
                recorder.names[self.block + turn * self.line_bytes + i * WORD] = f"{what} {rank}.{turn}"

    def joins(self, members: Sequence[_Member]) -> None:
        at, ahead_at, words = self.at, self.ahead_at, self.recorder.words
        self.state, self.meeting = (self.recorder.allocate(n) for n in (ahead_at.BLOCKS + len(members), at.BLOCKS))
        self.call, self.rows = self.recorder.allocate(at.RUN_WORDS), self.recorder.allocate(len(members))
        self._set(self.state, {at.MEMBERS: len(members), at.MEMBER: self.rank, at.LINE_BYTES: self.line_bytes})
        self._set(self.state, {ahead_at.BLOCKS + i: member.block for i, member in enumerate(members)})
        self._set(self.call, {at.RUN_ROWS: self.rows})
        self.programs = []
        for root in range(len(members)):  # of the plan with this root
            program, need = self.recorder.allocate(ahead_at.WORDS), self.recorder.allocate(ahead_at.NEED_WORDS)
            words[need], words[need + WORD] = root, root
            posts = ahead_at.OWN_ARRAY if root == self.rank else ahead_at.NO_ARRAY
            self._set(program, {ahead_at.STATE: self.state, ahead_at.MEETING: self.meeting, ahead_at.KEY: 10 + root})
            self._set(program, {ahead_at.POSTS: posts, ahead_at.POST_BYTES: WORD, ahead_at.NEED_ROWS: need})
            self._set(program, {ahead_at.NEEDS: int(root != self.rank)})
            self.programs.append(program)

    def _set(self, base: int, values: dict[int, int]) -> None:
        for slot, value in values.items():
            self.recorder.words[base + slot * WORD] = value

    def run(self, number: int, root: int) -> None:
        """A run, in which all read what the root has made for it."""
        x = self.recorder.allocate(1)
        self.recorder.words[x] = 1000 * number + root
        assert self._begin(self.call, self.programs[root], x, 0, True) == self.at.FINE
        assert self._go(self.call, self.programs[root], x, 0, True) == self.at.FINE
        if root != self.rank:
            array = self.recorder.words[self.rows + root * WORD]
            assert self.recorder.load(array) == 1000 * number + root
