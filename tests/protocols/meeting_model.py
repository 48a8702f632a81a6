"""Members of a group that meet in memory, round after round, as ops and exchange/agreement/meeting.py have them meet.

``meet``, ``depart`` and ``call_roll``, the copies, the fold and a reduction's second meeting are those of the package,
run by the interpreter (see ``recorded``).  Only what Python does between them with arrays is said anew here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace

import numpy as np
from support.protocols.recorded import WORD, Recorder, copy_words, reread, reread_function, small_slots, table_of
from support.protocols.weak_memory import Step

LINE, ROOM, LENT, NOTHING = "in the line", "in a room", "lent", "nothing"  # how a member brings its array


@cache
def recorded_rounds(size: int, rounds: tuple) -> tuple[tuple[Step, ...], ...]:
    """The programs of ``size`` members that do what ``rounds`` say: ("swap", how each brings its array), ..."""
    recorder = Recorder(size)
    members = [Member(recorder, rank) for rank in range(size)]
    for member in members:
        member.meets(members)

    def live(rank: int) -> None:
        for number, (what, *how) in enumerate(rounds, 1):
            getattr(members[rank], what)(number, *how)

    recorder.run(live)
    return tuple(map(tuple, recorder.programs()))


class Member:
    """One member: its block, its arrays, and the kernels of a meeting."""

    def __init__(self, recorder: Recorder, rank: int):
        from spmd_grid.kernels.protocol import meeting, sleeping, waits

        self.recorder, self.rank, self.size = recorder, rank, recorder.size
        self.at = at = small_slots()
        words = {name: getattr(recorder, name) for name in ("load", "store", "store_release", "wait_for", "move")}
        words["announce"] = reread(waits, words | {"at": at})["announce"]
        words["wake"] = reread(sleeping, words | {"at": at})["wake"]
        kernels = reread(meeting, words | {"at": at, "_HEADER_WORDS": at.FRAME_WORDS // 2})
        self._meet, self._depart, self._call_roll = kernels["meet"], kernels["depart"], kernels["call_roll"]
        self.fold, self._copy_rows = _fold(recorder), copy_words(recorder)
        self.line_bytes = at.LINE_ARRAY + 64
        self.block = recorder.allocate((2 * self.line_bytes + 128) // WORD, f"block {rank}")
        self.array = recorder.allocate(self.size, f"array {rank}")
        self.result = recorder.allocate(self.size, f"result {rank}")
        self.rooms = [recorder.allocate(1, f"room {rank}.{turn}") for turn in range(2)]
        self._name_words()

    def _name_words(self) -> None:
        at, names = self.at, self.recorder.names
        for turn in range(2):
            line = self.block + turn * self.line_bytes
            for i in range(at.LINE_ARRAY // WORD):
                names[line + i * WORD] = f"line {self.rank}.{turn}[{i}]"
            names[line + at.LINE_ARRAY] = f"array in line {self.rank}.{turn}"
        done = self.block + 2 * self.line_bytes
        names[done] = f"departed {self.rank}"
        names[done + 64] = f"roll {self.rank}"
        names[done + 72], names[done + 80] = f"brought {self.rank}.0", f"brought {self.rank}.1"

    def meets(self, members: Sequence[Member]) -> None:
        at, allocate = self.at, self.recorder.allocate
        self.state = allocate(at.BLOCKS + self.size)
        self.frame, self.all = allocate(at.FRAME_WORDS), allocate(self.size)
        for i in range(self.size):
            self.recorder.words[self.all + i * WORD] = 1
        self._set(at.MEMBERS, self.size)
        self._set(at.MEMBER, self.rank)
        self._set(at.LINE_BYTES, self.line_bytes)
        self._set(at.BLOCK_OFFSET, self.block)  # all lies in one segment, at address 0
        self._set(at.FRAME, self.frame)
        for slot in (at.HEADERS_SEEN, at.FRAMES_SEEN, at.LOCATIONS_SEEN):
            self._set(slot, allocate(2 * self.size * max(at.LOCATION_WORDS, at.FRAME_WORDS)))
        for i, member in enumerate(members):
            self._set(at.BLOCKS + i, member.block)

    def _get(self, slot: int) -> int:
        return self.recorder.words[self.state + slot * WORD]

    def _set(self, slot: int, value: int) -> None:
        self.recorder.words[self.state + slot * WORD] = value

    # -- as exchange/agreement/meeting.py ----------------------------------------------------------------------

    def post(self, how: str, value: int = 0, lent: int | None = None) -> SimpleNamespace:
        """A meeting to which this member brings a word, or lends what lies at ``lent``; where everybody's lie."""
        at, recorder, epoch = self.at, self.recorder, self._get(self.at.EPOCH) + 1
        for i in range(at.FRAME_WORDS):
            recorder.words[self.frame + i * WORD] = self.frame_word(epoch, i)
        array, n_bytes, offset, flags = 0, 0, -1, 0
        if how == LINE:
            array, n_bytes = recorder.allocate(1), WORD
            recorder.words[array] = value
        elif how == ROOM:
            made, offset = recorder.allocate(1), self.rooms[(epoch - 1) & 1]
            recorder.words[made] = value
            self._copy(made, offset, 1)
        elif how == LENT:
            offset, flags = lent, at.LENT
        found = self._meet(self.state, array, n_bytes, offset, flags)
        self.check_frames(epoch)
        return SimpleNamespace(offsets=self.places(epoch), lent=found & at.ANY_LENT, lends=flags & at.LENT)

    def frame_word(self, epoch: int, i: int) -> int:
        return _frame_word(self.rank, epoch, i)

    def check_frames(self, epoch: int) -> None:
        """All frames are those of this meeting."""
        at, turn = self.at, (epoch & 1) * self.size
        for i in range(self.size):
            frame = self._get(at.FRAMES_SEEN) + (turn + i) * WORD * at.FRAME_WORDS
            words = [self.recorder.words[frame + word * WORD] for word in range(at.FRAME_WORDS)]
            assert words == [_frame_word(i, epoch, word) for word in range(at.FRAME_WORDS)]

    def places(self, epoch: int) -> list[int]:
        """The places of all arrays, as they have been collected."""
        at = self.at
        first = self._get(at.LOCATIONS_SEEN) + (epoch & 1) * self.size * WORD * at.LOCATION_WORDS
        return [self.recorder.words[first + i * WORD * at.LOCATION_WORDS] for i in range(self.size)]

    def depart(self, frames: SimpleNamespace) -> None:
        assert self._depart(self.state, self.all if frames.lends else 0) == self.at.FINE

    # -- rounds --------------------------------------------------------------------------------------------------------

    def swap(self, number: int, hows: Sequence[str]) -> None:
        """All copy all arrays, as ops/movement/movement.py does; an owner rewrites its own before every round."""
        self._write(self.array, number)
        frames = self.post(hows[self.rank], _cell(self.rank, number, 0), self.array)
        for i in range(self.size):
            if hows[i] != NOTHING and i != self.rank:
                read = self.recorder.allocate(1)
                self._copy(frames.offsets[i], read, 1)
                assert self.recorder.load(read) == _cell(i, number, 0)
        if frames.lent:
            self.depart(frames)

    def roll(self, number: int, rounds: int) -> None:
        """Members call the roll, and all see the largest of the numbers that they bring."""
        brought = self._call_roll(self.state, rounds, _cell(self.rank, number, 0))
        assert brought == _cell(self.size - 1, number, 0)

    def reduce(self, number: int, root: int | None = None) -> None:
        """A reduction by memory; who has a result reads it, and rewrites it before the next round."""
        from spmd_grid.ops.reduction import slice_folding

        self._write(self.array, number)
        self._write(self.result, number + 500)
        has_result = root in (None, self.rank)
        target = Words(self.result) if has_result else None
        kind = slice_folding.SliceFolding
        run = reread_function(kind.run, {**vars(slice_folding), "flat_target": lambda target: (target, None)})
        run(self._reduction(kind, root), self.post(LENT, lent=self.array), None, target)
        if has_result:
            for i in range(self.size):
                total = sum(_cell(rank, number, i) for rank in range(self.size))
                assert self.recorder.load(self.result, i) == total

    def _write(self, address: int, number: int) -> None:
        made = self.recorder.allocate(self.size)
        for i in range(self.size):
            self.recorder.store(made, i, _cell(self.rank, number, i))
        self._copy(made, address, self.size)

    def _copy(self, source: int, target: int, n_words: int) -> None:
        self._copy_rows(*table_of(self.recorder, [(0, 0, n_words * WORD)]), 0, 1, source, target, 0)

    def _reduction(self, kind: type, root: int | None) -> SimpleNamespace:
        """The part of a reduction that its methods need, with arrays of a word per member."""

        def addresses(frames, arrays):
            return np.array(frames.offsets, np.int64)

        def folded(rows, out):
            self.fold(rows, 1, out.address, self.recorder.allocate(8))

        def spread(frames, parts, flat):
            for i in range(self.size):
                if i != self.rank:
                    self.recorder.store(flat.address, i, self.recorder.load(parts[i].address))

        def swapped(x, in_place=False):
            return self.post(LENT, lent=x.address) if x is not None else self.post(NOTHING)

        def words_of(frames):
            return [Words(offset) for offset in frames.offsets]

        meeting = SimpleNamespace(swap=swapped, depart=self.depart, reads_in_place=lambda x: True)
        made = SimpleNamespace(
            _call=SimpleNamespace(meeting=meeting),
            _dtype=np.dtype(np.int64),
            _root=root,
            _own=slice(self.rank, self.rank + 1),
            _addresses=addresses,
            _folding=SimpleNamespace(addresses=folded),
            _parts=SimpleNamespace(of=words_of),
            _root_result=SimpleNamespace(of=words_of),
            _spread_copies=SimpleNamespace(run=spread),
        )
        made._fold_at_root = lambda *args: kind._fold_at_root(made, *args)
        return made


class Words:
    """An array of words at an address."""

    def __init__(self, address: int):
        self.address = address

    def __getitem__(self, part: slice) -> Words:
        return Words(self.address + part.start * WORD)


def _cell(rank: int, number: int, i: int) -> int:
    return 1000 * number + 10 * rank + i + 1


def _frame_word(rank: int, epoch: int, i: int) -> int:
    return 1000 * epoch + 10 * rank + i


def _fold(recorder: Recorder) -> Callable:
    """The kernel of kernels/reduce/rows.py for sums of int64; it streams a large result past the caches."""
    from spmd_grid.kernels.reduce import rows as reduce

    class Cells:
        def __init__(self, address, n):
            self.address, self.n = address, n

        def __getitem__(self, i):
            return recorder.load(self.address, i)

        def __setitem__(self, i, value):
            recorder.store(self.address, i, value)

    def stream_rows(source, target, run, *loops):
        for at in range(0, run, WORD):
            recorder.stream(target + at, recorder.load(source + at))

    words = {
        "by_address": lambda *signature: lambda function: function,
        "load": lambda rows, i: rows[i],
        "carray": Cells,
        "pointer": lambda address, dtype: address,
        "combine": lambda operation, a, b: a + b,
        "stream_rows": stream_rows,
        "LINE": WORD,
        "move": recorder.move,
        "drain": recorder.drain,
    }
    fold = reread(reduce, words)["make"]("sum", "i8")
    return lambda rows, size, out, buffer: fold(rows, len(rows), size, out, buffer)
