"""The state of a channel: the words that its compiled course reads, laid out once, and where a neighbour's row is.

The slots are those of ``kernels/protocol/slots.py``; the numbers of table rows follow the order of ``copy_rows``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.channel.shared_block import NeighbourRecord
from spmd_grid.exchange.transfer.flat_bytes import flat_bytes
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.wire import Wire
from spmd_grid.watch.trace.loops import Form

__all__ = ["ChannelState"]


class ChannelState:
    """``words``: all of it, at ``address``.

    ``channel``: whose pieces it counts; ``records``: those of its neighbours; ``incoming``, ``outgoing``: the messages
    of those that it does not meet in memory.
    """

    def __init__(
        self,
        channel,
        records: Mapping[int, NeighbourRecord],
        incoming: Mapping[int, np.ndarray],
        outgoing: Mapping[int, np.ndarray],
    ):
        sizes = (len(channel.sources), at.SOURCE_WORDS), (len(channel.readers), at.READER_WORDS)
        sizes += (len(incoming), at.MESSAGE_WORDS), (len(outgoing), at.MESSAGE_WORDS)
        self._n_words = at.HEADER_WORDS + sum(n * words for n, words in sizes)
        self.words = np.zeros(self._n_words + 8, np.int64)
        self.address = kernels.address_of(self.words)
        self._text = np.zeros(at.TEXT_BYTES, np.uint8)
        self._barred = channel.comm.process.gate.barred  # whose address compiled code has
        self._constants = _constants(channel)
        self._source_rows: dict[int, int] = {}
        self._reader_rows: dict[int, int] = {}
        self._segments = {place: records[place].base for place in channel.sources}
        self._put_rows(channel, records, incoming, outgoing)
        self._put_header(channel)

    def _put_rows(self, channel, records, incoming, outgoing) -> None:
        """A row per neighbour, and which rows of the table are whose."""
        state, n_fields = self.words, len(channel.dtypes)
        word, row = at.HEADER_WORDS, 0

        state[at.N_SOURCES], state[at.SOURCES] = len(channel.sources), word
        for place in channel.sources:
            record, n = records[place], len(channel.takes[place])
            lines = record.lines, record.line_bytes, record.base
            state[word : word + at.SOURCE_WORDS] = *lines, record.staging, record.staging_bytes, record.done, row, n
            self._source_rows[place] = word
            word, row = word + at.SOURCE_WORDS, row + 2 * n * n_fields

        state[at.N_READERS], state[at.READERS] = len(channel.readers), word
        for place in channel.readers:
            n, one_way = len(channel.gives[place]), place not in channel.sources
            state[word : word + at.READER_WORDS] = channel.block.word_of(place), 0, one_way, row, n
            self._reader_rows[place] = word
            word, row = word + at.READER_WORDS, row + n * n_fields

        for count, first, buffers, pieces in (
            (at.N_RECEIVES, at.RECEIVES, incoming, channel.takes),
            (at.N_SENDS, at.SENDS, outgoing, channel.gives),
        ):
            state[count], state[first] = len(buffers), word
            for place, buffer in buffers.items():
                n = len(pieces[place])
                state[word : word + at.MESSAGE_WORDS] = kernels.address_of(buffer), row, n
                word, row = word + at.MESSAGE_WORDS, row + n * n_fields

        state[at.OWN], state[at.N_OWN] = row, len(channel.own)
        state[at.FILL], state[at.N_FILL] = row + len(channel.own) * n_fields, len(channel.fills)

    def _put_header(self, channel) -> None:
        state, block = self.words, channel.block
        state[at.N_FIELDS], state[at.NDIM] = len(channel.dtypes), len(channel.shape)
        state[at.EXTENTS : at.EXTENTS + len(channel.shape)] = channel.shape
        state[at.CONSTANTS] = kernels.address_of(self._constants)
        state[at.LINES], state[at.LINE_BYTES] = block.address, block.line_bytes
        state[at.STAGING], state[at.STAGING_BYTES] = block.staging, block.staging_bytes
        state[at.COURSE], state[at.COPY] = kernels.course_address, kernels.copy_address
        state[at.ARRAY_FIELDS] = kernels.ARRAY_FIELDS
        state[at.GATE] = kernels.address_of(channel.comm.process.gate.barred)
        state[at.TEXT], state[at.LINE_TEXT] = kernels.address_of(self._text), block.line_text

    def connect(self, wire: Wire) -> None:
        """Messages and waits go through ``wire``."""
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
        state[at.POLLS], state[at.YIELDS] = wire.polls, wire.yields

    def let_loops_in(
        self,
        wire: Wire,
        call_address: int,
        segment: tuple[int, int],
        refuse: Callable[[int, int, int], None],
        welcome: bool,
        form: Form | None,
    ) -> None:
        """Compiled loops fill in the call at ``call_address``, with arrays of this ``segment`` lent."""
        state, word = self.words, ctypes.c_int64
        state[at.LOOP_CALL], state[at.LOOPS_WELCOME] = call_address, welcome
        state[at.REFUSE] = wire.callback(refuse, word, word, word, word)
        state[at.LOOP_COURSE] = kernels.course_address
        if form is not None:
            state[at.FORM], state[at.LOOP_COURSE] = _lay_out(form, wire), kernels.traced_course_address
        state[at.SEGMENT], state[at.SEGMENT_BYTES] = segment

    def refuse(self, text: bytes) -> None:
        """This process refuses the next exchange, and says why."""
        self._text[:8].view(np.int64)[0] = len(text)
        self._text[8 : 8 + len(text)] = np.frombuffer(text, np.uint8)
        self.words[at.REFUSED] = 1

    def refusal(self) -> bytes | None:
        """What was said by whoever refused the last exchange."""
        length = int(self._text[:8].view(np.int64)[0])
        return self._text[8 : 8 + length].tobytes() if self.words[at.CULPRIT] else None

    # -- by neighbour ------------------------------------------------------------------------------------------

    def read_in_place(self, place: int, reads: bool) -> None:
        """Whether this process reads the array of a source, or what that stages."""
        self.words[self._source_rows[place] + at.S_SEGMENT] = self._segments[place] if reads else -1

    def stage_for(self, place: int, stages: bool) -> None:
        """Whether a reader gets at the array, or at what is staged."""
        self.words[self._reader_rows[place] + at.R_STAGED] = stages

    def is_read_in_place(self, place: int) -> bool:
        """Whether either of the two reads the other's array."""
        reads = place in self._source_rows and self.words[self._source_rows[place] + at.S_SEGMENT] >= 0
        return bool(reads or (place in self._reader_rows and not self.words[self._reader_rows[place] + at.R_STAGED]))

    def staged_by(self, place: int) -> int | None:
        """The address of what this source has staged in the last exchange; None: it is none."""
        if place not in self._source_rows:
            return None
        word, parity = self._source_rows[place], self.epoch & 1
        return int(self.words[word + at.S_STAGING] + parity * self.words[word + at.S_STAGING_BYTES])

    def lines_awaited(self) -> list[int]:
        """The addresses of the lines that sources post in the exchange under way."""
        state, parity = self.words.tolist(), self.epoch & 1
        return [state[row + at.S_LINES] + parity * state[row + at.S_LINE_BYTES] for row in self._source_rows.values()]

    def answers_awaited(self) -> list[int]:
        """The addresses of the words in which readers say that they have read."""
        return [int(self.words[row + at.R_DONE]) for row in self._reader_rows.values()]

    # -- what it tells -----------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """How many exchanges have begun."""
        return int(self.words[at.EPOCH])

    @property
    def phase(self) -> int:
        return int(self.words[at.PHASE])


def _constants(channel) -> np.ndarray:
    """The values of the fills, field after field."""
    cells = [values[f].astype(dtype) for f, dtype in enumerate(channel.dtypes) for _, values in channel.fills]
    return np.concatenate([flat_bytes(cell) for cell in cells]) if cells else np.zeros(0, np.uint8)


def _lay_out(form: Form, wire: Wire) -> int:
    """The address of a form as the compiled course reads it; the wire keeps it alive."""
    text, words = np.frombuffer(bytearray(form.text), np.uint8), np.zeros(at.FORM_WORDS, np.int64)
    wire.keep((text, words, form.file))
    words[at.FORM_TEXT] = start = kernels.address_of(text)
    words[at.FORM_BYTES], words[at.FORM_BLANK] = len(text), form.width
    words[[at.FORM_BEGAN, at.FORM_TOOK, at.FORM_TURN]] = [start + blank for blank in form.blanks]
    words[at.FORM_FILE] = kernels.address_of(form.file)
    return kernels.address_of(words)
