"""A channel: one process's end of a fixed exchange of boxes with its neighbours, made once and run many times.

It turns boxes into what the compiled course (``kernels/course.py``) reads: one block of memory that neighbours of the
node see (lines, words, staging), message buffers and their wire for the others, and copy tables.  Whether two
neighbours meet in memory is agreed between the two when the channel is made; what they swap then is all that they
need to know of each other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from math import prod
from typing import NamedTuple

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import SpmdError, TransportError
from spmd_grid.exchange.agreement import encode_error, error_from
from spmd_grid.exchange.channel_rows import Moved, Taken, c_strides, copy_rows, n_runs
from spmd_grid.exchange.memory import flat_bytes
from spmd_grid.grid.cells import Cells
from spmd_grid.kernels import slots as at
from spmd_grid.transport.communicator import LARGEST_MESSAGE, Communicator, Process, tag_of
from spmd_grid.transport.wire import Messages, Requests, Straight
from spmd_grid.typing import Shape
from spmd_grid.watch.trace_loops import Form
from spmd_grid.watch.traffic import Traffic, group_name

__all__ = ["LINE_BYTES", "MIXED", "PACKED", "READ", "STAGED", "STRAIGHT", "Call", "Channel", "Taken"]

READ, STAGED, MIXED = "read", "staged", "mixed"  # by memory
PACKED, STRAIGHT = "packed", "straight"  # by message

LINE_BYTES = 128  # bytes that no two writers share: two cache lines, since processors fetch them in pairs
_MOST_TEXT = at.TEXT_BYTES - 64  # beside its length and the name of the error
_SHORT_BYTES = at.MESSAGE_HEAD + at.TEXT_BYTES

# Reading a neighbour's array pays for faces of at least this size in runs of at least this length.  Smaller ones, and
# those cut across the fastest dimension, come faster out of staging: the writer has them in its cache, and keeps them.
_READ_BYTES, _READ_RUN_BYTES = 1 << 20, 1 << 12


class Call(NamedTuple):
    """Certain arrays, as the compiled course knows them, at ``address``; the rest is kept alive for it."""

    address: int
    words: np.ndarray
    table: np.ndarray
    table_bytes: int
    shapes: list[np.ndarray]
    requests: Requests | None


class _Record(NamedTuple):
    """What a neighbour has told of its block; ``met``: both can see the other's; ``base``: of its memory, as seen."""

    words: np.ndarray
    met: bool
    base: int


class Channel:
    """One process's end of an exchange of ``dtypes`` arrays of local ``shape`` each.

    Collective over the neighbours.  ``into_shape``: that of the arrays that cells land in, where they are others than
    those they are given from.  ``gives``: (place, cells) in the order in which the taker lists them; ``takes``:
    what comes in, the own cells included; both by place.  ``fills``: (cells, one value per field).  ``memory``:
    whether neighbours may meet in memory; ``read_from``: from how many bytes on, in runs of how many, MIXED reads.
    ``lands``: False where what comes in is not copied by the course; then everything is staged, and `arrived` gives it.
    ``rounds``: the same cells cut into as many exchanges, alike on all members, of which the first stages most: where
    these are given, staging is no larger than one of them needs.
    """

    def __init__(
        self,
        comm: Communicator,
        shape: Shape,
        dtypes: Sequence[np.dtype],
        gives: Sequence[tuple[int, Cells]],
        takes: Sequence[Taken],
        fills: Sequence[tuple[Cells, Sequence]] = (),
        *,
        into_shape: Shape | None = None,
        memory: bool = True,
        lands: bool = True,
        read_from: tuple[int, int] = (_READ_BYTES, _READ_RUN_BYTES),
        rounds: Iterable[Moved] = (),
        activity=None,
    ):
        self.comm, self.shape, self.dtypes = comm, tuple(shape), tuple(dtypes)
        self.into_shape = self.shape if into_shape is None else tuple(into_shape)
        self._read_from = read_from
        me = comm.rank
        self.gives = {place: [c for _, c in group] for place, group in groupby(gives, lambda give: give[0])}
        self.takes = {place: list(group) for place, group in groupby(takes, lambda take: take.place)}
        self.own = self.takes.pop(me, [])
        self.gives.pop(me, None)
        self._rounds = rounds
        self.fills = list(fills)
        self.lands = lands
        self._is_retired = False
        close_retired(comm.process)
        comm.channels += 1
        self._number = comm.channels
        self._block = self._allocate(memory)
        swapped = self._swap_records()
        self.readers = [place for place in self.gives if swapped[place].met]
        self.sources = [place for place in self.takes if swapped[place].met]
        self.receives = [place for place in self.takes if not swapped[place].met]
        self.sends = [place for place in self.gives if not swapped[place].met]
        self._make_messages(activity)
        self._make_state(swapped)
        self._tables: dict = {}
        self.address = kernels.address_of(self._state)

    # -- what is agreed with neighbours ------------------------------------------------------------------------

    def _allocate(self, memory: bool) -> np.ndarray | None:
        """The block that neighbours see: two lines, a word per reader, twice the staging."""
        arena = self.comm.process.arena
        self._line_text = -(-8 * (at.POSTED_OFFSETS + len(self.dtypes)) // LINE_BYTES) * LINE_BYTES
        self._line_bytes = self._line_text + at.TEXT_BYTES
        self._words_at = 2 * self._line_bytes
        self._staging_at = self._words_at + LINE_BYTES * len(self.gives)
        self.parts, end = {}, 0
        for place, cells in next(iter(self._rounds), self).gives.items():
            self.parts[place] = end
            end += -(-self._bytes_of(cells) // LINE_BYTES) * LINE_BYTES
        self._staging_bytes = end
        if not memory or not (self.gives or self.takes):
            return None
        if all(arena.base_of(self.comm.processes[place]) is None for place in {*self.gives, *self.takes}):
            return None
        block = arena.allocate(self._staging_at + 2 * end)
        if block is not None:
            block[: self._staging_at] = 0
        return block

    def _swap_records(self) -> dict[int, _Record]:
        """What each neighbour tells this process about its block.  Collective over the neighbours."""
        comm, arena = self.comm, self.comm.process.arena
        neighbours = sorted({*self.gives, *self.takes})
        words = {place: i for i, place in enumerate(self.gives)}
        requests, received, sent = [], {}, []
        for place in neighbours:
            received[place] = np.zeros(8, np.int64)
            requests += comm.irecv(flat_bytes(received[place]), place, tag_of("records of channels"))
        for place in neighbours:
            record = np.zeros(8, np.int64)
            base = arena.base_of(comm.processes[place])
            if self._block is not None and base is not None:
                start = arena.offset_of(kernels.address_of(self._block), self._block.nbytes)
                staging = start + self._staging_at + self.parts.get(place, 0)
                word = start + self._words_at + LINE_BYTES * words.get(place, 0)
                record[:6] = 1, start, self._line_bytes, staging, self._staging_bytes, word
            sent.append(record)
            requests += comm.isend(flat_bytes(record), place, tag_of("records of channels"))
        comm.wait_all(requests)
        return {
            place: _Record(received[place], bool(mine[0] and received[place][0]), self._base_of(place))
            for place, mine in zip(neighbours, sent)
        }

    def _base_of(self, place: int) -> int:
        base = self.comm.process.arena.base_of(self.comm.processes[place])
        return -1 if base is None else base

    def _make_messages(self, activity) -> None:
        def buffer(cells) -> np.ndarray:
            return np.zeros(max(at.MESSAGE_HEAD + self._bytes_of(cells), _SHORT_BYTES), np.uint8)

        self._incoming = {place: buffer([take.target for take in self.takes[place]]) for place in self.receives}
        self._outgoing = {place: buffer(self.gives[place]) for place in self.sends}
        shorts = [(place, self._outgoing[place][:_SHORT_BYTES]) for place in self.sends]
        self.wire = self.comm.wire(
            Messages(list(self._incoming.items()), list(self._outgoing.items()), shorts),
            self.sources,
            self.readers,
            self._number,
            lambda: int(self._state[at.EPOCH]),
            activity,
        )

    # -- what the compiled course reads ------------------------------------------------------------------------

    def _make_state(self, swapped: dict[int, _Record]) -> None:
        """All rows of the state; the numbers of table rows follow the order of `copy_rows`."""
        n_fields = len(self.dtypes)
        sizes = (len(self.sources), at.SOURCE_WORDS), (len(self.readers), at.READER_WORDS)
        sizes += (len(self.receives), at.MESSAGE_WORDS), (len(self.sends), at.MESSAGE_WORDS)
        n_words = at.HEADER_WORDS + sum(n * words for n, words in sizes)
        self._state = state = np.zeros(n_words + 8, np.int64)
        row, word = 0, at.HEADER_WORDS
        self._source_rows, self._reader_rows, self._segments = {}, {}, {}

        state[at.N_SOURCES], state[at.SOURCES] = len(self.sources), word
        for place in self.sources:
            record, n = swapped[place], len(self.takes[place])
            base, (_, start, line_bytes, staging, staging_bytes, done, _, _) = record.base, record.words
            words = base + start, line_bytes, base, base + staging, staging_bytes, base + done, row, n
            state[word : word + at.SOURCE_WORDS] = words
            self._source_rows[place], self._segments[place] = word, base
            word, row = word + at.SOURCE_WORDS, row + 2 * n * n_fields

        state[at.N_READERS], state[at.READERS] = len(self.readers), word
        block = 0 if self._block is None else kernels.address_of(self._block)
        numbers = {place: i for i, place in enumerate(self.gives)}
        for place in self.readers:
            n, one_way = len(self.gives[place]), place not in self.sources
            done = block + self._words_at + LINE_BYTES * numbers[place]
            state[word : word + at.READER_WORDS] = done, 0, one_way, row, n
            self._reader_rows[place] = word
            word, row = word + at.READER_WORDS, row + n * n_fields

        for count, first, places, buffers, pieces in (
            (at.N_RECEIVES, at.RECEIVES, self.receives, self._incoming, self.takes),
            (at.N_SENDS, at.SENDS, self.sends, self._outgoing, self.gives),
        ):
            state[count], state[first] = len(places), word
            for place in places:
                n = len(pieces[place])
                state[word : word + at.MESSAGE_WORDS] = kernels.address_of(buffers[place]), row, n
                word, row = word + at.MESSAGE_WORDS, row + n * n_fields

        state[at.OWN], state[at.N_OWN] = row, len(self.own)
        state[at.FILL], state[at.N_FILL] = row + len(self.own) * n_fields, len(self.fills)
        self._constants = np.zeros(0, np.uint8)
        if self.fills:
            cells = [values[f].astype(dtype) for f, dtype in enumerate(self.dtypes) for _, values in self.fills]
            self._constants = np.concatenate([flat_bytes(cell) for cell in cells])
        state[at.CONSTANTS] = kernels.address_of(self._constants)

        state[at.N_FIELDS], state[at.NDIM] = n_fields, len(self.shape)
        state[at.LINES], state[at.LINE_BYTES] = block, self._line_bytes
        state[at.STAGING], state[at.STAGING_BYTES] = block + self._staging_at, self._staging_bytes
        wire = self.wire
        state[at.START_MESSAGES], state[at.TEST_MESSAGES] = wire.start, wire.test
        for (address, number), slot, count in zip(
            wire.requests,
            (at.REQUESTS_IN, at.REQUESTS_OUT, at.REQUESTS_SHORT),
            (at.COUNT_IN, at.COUNT_OUT, at.COUNT_SHORT),
        ):
            state[slot], state[count] = address, number
        state[at.STATUSES], state[at.FLAG] = wire.statuses, kernels.address_of(state) + 8 * n_words
        state[at.ON_WAIT], state[at.ON_POST] = wire.on_wait, wire.on_post
        state[at.WENT_ON] = kernels.address_of(wire.went_on)
        state[at.POLLS], state[at.YIELDS] = wire.polls, wire.yields
        state[at.COURSE], state[at.COPY] = kernels.course_address, kernels.copy_address
        state[at.ARRAY_WORDS] = kernels.ARRAY_WORDS
        self._text = np.zeros(at.TEXT_BYTES, np.uint8)
        state[at.TEXT], state[at.LINE_TEXT] = kernels.address_of(self._text), self._line_text
        self.choose(MIXED if self.lands else STAGED)
        self.choose(PACKED)

    def choose(self, mode: str) -> None:
        """How cells go: READ from neighbours' arrays, STAGED by them, or MIXED by size and shape; and in messages,
        PACKED by this package, or STRAIGHT from the arrays by MPI's datatypes.

        Local; alike on all members, and not while an exchange is under way.
        """
        if mode in (PACKED, STRAIGHT):
            self.message_mode = mode  # of calls made from now on
            return
        self.mode = mode
        for place, word in self._source_rows.items():
            cells = [take.source for take in self.takes[place]]
            reads = self._reads(mode, cells, self.takes[place][0].source_shape)
            self._state[word + at.S_SEGMENT] = self._segments[place] if reads else -1
        for place, word in self._reader_rows.items():
            self._state[word + at.R_STAGED] = not self._reads(mode, self.gives[place], self.shape)

    def _reads(self, mode: str, cells: Sequence[Cells], shape: Shape) -> bool:
        """Whether a reader copies from the array; both sides come to the same answer."""
        if mode != MIXED:
            return mode == READ
        n_bytes = self._bytes_of(cells)
        runs = sum(n_runs(each, shape) for each in cells) * len(self.dtypes)
        least, least_run = self._read_from
        return n_bytes >= least and n_bytes >= least_run * runs

    @property
    def staging_bytes(self) -> int:
        """What it holds for cells that are packed for neighbours who see this process's memory."""
        return 0 if self._block is None else 2 * self._staging_bytes

    def way_to(self, place: int) -> str:
        """How cells go to and from a neighbour, in words.  Local."""
        if place in self.receives or place in self.sends:
            return "by message"
        reads = place in self._source_rows and self._state[self._source_rows[place] + at.S_SEGMENT] >= 0
        lends = place in self._reader_rows and not self._state[self._reader_rows[place] + at.R_STAGED]
        return "by memory, " + ("read in place" if reads or lends else "staged")

    def traffic(self) -> Traffic:
        """Its part of a trace: neighbours wait for one another, and for nobody else."""
        processes = self.comm.processes
        sent = {processes[place]: self._bytes_of(cells) for place, cells in self.gives.items()}
        neighbours = sorted({*self.gives, *self.takes})
        ways = dict.fromkeys(self.way_to(place) for place in neighbours)
        awaits = tuple([processes[place] for place in neighbours])
        series = f"channel {self._number} of {group_name(processes)}"
        return Traffic(sent, " and ".join(ways), series, awaits, self.epoch)

    # -- calls -------------------------------------------------------------------------------------------------

    def call(
        self,
        fields: Sequence[np.ndarray | None],
        into: Sequence[np.ndarray | None] | None = None,
        in_rounds: bool = False,
    ) -> Call:
        """What the course has to know of these arrays, which the caller keeps alive; None: one that a loop brings.

        Local.  ``into``: the arrays that cells land in, by default the same; then the course makes sure, at every
        exchange, that each is what it is now.  Where one is in the memory of the field itself, all that it gives is
        packed before anything lands.  ``in_rounds``: for `run_round`, whose arrays must not share memory.
        """
        arena, same = self.comm.process.arena, into is None
        into = fields if same else into
        lent = [same or x is None or not np.may_share_memory(x, y) for x, y in zip(fields, into)]
        sides = _strides(fields, self.shape, self.dtypes), _strides(into, self.into_shape, self.dtypes)
        table, table_bytes = self._table(*sides, in_rounds)
        call = np.zeros(at.CALL_FIELDS + at.FIELD_WORDS * len(fields), np.int64)
        call[at.CALL_TABLE], call[at.CALL_COLUMNS] = kernels.address_of(table), table.shape[1]
        shapes: list[np.ndarray] = []
        for f, x in enumerate(fields):
            word = at.CALL_FIELDS + f * at.FIELD_WORDS
            if x is None:
                call[word + at.F_OFFSET] = -1
                continue
            call[word + at.F_ADDRESS] = address = kernels.address_of(x)
            call[word + at.F_INTO] = address if same else kernels.address_of(into[f])
            readable = lent[f] and x.flags.c_contiguous
            call[word + at.F_OFFSET] = arena.offset_of(address, x.nbytes) if readable else -1
            if same and kernels.ARRAY_WORDS:
                shapes.append(np.array([*x.shape, *x.strides, 0], np.int64))
                call[word + at.F_OBJECT], call[word + at.F_DTYPE] = id(x), id(x.dtype)
                call[word + at.F_SHAPE] = kernels.address_of(shapes[-1])
        requests = None
        if self.sends and self.message_mode == STRAIGHT and all(lent):
            requests = self._straight(fields)
        if requests is not None:
            call[at.CALL_REQUESTS], call[at.CALL_COUNT] = requests.address, requests.count
        return Call(kernels.address_of(call), call, table, table_bytes, shapes, requests)

    @cached_property
    def _bare_call(self) -> Call:
        """That of no arrays: compiled loops fill in theirs, and who refuses has none to bring."""
        nothing = [None] * len(self.dtypes)
        return self.call(nothing, nothing)

    def _table(self, given: tuple, taking: tuple, in_rounds: bool) -> tuple[np.ndarray, int]:
        """The copy table for arrays of these strides, one after the other those of all rounds; bytes of each."""
        found = self._tables.get((given, taking, in_rounds))
        if found is None:
            if len(self._tables) > 64:
                self._tables.clear()
            rounds = list(self._rounds) if in_rounds else [Moved(self.gives, self.takes, self.own)]
            table = kernels.build_table([row for each in rounds for row in copy_rows(self, each, given, taking)])
            found = self._tables[given, taking, in_rounds] = table, table.nbytes // len(rounds)
        return found

    def _straight(self, fields: Sequence[np.ndarray | None]) -> Requests | None:
        """Sends straight from ``fields``, where they are known.  Local."""
        if any(x is None for x in fields) or any(len(buffer) > LARGEST_MESSAGE for buffer in self._outgoing.values()):
            return None
        messages = []
        for place in self.sends:
            cells = [
                (kernels.address_of(x) + each.offset(x.strides), each.shape, each.strides(x.strides), x.itemsize)
                for x in fields
                for each in self.gives[place]
            ]
            messages.append(Straight(place, self._outgoing[place][: at.MESSAGE_HEAD], cells))
        return self.wire.straight_sends(messages)

    # -- running -----------------------------------------------------------------------------------------------

    def run(self, what: int, call: Call | None = None) -> int:
        """Runs parts of the course; how it ended.  Collective over the neighbours."""
        return kernels.run_course(what, self.address, 0 if call is None else call.address)

    def run_round(self, number: int, call: Call) -> None:
        """Runs one of the rounds, in order.  Collective over the neighbours."""
        call.words[at.CALL_TABLE] = kernels.address_of(call.table) + number * call.table_bytes
        if self.run(at.UPDATE, call):
            self.raise_ended()

    def hold(self, held: bool) -> None:
        """Between the start of an exchange and the wait for it there is no other.  Local."""
        self._state[at.HELD] = held

    def refuse(self, error: SpmdError) -> None:
        """Takes part in an exchange in which this process has to refuse: all neighbours raise ``error``."""
        self.begin_refusing(error)
        code = self.run(at.UPDATE, self._bare_call)
        self.end_refusing()
        if code == at.ENDED:
            self.raise_ended()

    def begin_refusing(self, error: SpmdError) -> None:
        """Makes the next exchange one in which this process refuses.  Local."""
        text = encode_error(error)
        self._text[:8].view(np.int64)[0] = len(text)
        self._text[8 : 8 + len(text)] = np.frombuffer(text, np.uint8)
        self._state[at.REFUSED] = 1

    def end_refusing(self) -> None:
        self._state[at.REFUSED] = 0

    def refusal(self) -> SpmdError | None:
        """The error of the neighbour that refused the last exchange.  Local."""
        if not self._state[at.CULPRIT]:
            return None
        length = int(self._text[:8].view(np.int64)[0])
        return error_from(self._text[8 : 8 + length].tobytes())

    def raise_ended(self) -> None:
        """Raises why a wait was given up."""
        self.wire.raise_error()
        raise TransportError(
            "an exchange with neighbours failed: MPI could not carry its messages, or a signal interrupted it"
        )

    @property
    def epoch(self) -> int:
        """How many exchanges have begun."""
        return int(self._state[at.EPOCH])

    @property
    def confirmed(self) -> range:
        """The last exchanges of which all neighbours have said that they copied their cells; empty where not all can.

        Local.  Neighbours say it when they come to the next one.
        """
        all_answer = self.gives.keys() <= self.takes.keys()
        return range(int(self._state[at.MISSED_BY]) + 1, self.epoch) if all_answer else range(0)

    @property
    def phase(self) -> int:
        return int(self._state[at.PHASE])

    def waits(self) -> list:
        """What an exchange under way waits for, as requests.  Local."""
        state, epoch = self._state.tolist(), self.epoch
        if state[at.PHASE] == at.BEGUN:
            rows = [self._source_rows[place] for place in self.sources]
            lines = [state[row + at.S_LINES] + (epoch & 1) * state[row + at.S_LINE_BYTES] for row in rows]
            return self.wire.waits([(line, epoch, i) for i, line in enumerate(lines)])
        if state[at.PHASE] == at.LEFT and state[at.LENDS]:
            rows = [self._reader_rows[place] for place in self.readers]
            return self.wire.waits([(state[row + at.R_DONE], epoch, -2 - i) for i, row in enumerate(rows)])
        return []

    def let_loops_in(self, refuse: Callable[[int, int, int], None], welcome: bool, form: Form | None) -> None:
        """Tells compiled loops what they must bring, whom to call when they do not, and what to note.  Local."""
        state, word = self._state, ctypes.c_int64
        state[at.LOOP_CALL] = self._bare_call.address
        state[at.REFUSE] = self.wire.callback(refuse, word, word, word, word)
        state[at.LOOPS_WELCOME] = welcome
        state[at.LOOP_COURSE] = kernels.course_address
        if form is not None:
            state[at.FORM], state[at.LOOP_COURSE] = self._lay_out(form), kernels.traced_course_address
        state[at.EXTENTS : at.EXTENTS + len(self.shape)] = self.shape
        state[at.SEGMENT], state[at.SEGMENT_BYTES] = self.comm.process.arena.own_segment()
        for f, dtype in enumerate(self.dtypes):
            self._bare_call.words[at.CALL_FIELDS + f * at.FIELD_WORDS + at.F_DTYPE] = at.dtype_word(dtype)

    def _lay_out(self, form: Form) -> int:
        """The address of a form as the compiled course reads it.  Local."""
        text, words = np.frombuffer(bytearray(form.text), np.uint8), np.zeros(at.FORM_WORDS, np.int64)
        self.wire.keep((text, words, form.file))
        words[at.FORM_TEXT] = start = kernels.address_of(text)
        words[at.FORM_BYTES], words[at.FORM_BLANK] = len(text), form.width
        words[[at.FORM_BEGAN, at.FORM_TOOK, at.FORM_TURN]] = [start + blank for blank in form.blanks]
        words[at.FORM_FILE] = kernels.address_of(form.file)
        return kernels.address_of(words)

    def arrived(self) -> Iterator[tuple[int, list[list[np.ndarray]]]]:
        """What has come in from each neighbour, by place, then field, then piece: views of staging.  Local."""
        parity = self.epoch & 1
        for place in sorted(self.takes):
            shapes = [take.target.shape for take in self.takes[place]]
            if place in self._source_rows:
                word = self._source_rows[place]
                address = self._state[word + at.S_STAGING] + parity * self._state[word + at.S_STAGING_BYTES]
                flat = kernels.bytes_at(int(address), self._bytes_of([take.target for take in self.takes[place]]))
            else:
                flat = self._incoming[place][at.MESSAGE_HEAD :]
            start, fields = 0, []
            for dtype in self.dtypes:
                pieces = []
                for shape in shapes:
                    n = prod(shape) * dtype.itemsize
                    pieces.append(np.ndarray(shape, dtype, flat, start))
                    start += n
                fields.append(pieces)
            yield place, fields

    def retire(self) -> None:
        """Gives it up: it is closed at the next occasion.  Local; may be called from anywhere, and again."""
        if not self._is_retired:
            self._is_retired = True
            self.comm.process.retired.append(self)

    def close(self) -> bool:
        """Gives back what it holds, once nothing is under way and no neighbour reads its block; whether it has.

        Local.
        """
        if self.phase != at.IDLE:
            return False
        words = [self._state[word + at.R_DONE] for word in self._reader_rows.values()]
        if any(kernels.bytes_at(word, 8).view(np.int64)[0] < self.epoch for word in words):
            return False
        self.wire.close()
        self._block = None
        return True

    def _bytes_of(self, cells: Sequence[Cells]) -> int:
        return sum(prod(each.shape) for each in cells) * sum(dtype.itemsize for dtype in self.dtypes)


def _strides(fields: Sequence[np.ndarray | None], shape: Shape, dtypes: Sequence[np.dtype]) -> tuple:
    """The strides of each field; those of a C-contiguous array for one that is not known."""
    return tuple(c_strides(shape, dtype.itemsize) if x is None else x.strides for x, dtype in zip(fields, dtypes))


def close_retired(process: Process) -> None:
    """Closes the channels that have been given up, as far as neighbours have finished with them.  Local."""
    for channel in tuple(process.retired):
        if channel.close():
            process.retired.remove(channel)


def shortened(text: str) -> str:
    """``text``, its middle left out where it is too long to travel with a refusal.

    >>> shortened("x" * 2000) == "x" * 450 + " ... " + "x" * 450
    True
    """
    if len(text.encode()) <= _MOST_TEXT:
        return text
    keep = 450
    while len(f"{text[:keep]} ... {text[-keep:]}".encode()) > _MOST_TEXT:
        keep -= 25
    return f"{text[:keep]} ... {text[-keep:]}"
