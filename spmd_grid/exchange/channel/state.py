"""The state of a channel: the words that its compiled course reads, laid out once, with a row per neighbour.

The slots are those of ``kernels/protocol/slots.py``; the numbers of table rows follow the order of ``table_rows``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from itertools import chain
from math import prod

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.channel.copy_table import ChannelParts
from spmd_grid.exchange.channel.shared_block import NeighbourRecord
from spmd_grid.exchange.transfer.flat_bytes import flat_bytes
from spmd_grid.kernels.copy.tables import ALWAYS, BY_SIZE, STREAM_FROM
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.wire import Wire
from spmd_grid.watch.trace.loops import Form

__all__ = ["ChannelState"]


class ChannelState:
    """The state of ``channel``: ``words``, at ``address``.

    ``records``: those of its neighbours; ``incoming``, ``outgoing``: the messages from and to the neighbours with
    which it does not exchange in memory.
    """

    def __init__(
        self,
        channel: ChannelParts,
        records: Mapping[int, NeighbourRecord],
        incoming: Mapping[int, np.ndarray],
        outgoing: Mapping[int, np.ndarray],
    ):
        self._n_words = (
            at.HEADER_WORDS
            + len(channel.sources) * at.SOURCE_WORDS
            + len(channel.readers) * at.READER_WORDS
            + (len(incoming) + len(outgoing)) * at.MESSAGE_WORDS
        )
        self.words = np.zeros(self._n_words + 8, np.int64)
        self.address = kernels.address_of(self.words)
        self._barred = channel.comm.process.gate.barred  # kept alive: compiled code has its address
        self._constants = _constants(channel)
        self._source_rows: dict[int, int] = {}
        self._reader_rows: dict[int, int] = {}
        self._segments = {member: records[member].base for member in channel.sources}
        self._put_rows(channel, records, incoming, outgoing)
        self._put_header(channel)

    def _put_rows(
        self,
        channel: ChannelParts,
        records: Mapping[int, NeighbourRecord],
        incoming: Mapping[int, np.ndarray],
        outgoing: Mapping[int, np.ndarray],
    ) -> None:
        """Lays out a row per neighbour, with the numbers of its rows of the copy table."""
        state, n_fields = self.words, len(channel.dtypes)
        word, row = at.HEADER_WORDS, 0

        state[at.N_SOURCES], state[at.SOURCES] = len(channel.sources), word
        for member in channel.sources:
            record, n = records[member], len(channel.takes[member])
            lines = record.lines, record.line_bytes, record.base
            state[word : word + at.S_REFUSED] = *lines, record.staging, record.staging_bytes, record.done, row, n
            self._source_rows[member] = word
            word, row = word + at.SOURCE_WORDS, row + 2 * n * n_fields

        state[at.N_READERS], state[at.READERS] = len(channel.readers), word
        for member in channel.readers:
            n, one_way = len(channel.gives[member]), member not in channel.sources
            state[word : word + at.READER_WORDS] = channel.block.word_of(member), 0, one_way, row, n
            self._reader_rows[member] = word
            word, row = word + at.READER_WORDS, row + n * n_fields

        n_taken = {member: len(cells) for member, cells in channel.takes.items()}
        n_given = {member: len(cells) for member, cells in channel.gives.items()}
        for count, first, buffers, n_pieces in (
            (at.N_RECEIVES, at.RECEIVES, incoming, n_taken),
            (at.N_SENDS, at.SENDS, outgoing, n_given),
        ):
            state[count], state[first] = len(buffers), word
            for member, buffer in buffers.items():
                n = n_pieces[member]
                state[word : word + at.MESSAGE_WORDS] = kernels.address_of(buffer), row, n
                word, row = word + at.MESSAGE_WORDS, row + n * n_fields

        state[at.OWN], state[at.N_OWN] = row, len(channel.own)
        state[at.FILL], state[at.N_FILL] = row + len(channel.own) * n_fields, len(channel.fills)

    def _put_header(self, channel: ChannelParts) -> None:
        state, block = self.words, channel.block
        state[at.N_FIELDS], state[at.NDIM] = len(channel.dtypes), len(channel.shape)
        state[at.LANDS_STREAMING] = ALWAYS if _landed_bytes(channel) >= STREAM_FROM else BY_SIZE
        state[at.EXTENTS : at.EXTENTS + len(channel.shape)] = channel.shape
        state[at.CONSTANTS] = kernels.address_of(self._constants)
        state[at.LINES], state[at.LINE_BYTES] = block.address, block.line_bytes
        state[at.STAGING], state[at.STAGING_BYTES] = block.staging, block.staging_bytes
        state[at.COURSE], state[at.COPY] = kernels.course_address, kernels.copy_address
        state[at.ARRAY_FIELDS] = kernels.FIELDS_OFFSET
        state[at.GATE] = kernels.address_of(channel.comm.process.gate.barred)

    def connect(self, wire: Wire) -> None:
        """Makes messages and waits use ``wire``."""
        state = self.words
        state[at.START_MESSAGES], state[at.TEST_MESSAGES] = wire.start, wire.test
        for (address, number), slot, count in zip(
            wire.requests,
            (at.REQUESTS_IN, at.REQUESTS_OUT, at.REQUESTS_SHORT),
            (at.COUNT_IN, at.COUNT_OUT, at.COUNT_SHORT),
            strict=True,
        ):
            state[slot], state[count] = address, number
        state[at.STATUSES], state[at.FLAG] = wire.statuses, self.address + 8 * self._n_words
        state[at.ON_WAIT], state[at.ON_POST] = wire.on_wait, wire.on_post
        state[at.WENT_ON], state[at.CALLS_BACK] = kernels.address_of(wire.went_on), wire.calls_back
        state[at.POLLS], state[at.YIELDS], state[at.YIELDS_AGAIN] = wire.polls, wire.yields, wire.yields_again

    def let_loops_in(
        self,
        wire: Wire,
        call_address: int,
        segment: tuple[int, int],
        refuse: Callable[[int, int, int], None],
        welcome: bool,
        form: Form | None,
    ) -> None:
        """Lets compiled loops fill in the call at ``call_address``; arrays of ``segment`` are lent."""
        state, word = self.words, ctypes.c_int64
        state[at.LOOP_CALL], state[at.LOOPS_WELCOME] = call_address, welcome
        state[at.REFUSE] = wire.callback(refuse, word, word, word, word)
        state[at.LOOP_COURSE] = kernels.course_address
        if form is not None:
            state[at.FORM], state[at.LOOP_COURSE] = _lay_out(form, wire), kernels.traced_course_address
        state[at.SEGMENT], state[at.SEGMENT_BYTES] = segment

    def refusers(self) -> list[int]:
        """The members among the sources that refused the last exchange."""
        rows = self._source_rows.items()
        return [member for member, row in rows if self.words[row + at.S_REFUSED] == self.words[at.EPOCH]]

    # -- by neighbour ------------------------------------------------------------------------------------------

    def read_in_place(self, member: int, reads: bool) -> None:
        """Lets this process read the array of a source, rather than its staging."""
        self.words[self._source_rows[member] + at.S_SEGMENT] = self._segments[member] if reads else -1

    def stage_for(self, member: int, stages: bool) -> None:
        """Lets a reader access the staging, rather than the array."""
        self.words[self._reader_rows[member] + at.R_STAGED] = stages

    def is_read_in_place(self, member: int) -> bool:
        """Whether either of the two reads the other's array, except in tries."""
        reads = member in self._source_rows and self.words[self._source_rows[member] + at.S_SEGMENT] >= 0
        lends = member in self._reader_rows and not self.words[self._reader_rows[member] + at.R_STAGED]
        return bool((reads or lends) and not self.words[at.STAGES_ALL])

    def stage_all(self, stages: bool, tries: bool) -> None:
        """Stages cells, or lends them, from the next exchange on; ``tries``: tries both ways now and then."""
        self.words[at.STAGES_ALL], self.words[at.TRIED_FROM] = stages, (self.epoch + 1) * tries
        self.words[at.TRY_LEAST : at.TRY_LEAST + 4] = at.NO_TIME

    def staged_by(self, member: int) -> int | None:
        """Address of the cells that a member has staged in the last exchange; None where it is no source."""
        if member not in self._source_rows:
            return None
        word, parity = self._source_rows[member], self.epoch & 1
        return int(self.words[word + at.S_STAGING] + parity * self.words[word + at.S_STAGING_BYTES])

    def lines_awaited(self) -> list[int]:
        """Addresses of the lines that sources post in the exchange under way."""
        state, parity = self.words.tolist(), self.epoch & 1
        return [state[row + at.S_LINES] + parity * state[row + at.S_LINE_BYTES] for row in self._source_rows.values()]

    def answers_awaited(self) -> list[int]:
        """Addresses of the words in which readers note what they have read."""
        return [int(self.words[row + at.R_DONE]) for row in self._reader_rows.values()]

    # -- progress ----------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Number of exchanges that have begun."""
        return int(self.words[at.EPOCH])

    @property
    def phase(self) -> int:
        """IDLE, or the phase of the exchange under way."""
        return int(self.words[at.PHASE])


def _landed_bytes(channel: ChannelParts) -> int:
    """Number of bytes that an exchange copies into this process's arrays, or all rounds of one."""
    taken = chain(channel.own, *channel.takes.values())
    return sum(prod(take.target.shape) for take in taken) * sum(dtype.itemsize for dtype in channel.dtypes)


def _constants(channel: ChannelParts) -> np.ndarray:
    """The values of the fills, field after field."""
    cells = [values[f].astype(dtype) for f, dtype in enumerate(channel.dtypes) for _, values in channel.fills]
    return np.concatenate([flat_bytes(cell) for cell in cells]) if cells else np.zeros(0, np.uint8)


def _lay_out(form: Form, wire: Wire) -> int:
    """Address of a form as the compiled course reads it; the wire keeps it alive."""
    text, words = np.frombuffer(bytearray(form.text), np.uint8), np.zeros(at.FORM_WORDS, np.int64)
    wire.keep((text, words, form.file))
    words[at.FORM_TEXT] = start = kernels.address_of(text)
    words[at.FORM_BYTES], words[at.FORM_BLANK] = len(text), form.width
    words[[at.FORM_BEGAN, at.FORM_TOOK, at.FORM_TURN]] = [start + blank for blank in form.blanks]
    words[at.FORM_FILE] = kernels.address_of(form.file)
    return kernels.address_of(words)
