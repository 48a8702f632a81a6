"""Neighbours that exchange by memory, round after round, on the compiled course (kernels/protocol/course.py).

The course and its copies are the package's, run by the interpreter (see ``recorded``); here the states are laid out,
as exchange/channel/state.py does it, with an array of one word per process and reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from support.protocols.recorded import WORD, Recorder, copy_words, reread, small_slots, table_of
from support.protocols.weak_memory import Step

STAGED, LENT, REFUSED, UNCHANGED = "staged", "lent", "refused", "unchanged"  # what a process does in a round


@dataclass(frozen=True)
class Pair:
    """``reader`` reads what ``source`` gives; ``staged``: never where it lies."""

    source: int
    reader: int
    staged: bool = False


@cache
def recorded_rounds(
    pairs: tuple[Pair, ...], rounds: tuple[tuple[str, ...], ...], pokes: bool = False
) -> tuple[tuple[Step, ...], ...]:
    """The programs of neighbours that do what ``rounds`` say of each; ``pokes``: in parts, with pokes between."""
    size = len(rounds[0])
    recorder = Recorder(size)
    neighbours = [Neighbour(recorder, rank, pairs) for rank in range(size)]
    for neighbour in neighbours:
        neighbour.meets(neighbours)

    def live(rank: int) -> None:
        for number, does in enumerate(rounds, 1):
            neighbours[rank].update(number, does, pokes)

    recorder.run(live)
    return tuple(map(tuple, recorder.programs()))


class Neighbour:
    """One process: its lines, words, staging and array, and the state of its channel."""

    def __init__(self, recorder: Recorder, rank: int, pairs: Sequence[Pair]):
        from spmd_grid.kernels.protocol import course, unchanged_arrays, waits

        self.recorder, self.rank, self.at = recorder, rank, small_slots()
        words = {name: getattr(recorder, name) for name in ("load", "store", "store_release", "wait_for")}
        words["load_acquire"] = lambda address: recorder.words[address]  # of pokes; waits have their own
        copy_rows = copy_words(recorder)
        words["copy_at"] = lambda function, *args: copy_rows(*args)
        words["at"] = self.at
        words["announce"] = reread(waits, words)["announce"]
        arrays = reread(unchanged_arrays, words)
        words |= {name: arrays[name] for name in unchanged_arrays.__all__}
        self._course = reread(course, words)["course"]
        self.sources = [pair for pair in pairs if pair.reader == rank]
        self.readers = [pair for pair in pairs if pair.source == rank]
        readers = len(self.readers)
        self.array = recorder.allocate(max(readers, 1), f"array {rank}")
        self.halo = recorder.allocate(max(len(self.sources), 1))
        self.lines = [recorder.allocate(16, f"line {rank}.{turn}") for turn in range(2)]
        self.staging = [recorder.allocate(readers, f"staging {rank}.{turn}") for turn in range(2) if readers]
        self.done = {pair.reader: recorder.allocate(1, f"done {rank} by {pair.reader}") for pair in self.readers}

    def meets(self, neighbours: Sequence[Neighbour]) -> None:
        at, recorder = self.at, self.recorder
        sources, readers = at.HEADER_WORDS, at.HEADER_WORDS + at.SOURCE_WORDS * len(self.sources)
        self.state = recorder.allocate(readers + at.READER_WORDS * len(self.readers))
        rows = []
        for i, pair in enumerate(self.readers):
            other = [each.source for each in self.sources]
            words = {
                at.R_DONE: self.done[pair.reader],
                at.R_STAGED: pair.staged,
                at.R_ONE_WAY: pair.reader not in other,
                at.R_ROWS: len(rows),
                at.R_PIECES: 1,
            }
            self._set_all({readers + i * at.READER_WORDS + slot: value for slot, value in words.items()})
            rows.append((i * WORD, i * WORD, WORD))
        for i, pair in enumerate(self.sources):
            source = neighbours[pair.source]
            place = source.readers.index(pair)
            words = {
                at.S_LINES: source.lines[0],
                at.S_LINE_BYTES: source.lines[1] - source.lines[0],
                at.S_SEGMENT: -1 if pair.staged else 0,
                at.S_STAGING: source.staging[0] + place * WORD,
                at.S_STAGING_BYTES: source.staging[1] - source.staging[0],
                at.S_DONE: source.done[self.rank],
                at.S_ROWS: len(rows),
                at.S_PIECES: 1,
            }
            self._set_all({sources + i * at.SOURCE_WORDS + slot: value for slot, value in words.items()})
            rows += [(place * WORD, i * WORD, WORD), (0, i * WORD, WORD)]
        staging = self.staging or [0, 0]
        words = {
            at.N_FIELDS: 1,
            at.LINES: self.lines[0],
            at.LINE_BYTES: self.lines[1] - self.lines[0],
            at.STAGING: staging[0],
            at.STAGING_BYTES: staging[1] - staging[0],
            at.N_SOURCES: len(self.sources),
            at.SOURCES: sources,
            at.N_READERS: len(self.readers),
            at.READERS: readers,
        }
        self._set_all(words)
        self.call = recorder.allocate(at.CALL_FIELDS + at.FIELD_WORDS)
        self.table, self.columns = table_of(recorder, rows)

    def _set_all(self, words: dict[int, int]) -> None:
        self.recorder.words.update({self.state + slot * WORD: value for slot, value in words.items()})

    def update(self, number: int, does: Sequence[str], pokes: bool = False) -> None:
        """An update as HaloExchange makes it, of an array that its owner has rewritten since the last one."""
        at, recorder, mine = self.at, self.recorder, does[self.rank]
        for i in range(len(self.readers)):
            recorder.store(self.array, i, _cell(self.rank, number, i))
        words = [self.table, self.columns, mine == UNCHANGED, 0, 0]
        words += [self.array, self.array if mine == LENT else -1, 0, 0, 0, self.halo]
        recorder.words.update({self.call + i * WORD: word for i, word in enumerate(words)})
        self._set_all({at.REFUSED: mine == REFUSED})
        for i in range(len(self.sources)):
            recorder.words[self.halo + i * WORD] = 0
        code = at.FINE
        for part in (at.BEGIN, at.ARRIVE, at.LAND, at.LEAVE, at.PART) if pokes else (at.UPDATE,):
            code = code or self._course(part, self.state, self.call)
            assert not pokes or self._course(at.POKE, self.state, 0) in (0, 1)

        culprits = [pair.source for pair in self.sources if does[pair.source] == REFUSED]
        refused = mine == REFUSED or bool(culprits)
        assert code == (at.REFUSED_BY if refused else at.FINE)
        for i, pair in enumerate(self.sources):
            told = recorder.words[self._row_of(pair) + at.S_REFUSED * WORD]
            assert (told == number) == (pair.source in culprits)
            given = not refused and does[pair.source] != UNCHANGED
            cell = _cell(pair.source, number, self._place_at(pair))
            assert recorder.words[self.halo + i * WORD] == (cell if given else 0)

    def _place_at(self, pair: Pair) -> int:
        """The word of its source's array that a pair is for."""
        first = self.recorder.words[self._row_of(pair) + self.at.S_ROWS * WORD]
        return self.recorder.words[self.table + first * self.columns * WORD] // WORD

    def _row_of(self, pair: Pair) -> int:
        """The address of the row of a source in the state."""
        return self.state + (self.at.HEADER_WORDS + self.sources.index(pair) * self.at.SOURCE_WORDS) * WORD


def _cell(rank: int, number: int, i: int) -> int:
    return 1000 * number + 10 * rank + i + 1
