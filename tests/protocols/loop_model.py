"""Members of a group whose operations are compiled runs, round after round, as kernels/protocol/loop_run.py has them.

The functions are those of the package, run by the interpreter (see ``recorded``): the post of a run, its meeting, the
copies out of the lines, the relay, and the reads in place with what ends them.  In any round some members may be in
Python's operation instead, or in another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace

from meeting_model import LENT, LINE, NOTHING, Member
from relay_model import RelayMember
from support.protocols.recorded import WORD, Recorder, reread, table_of
from support.protocols.weak_memory import Step

SHORT, LONG, READ, TOLD, RELAYED, OTHER = "short", "long", "read", "told", "relayed", "other"
_WAYS = SHORT, LONG, READ, TOLD, RELAYED, OTHER
_RELAY, _FETCH = 1, 2  # in place of the addresses of courses
_PLENTY = 1 << 60


@cache
def recorded_loops(size: int, rounds: tuple, patient: bool = True) -> tuple[tuple[Step, ...], ...]:
    """The programs of ``size`` members that do what ``rounds`` say: (way of arrays, members in Python)."""
    from spmd_grid.exchange.agreement.relay import RING_BYTES, SLOT_BYTES

    recorder = Recorder(size)
    members = [LoopMember(recorder, rank, RING_BYTES // SLOT_BYTES) for rank in range(size)]
    for member in members:
        member.meets(members)

    def live(rank: int) -> None:
        for number, (way, in_python) in enumerate(rounds, 1):
            members[rank].operate(number, way, in_python, patient)

    recorder.run(live)
    return tuple(map(tuple, recorder.programs()))


class LoopMember(RelayMember):
    """A member with compiled runs, one for each way of arrays."""

    def __init__(self, recorder: Recorder, rank: int, slots: int):
        super().__init__(recorder, rank, slots)
        from spmd_grid.kernels.copy import fetching
        from spmd_grid.kernels.protocol import loop_run, meeting, sleeping, waits

        def claim(address: int) -> int:
            was, recorder.words[address] = recorder.words[address], 1
            return was

        def course(address: int, *arguments: int) -> int:
            return {_RELAY: self._relay, _FETCH: self._fetch}[address](*arguments)

        words = {name: getattr(recorder, name) for name in ("load", "store", "store_release", "wait_for", "move")}
        words |= {"at": self.at, "claim": claim, "call": course, "copy_at": self._copy_at, "this_thread": lambda: 0}
        words |= {"wait_a_while": lambda *word: recorder.wait_for(*word, 0) == self.at.FINE}
        words |= {"read_clock": lambda clock: None, "nanoseconds": lambda clock: 0, "read_all": lambda *_: 0}
        words["announce"] = reread(waits, words)["announce"]
        words["wake"] = reread(sleeping, words)["wake"]
        headers = {"_HEADER_WORDS": self.at.FRAME_WORDS // 2}
        meetings = reread(meeting, words | headers)
        self._collect = meetings["collect"]
        self._fetch = reread(fetching, words | {"_depart": meetings["depart"]})["fetch_course"]
        self._at_words = {way: self._slots_of(way) for way in _WAYS}
        self._run_once = {
            way: reread(loop_run, words | headers | {"at": at})["run_once"] for way, at in self._at_words.items()
        }

    def _slots_of(self, way: str) -> SimpleNamespace:
        """The words' slots, with arrays of a word as long ones where they are to be."""
        return SimpleNamespace(**vars(self.at) | ({"SHORT_BYTES": 0} if way == LONG else {}))

    def meets(self, members: Sequence[Member]) -> None:
        super().meets(members)
        self._runs = {way: self._run_for(way) for way in _WAYS}

    def _words(self, base: int, values: dict[int, int]) -> int:
        for slot, value in values.items():
            self.recorder.words[base + slot * WORD] = value
        return base

    def _run_for(self, way: str) -> int:
        """The run in which all arrays are gathered, of a word each."""
        at, size, allocate = self.at, self.size, self.recorder.allocate
        headers, ones = allocate(size), allocate(size)
        self._words(headers, {i: _header(way, i) for i in range(size)})
        self._words(ones, dict.fromkeys(range(size), 1))
        table, columns = table_of(self.recorder, [(0, i * WORD, WORD) for i in range(size)])
        firsts = self._words(allocate(size + 1), {i: i for i in range(size + 1)})
        run = self._words(
            allocate(at.RUN_WORDS),
            {
                at.RUN_MEETING: self.state,
                at.RUN_TOKENS: ones,
                at.RUN_BARRED: allocate(1),
                at.RUN_KEY: 2 + 2 * _WAYS.index(way),
                at.RUN_HEADERS: headers,
                at.RUN_ROWS: allocate(size),
                at.RUN_TABLE: table,
                at.RUN_COLUMNS: columns,
                at.RUN_FIRST: firsts,
                at.RUN_RELAY_COURSE: _RELAY,
                at.RUN_FETCH_COURSE: _FETCH,
            },
        )
        if way in (SHORT, LONG, OTHER):
            return self._words(run, {at.RUN_BYTES: WORD, at.RUN_SOURCES: size})
        if way == RELAYED:
            return self._words(run, {at.RUN_RELAY: self._gather(1)[0]})
        sources = allocate(size)
        fixed = {
            at.FETCH_STATE: self.state,
            at.FETCH_SOURCES: sources,
            at.FETCH_COPIES: size,
            at.FETCH_READERS: self.all,
        }
        rows, columns = table_of(self.recorder, [(0, i * WORD, WORD) for i in range(size)])
        self._words(rows, {i * columns + 2: i for i in range(size)})
        program = self._words(allocate(at.FETCH_WORDS), fixed | {at.FETCH_TABLE: rows, at.FETCH_COLUMNS: columns})
        self._words(run, {at.RUN_UNLESS_READ: ones})
        if way == READ:
            whole = {at.RUN_SEGMENT_BYTES: _PLENTY, at.RUN_BASES: allocate(size)}
            return self._words(run, {at.RUN_READ: program, **whole})
        ways = self._words(allocate(at.WAYS_WORDS), {at.WAYS_UNTIL: _PLENTY, at.WAYS_WAY: 1})
        return self._words(run, {at.RUN_FETCH: program, at.RUN_WAYS: ways})

    # -- rounds --------------------------------------------------------------------------------------------------------

    def operate(self, number: int, way: str, in_python: Sequence[int], patient: bool) -> None:
        """All gather all arrays; an owner rewrites its own before every round."""
        recorder, at, run = self.recorder, self.at, self._runs[way]
        shares = way in (READ, TOLD)
        x = self.array if shares else recorder.allocate(1)
        result = recorder.allocate(self.size + 1)
        if shares:
            self._write(x, number)
        else:
            recorder.words[x] = _cell(self.rank, number)
        if self.rank in in_python:
            self._by_python(way, x, result)
        else:
            code = self._run_once[way](run, x, result, patient)
            if code == at.OTHERS:  # Python goes on from the meeting, and finds an operation that is not its own
                assert way == OTHER
                assert self._collect(self.state) >= 0
                recorder.words[self.state + WORD * at.IN_USE] = 0
                self._take(self.places(self._get(at.EPOCH)), result)
            else:
                assert code == at.FINE
        expected = [_cell(i, number) for i in range(self.size)]
        assert [recorder.words[result + i * WORD] for i in range(self.size)] == expected, (way, self.rank)

    def _write(self, address: int, number: int) -> None:
        made = self.recorder.allocate(1)
        self.recorder.words[made] = _cell(self.rank, number)
        self._copy(made, address, 1)

    def _by_python(self, way: str, x: int, result: int) -> None:
        """The same operation, or in OTHER another one, as ops/movement/movement.py makes it."""
        self._header = _header(way, self.rank) + (way == OTHER)
        if way == RELAYED:
            self.post(NOTHING)
            assert self._relay(self._gather(1)[0], x, result) == self.at.FINE
            return
        lends = way in (READ, TOLD)
        frames = self.post(LENT if lends else LINE, self.recorder.words[x], x)
        self._take(frames.offsets, result)
        if frames.lent:
            self.depart(frames)

    def _take(self, offsets: Sequence[int], result: int) -> None:
        for i, offset in enumerate(offsets):
            self._copy(offset, result + i * WORD, 1)

    def frame_word(self, epoch: int, i: int) -> int:
        return self._header

    def check_frames(self, epoch: int) -> None:
        """Nothing is checked: headers are those of runs, and `operate` looks at the arrays."""


def _header(way: str, rank: int) -> int:
    return 1000 * (1 + _WAYS.index(way)) + 10 * rank


def _cell(rank: int, number: int) -> int:
    return 1000 * number + 100 * rank + 1
