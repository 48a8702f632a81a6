"""A channel: one process's end of a fixed exchange of boxes with its neighbours, made once and run many times.

It prepares the data of the compiled course (``kernels/protocol/course.py``): the block that neighbours on the node see
(``shared_block.py``), message buffers and their wire for the others, the state (``state.py``), and calls with their
copy tables (``calls.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from math import prod
from typing import Any, NoReturn

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import TransportError
from spmd_grid.exchange.channel.calls import ChannelCall, bare_call, call_for
from spmd_grid.exchange.channel.copy_table import ExchangeCells, Taken, n_runs
from spmd_grid.exchange.channel.shared_block import SharedBlock, swap_records
from spmd_grid.exchange.channel.state import ChannelState
from spmd_grid.exchange.paths import PACKED, READ, STAGED, STRAIGHT
from spmd_grid.grid.cells import Cells
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import Activity, Communicator, Process
from spmd_grid.transport.wire import Messages, Wire
from spmd_grid.typing import Shape
from spmd_grid.watch.trace.loops import Form
from spmd_grid.watch.traffic import Traffic, group_name

__all__ = ["BY_SIZE", "Channel", "close_retired"]

BY_SIZE = "by size"  # each neighbour's cells as READ or STAGED, whichever suits their size and shape

# Reading a neighbour's array pays for faces of at least this size in runs of at least this length.  Smaller ones, and
# those cut across the fastest dimension, are faster to read from staging: the writer keeps its array in its cache.
_READ_BYTES, _READ_RUN_BYTES = 1 << 20, 1 << 12


class Channel:
    """One process's end of an exchange of ``dtypes`` arrays of local ``shape`` each.

    Collective over the neighbours.  ``into_shape``: the shape of the arrays that receive cells, if these are not the
    arrays that give them.  ``gives``: (member, cells) in the order in which the taker lists them; ``takes``: cells to
    receive, from this process too; both sorted by member.  ``fills``: (cells, one value per field).  ``memory``:
    whether neighbours may exchange in memory; ``read_from``: the numbers of bytes, in all and per run, from which on
    BY_SIZE reads.  ``lands``: False where the course does not copy received cells into arrays; then all are staged, and
    `arrived` yields them.  ``rounds``: the same cells divided into equally many exchanges on all members, of which the
    first stages most; staging then has the size that this one needs.
    """

    def __init__(
        self,
        comm: Communicator,
        shape: Shape,
        dtypes: Sequence[np.dtype],
        gives: Sequence[tuple[int, Cells]],
        takes: Sequence[Taken],
        fills: Sequence[tuple[Cells, Sequence[np.ndarray]]] = (),
        *,
        into_shape: Shape | None = None,
        memory: bool = True,
        lands: bool = True,
        read_from: tuple[int, int] = (_READ_BYTES, _READ_RUN_BYTES),
        rounds: Iterable[ExchangeCells] = (),
        activity: Activity | None = None,
    ):
        self.comm, self.shape, self.dtypes = comm, tuple(shape), tuple(dtypes)
        self.into_shape = self.shape if into_shape is None else tuple(into_shape)
        self._read_from, me = read_from, comm.rank
        self.gives = {member: [c for _, c in group] for member, group in groupby(gives, lambda give: give[0])}
        self.takes = {member: list(group) for member, group in groupby(takes, lambda take: take.member)}
        self.own = self.takes.pop(me, [])
        self.gives.pop(me, None)
        self.fills = list(fills)
        self.lands, self.rounds = lands, rounds
        self._is_retired = False
        close_retired(comm.process)
        comm.channels += 1
        self.number = comm.channels
        first = next(iter(rounds), self).gives
        staged = {member: self._bytes_of(cells) for member, cells in first.items()}
        self.block = SharedBlock(len(self.dtypes), list(self.gives), staged)
        neighbours = sorted({*self.gives, *self.takes})
        if memory and any(comm.process.arena.base_of(comm.processes[member]) is not None for member in neighbours):
            self.block.allocate(comm.process.arena)
        records = swap_records(comm, self.block, neighbours)
        self.readers = [member for member in self.gives if records[member].met]
        self.sources = [member for member in self.takes if records[member].met]
        self.receives = [member for member in self.takes if not records[member].met]
        self.sends = [member for member in self.gives if not records[member].met]
        self._incoming = {member: self._message(take.target for take in self.takes[member]) for member in self.receives}
        self.outgoing = {member: self._message(self.gives[member]) for member in self.sends}
        self._state = ChannelState(self, records, self._incoming, self.outgoing)
        self.address = self._state.address
        self.wire = self._connect(activity)
        self.tables: dict[tuple, tuple[np.ndarray, int]] = {}
        self.choose(BY_SIZE if lands else STAGED)
        self.choose(PACKED)

    def _message(self, pieces: Iterable[Cells]) -> np.ndarray:
        return np.zeros(at.MESSAGE_HEAD + self._bytes_of(pieces), np.uint8)

    def _connect(self, activity: Activity | None) -> Wire:
        shorts = [(member, buffer[: at.MESSAGE_HEAD]) for member, buffer in self.outgoing.items()]
        messages = Messages(list(self._incoming.items()), list(self.outgoing.items()), shorts)
        state = self._state
        wire = self.comm.wire(messages, self.sources, self.readers, self.number, lambda: state.epoch, activity)
        state.connect(wire)
        wire.keep(self.block)  # neighbours have its address, even if this channel is never retired
        return wire

    # -- ways of cells -----------------------------------------------------------------------------------------

    def choose(self, mode: str) -> None:
        """Sets how cells travel: READ from neighbours' arrays, STAGED by them, or BY_SIZE; in messages,
        PACKED by this package, or STRAIGHT from the arrays by MPI's datatypes.

        Local; alike on all members, and not while an exchange is under way.
        """
        if mode in (PACKED, STRAIGHT):
            self.message_mode = mode  # of calls made from now on
            return
        self.mode = mode
        for member in self.sources:
            cells = [take.source for take in self.takes[member]]
            self._state.read_in_place(member, self._reads(mode, cells, self.takes[member][0].source_shape))
        for member in self.readers:
            self._state.stage_for(member, not self._reads(mode, self.gives[member], self.shape))

    def _reads(self, mode: str, cells: Sequence[Cells], shape: Shape) -> bool:
        """Whether a reader copies from the array; the two sides compute the same answer."""
        if mode != BY_SIZE:
            return mode == READ
        n_bytes = self._bytes_of(cells)
        runs = sum(n_runs(each, shape) for each in cells) * len(self.dtypes)
        least, least_run = self._read_from
        return n_bytes >= least and n_bytes >= least_run * runs

    @property
    def staging_bytes(self) -> int:
        """Number of bytes allocated for cells packed for neighbours that see this process's memory."""
        return self.block.held_bytes

    @property
    def reads(self) -> bool:
        """Whether this process or a neighbour reads the other's array in place, unless all cells are staged.  Local."""
        return any(map(self._state.is_read_in_place, (*self.sources, *self.readers)))

    def stage_all(self, stages: bool, tries: bool) -> None:
        """Sets whether cells are staged that could be read; ``tries``, alike on neighbours: and tries that.  Local."""
        self._state.stage_all(stages, tries)

    def way_to(self, member: int) -> str:
        """Text for users: the way of cells to and from a neighbour.  Local."""
        if member in self.receives or member in self.sends:
            return "by message"
        return "by memory, " + ("read in member" if self._state.is_read_in_place(member) else "staged")

    def traffic(self) -> Traffic:
        """The record of an exchange for traces: neighbours wait for one another, and for no other process."""
        processes = self.comm.processes
        sent = {processes[member]: self._bytes_of(cells) for member, cells in self.gives.items()}
        neighbours = sorted({*self.gives, *self.takes})
        ways = dict.fromkeys(self.way_to(member) for member in neighbours)
        awaits = tuple([processes[member] for member in neighbours])
        series = f"channel {self.number} of {group_name(processes)}"
        return Traffic(sent, " and ".join(ways), series, awaits, self.epoch)

    # -- calls -------------------------------------------------------------------------------------------------

    def call(
        self,
        fields: Sequence[np.ndarray | None],
        into: Sequence[np.ndarray | None] | None = None,
        in_rounds: bool = False,
    ) -> ChannelCall:
        """The course's description of these arrays, which the caller keeps alive; None: a loop will fill it in.

        Local.  ``into``: the arrays that receive cells, by default the same; then the course verifies, at every
        exchange, that no array has changed.  Where one shares memory with its field, all cells given are packed before
        any are received.  ``in_rounds``: for `run_round`, whose arrays must not share memory.
        """
        straight = bool(self.sends) and self.message_mode == STRAIGHT
        return call_for(self, fields, into, in_rounds, straight)

    @cached_property
    def _bare_call(self) -> ChannelCall:
        return bare_call(self)

    # -- running -----------------------------------------------------------------------------------------------

    def run(self, what: int, call: ChannelCall | None = None) -> int:
        """Runs parts of the course; the code with which it ended.  Collective over the neighbours."""
        return kernels.run_course(what, self.address, 0 if call is None else call.address)

    def run_round(self, number: int, call: ChannelCall) -> None:
        """Runs one of the rounds; all must be run, in order.  Collective over the neighbours."""
        call.words[at.CALL_TABLE] = kernels.address_of(call.table) + number * call.table_bytes
        if self.run(at.UPDATE, call):
            self.raise_ended()

    def hand_over(self) -> bool:
        """Gives it to the calling thread if the thread whose loops used it has ended; whether it has.  Local."""
        words = self._state.words
        owner = int(words[at.THREAD]) % (1 << 64)  # idents have no sign
        if not owner or words[at.IN_USE] or any(thread.ident == owner for thread in threading.enumerate()):
            return False
        words[at.THREAD] = 0
        return True

    def hold(self, held: bool) -> None:
        """Refuses other exchanges between the start of one and the wait for it, while ``held``.  Local."""
        self._state.words[at.HELD] = held

    def stage_past_caches(self, streams: bool) -> None:
        """Sets whether cells are staged past the caches: for neighbours that share none with this process.  Local."""
        self._state.words[at.STREAMS] = streams

    def refuse(self) -> None:
        """Takes part in an exchange that this process refuses; its neighbours learn that.  Collective over them."""
        self.begin_refusing()
        code = self.run(at.UPDATE, self._bare_call)
        self.end_refusing()
        if code == at.ENDED:
            self.raise_ended()

    def begin_refusing(self) -> None:
        """Makes the next exchange one that this process refuses.  Local."""
        self._state.words[at.REFUSED] = 1

    def end_refusing(self) -> None:
        """Makes the next exchange one that this process does not refuse.  Local."""
        self._state.words[at.REFUSED] = 0

    @property
    def is_refused(self) -> bool:
        """Whether a neighbour that gives to this process refused the exchange that has arrived last.  Local."""
        return bool(self._state.words[at.CULPRIT])

    def refusers(self) -> list[int]:
        """The neighbours that give to this process and refused the last exchange.  Local."""
        by_message = self._incoming.items()
        heads = [(member, buffer[: at.MESSAGE_HEAD].view(np.int64)) for member, buffer in by_message]
        return [*self._state.refusers(), *[member for member, head in heads if head[at.POSTED_REFUSED]]]

    def raise_ended(self) -> NoReturn:
        """Raises the error for which a wait was given up."""
        self.wire.raise_error()
        self.comm.process.gate.check()
        error = TransportError(
            "an exchange with neighbours failed: MPI could not carry its messages, or a signal interrupted it"
        )
        error.cuts_off = True
        raise error

    @property
    def epoch(self) -> int:
        """Number of exchanges that have begun."""
        return self._state.epoch

    @property
    def confirmed(self) -> range:
        """The last exchanges that every neighbour has acknowledged; empty where not all of them can.

        Local.  Neighbours acknowledge an exchange when they begin the next one.
        """
        all_answer = self.gives.keys() <= self.takes.keys()
        return range(int(self._state.words[at.MISSED_BY]) + 1, self.epoch) if all_answer else range(0)

    @property
    def phase(self) -> int:
        """IDLE, or the phase of the exchange under way.  Local."""
        return self._state.phase

    def waits(self) -> Sequence[Any]:
        """The requests that an exchange under way waits for.  Local."""
        state = self._state
        if state.phase == at.BEGUN:
            return self.wire.waits([(line, state.epoch, i) for i, line in enumerate(state.lines_awaited())])
        if state.phase == at.LEFT and state.words[at.LENDS]:
            return self.wire.waits([(word, state.epoch, -2 - i) for i, word in enumerate(state.answers_awaited())])
        return []

    def let_loops_in(self, refuse: Callable[[int, int, int], None], welcome: bool, form: Form | None) -> None:
        """Lets compiled loops exchange; ``refuse`` is called for invalid arrays, ``form`` traces updates.  Local."""
        segment = self.comm.process.arena.own_segment()
        self._state.let_loops_in(self.wire, self._bare_call.address, segment, refuse, welcome, form)

    def arrived(self) -> Iterator[tuple[int, list[list[np.ndarray]]]]:
        """The cells received from each neighbour, by member, then field, then piece: views of staging.  Local."""
        for member in sorted(self.takes):
            shapes = [take.target.shape for take in self.takes[member]]
            address = self._state.staged_by(member)
            if address is None:
                flat = self._incoming[member][at.MESSAGE_HEAD :]
            else:
                flat = kernels.bytes_at(address, self._bytes_of(take.target for take in self.takes[member]))
            start, fields = 0, []
            for dtype in self.dtypes:
                pieces = []
                for shape in shapes:
                    n = prod(shape) * dtype.itemsize
                    pieces.append(np.ndarray(shape, dtype, flat, start))
                    start += n
                fields.append(pieces)
            yield member, fields

    def retire(self) -> None:
        """Marks it to be closed when that is possible.  Local; may be called from anywhere, and again."""
        if not self._is_retired:
            self._is_retired = True
            self.comm.process.retired.append(self)

    def close(self) -> bool:
        """Frees its memory if no exchange is under way and no neighbour reads its block; whether it did.  Local."""
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
    """Closes the retired channels whose neighbours have finished with them.  Local."""
    for channel in tuple(process.retired):
        if channel.close():
            process.retired.remove(channel)
