"""A channel: one process's end of a fixed exchange of boxes with its neighbours, made once and run many times.

It turns boxes into what the compiled course (``kernels/protocol/course.py``) reads: the block that neighbours of the
node see (``shared_block.py``), message buffers and their wire for the others, the state (``state.py``), and calls with
their copy tables (``calls.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from math import prod

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import SpmdError, TransportError
from spmd_grid.exchange.agreement.facts import encode_error, error_from
from spmd_grid.exchange.channel.calls import ChannelCall, bare_call, call_for
from spmd_grid.exchange.channel.copy_table import ExchangeCells, Taken, n_runs
from spmd_grid.exchange.channel.shared_block import SharedBlock, swap_records
from spmd_grid.exchange.channel.state import ChannelState
from spmd_grid.grid.cells import Cells
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import Communicator, Process
from spmd_grid.transport.wire import Messages, Wire
from spmd_grid.typing import Shape
from spmd_grid.watch.trace.loops import Form
from spmd_grid.watch.traffic import Traffic, group_name

__all__ = ["MIXED", "PACKED", "READ", "STAGED", "STRAIGHT", "Channel", "close_retired", "shortened"]

READ, STAGED, MIXED = "read", "staged", "mixed"  # by memory
PACKED, STRAIGHT = "packed", "straight"  # by message

_MOST_TEXT = at.TEXT_BYTES - 64  # beside its length and the name of the error
_SHORT_BYTES = at.MESSAGE_HEAD + at.TEXT_BYTES

# Reading a neighbour's array pays for faces of at least this size in runs of at least this length.  Smaller ones, and
# those cut across the fastest dimension, come faster out of staging: the writer has them in its cache, and keeps them.
_READ_BYTES, _READ_RUN_BYTES = 1 << 20, 1 << 12


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
        rounds: Iterable[ExchangeCells] = (),
        activity=None,
    ):
        self.comm, self.shape, self.dtypes = comm, tuple(shape), tuple(dtypes)
        self.into_shape = self.shape if into_shape is None else tuple(into_shape)
        self._read_from = read_from
        me = comm.rank
        self.gives = {place: [c for _, c in group] for place, group in groupby(gives, lambda give: give[0])}
        self.takes = {place: list(group) for place, group in groupby(takes, lambda take: take.member)}
        self.own = self.takes.pop(me, [])
        self.gives.pop(me, None)
        self.fills = list(fills)
        self.lands, self.rounds = lands, rounds
        self._is_retired = False
        close_retired(comm.process)
        comm.channels += 1
        self._number = comm.channels
        first = next(iter(rounds), self).gives
        staged = {place: self._bytes_of(cells) for place, cells in first.items()}
        self.block = SharedBlock(len(self.dtypes), list(self.gives), staged)
        neighbours = sorted({*self.gives, *self.takes})
        if memory and any(comm.process.arena.base_of(comm.processes[place]) is not None for place in neighbours):
            self.block.allocate(comm.process.arena)
        records = swap_records(comm, self.block, neighbours)
        self.readers = [place for place in self.gives if records[place].met]
        self.sources = [place for place in self.takes if records[place].met]
        self.receives = [place for place in self.takes if not records[place].met]
        self.sends = [place for place in self.gives if not records[place].met]
        self._incoming = {place: self._message(take.target for take in self.takes[place]) for place in self.receives}
        self.outgoing = {place: self._message(self.gives[place]) for place in self.sends}
        self._state = ChannelState(self, records, self._incoming, self.outgoing)
        self.address = self._state.address
        self.wire = self._connect(activity)
        self.tables: dict = {}
        self.choose(MIXED if lands else STAGED)
        self.choose(PACKED)

    def _message(self, pieces: Iterable[Cells]) -> np.ndarray:
        return np.zeros(max(at.MESSAGE_HEAD + self._bytes_of(pieces), _SHORT_BYTES), np.uint8)

    def _connect(self, activity) -> Wire:
        shorts = [(place, buffer[:_SHORT_BYTES]) for place, buffer in self.outgoing.items()]
        messages = Messages(list(self._incoming.items()), list(self.outgoing.items()), shorts)
        state = self._state
        wire = self.comm.wire(messages, self.sources, self.readers, self._number, lambda: state.epoch, activity)
        state.connect(wire)
        wire.keep(self.block)  # neighbours have its address, also where nobody retires this channel
        return wire

    # -- how cells go ------------------------------------------------------------------------------------------

    def choose(self, mode: str) -> None:
        """How cells go: READ from neighbours' arrays, STAGED by them, or MIXED by size and shape; and in messages,
        PACKED by this package, or STRAIGHT from the arrays by MPI's datatypes.

        Local; alike on all members, and not while an exchange is under way.
        """
        if mode in (PACKED, STRAIGHT):
            self.message_mode = mode  # of calls made from now on
            return
        self.mode = mode
        for place in self.sources:
            cells = [take.source for take in self.takes[place]]
            self._state.read_in_place(place, self._reads(mode, cells, self.takes[place][0].source_shape))
        for place in self.readers:
            self._state.stage_for(place, not self._reads(mode, self.gives[place], self.shape))

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
        return self.block.held_bytes

    def way_to(self, place: int) -> str:
        """How cells go to and from a neighbour, in words.  Local."""
        if place in self.receives or place in self.sends:
            return "by message"
        return "by memory, " + ("read in place" if self._state.is_read_in_place(place) else "staged")

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
    ) -> ChannelCall:
        """What the course has to know of these arrays, which the caller keeps alive; None: one that a loop brings.

        Local.  ``into``: the arrays that cells land in, by default the same; then the course makes sure, at every
        exchange, that each is what it is now.  Where one is in the memory of the field itself, all that it gives is
        packed before anything lands.  ``in_rounds``: for `run_round`, whose arrays must not share memory.
        """
        straight = bool(self.sends) and self.message_mode == STRAIGHT
        return call_for(self, fields, into, in_rounds, straight)

    @cached_property
    def _bare_call(self) -> ChannelCall:
        return bare_call(self)

    # -- running -----------------------------------------------------------------------------------------------

    def run(self, what: int, call: ChannelCall | None = None) -> int:
        """Runs parts of the course; how it ended.  Collective over the neighbours."""
        return kernels.run_course(what, self.address, 0 if call is None else call.address)

    def run_round(self, number: int, call: ChannelCall) -> None:
        """Runs one of the rounds, in order.  Collective over the neighbours."""
        call.words[at.CALL_TABLE] = kernels.address_of(call.table) + number * call.table_bytes
        if self.run(at.UPDATE, call):
            self.raise_ended()

    def hand_over(self) -> bool:
        """Gives it to the calling thread, if the one whose compiled loops used it has ended; whether it has.  Local."""
        words = self._state.words
        owner = int(words[at.THREAD]) % (1 << 64)  # idents have no sign
        if not owner or words[at.IN_USE] or any(thread.ident == owner for thread in threading.enumerate()):
            return False
        words[at.THREAD] = 0
        return True

    def hold(self, held: bool) -> None:
        """Between the start of an exchange and the wait for it there is no other.  Local."""
        self._state.words[at.HELD] = held

    def refuse(self, error: SpmdError) -> None:
        """Takes part in an exchange in which this process has to refuse: all neighbours raise ``error``."""
        self.begin_refusing(error)
        code = self.run(at.UPDATE, self._bare_call)
        self.end_refusing()
        if code == at.ENDED:
            self.raise_ended()

    def begin_refusing(self, error: SpmdError) -> None:
        """Makes the next exchange one in which this process refuses.  Local."""
        self._state.refuse(encode_error(error))

    def end_refusing(self) -> None:
        self._state.words[at.REFUSED] = 0

    def refusal(self) -> SpmdError | None:
        """The error of the neighbour that refused the last exchange.  Local."""
        text = self._state.refusal()
        return None if text is None else error_from(text)

    def raise_ended(self) -> None:
        """Raises why a wait was given up."""
        self.wire.raise_error()
        self.comm.process.gate.check()
        error = TransportError(
            "an exchange with neighbours failed: MPI could not carry its messages, or a signal interrupted it"
        )
        error.cuts_off = True
        raise error

    @property
    def epoch(self) -> int:
        """How many exchanges have begun."""
        return self._state.epoch

    @property
    def confirmed(self) -> range:
        """The last exchanges of which all neighbours have said that they copied their cells; empty where not all can.

        Local.  Neighbours say it when they come to the next one.
        """
        all_answer = self.gives.keys() <= self.takes.keys()
        return range(int(self._state.words[at.MISSED_BY]) + 1, self.epoch) if all_answer else range(0)

    @property
    def phase(self) -> int:
        return self._state.phase

    def waits(self) -> list:
        """What an exchange under way waits for, as requests.  Local."""
        state = self._state
        if state.phase == at.BEGUN:
            return self.wire.waits([(line, state.epoch, i) for i, line in enumerate(state.lines_awaited())])
        if state.phase == at.LEFT and state.words[at.LENDS]:
            return self.wire.waits([(word, state.epoch, -2 - i) for i, word in enumerate(state.answers_awaited())])
        return []

    def let_loops_in(self, refuse: Callable[[int, int, int], None], welcome: bool, form: Form | None) -> None:
        """Tells compiled loops what they must bring, whom to call when they do not, and what to note.  Local."""
        segment = self.comm.process.arena.own_segment()
        self._state.let_loops_in(self.wire, self._bare_call.address, segment, refuse, welcome, form)

    def arrived(self) -> Iterator[tuple[int, list[list[np.ndarray]]]]:
        """What has come in from each neighbour, by place, then field, then piece: views of staging.  Local."""
        for place in sorted(self.takes):
            shapes = [take.target.shape for take in self.takes[place]]
            address = self._state.staged_by(place)
            if address is None:
                flat = self._incoming[place][at.MESSAGE_HEAD :]
            else:
                flat = kernels.bytes_at(address, self._bytes_of(take.target for take in self.takes[place]))
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
        answers = self._state.answers_awaited()
        if any(kernels.bytes_at(word, 8).view(np.int64)[0] < self.epoch for word in answers):
            return False
        self.wire.close()
        self.block.give_back()
        return True

    def _bytes_of(self, cells: Iterable[Cells]) -> int:
        return sum(prod(each.shape) for each in cells) * sum(dtype.itemsize for dtype in self.dtypes)


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
