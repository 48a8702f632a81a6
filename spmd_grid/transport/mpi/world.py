"""All that the communicators of one program share: its processes, their memory, and what watches over them."""

from __future__ import annotations

import ctypes
import os
import warnings

import numpy as np

from spmd_grid.transport.communicator import Process
from spmd_grid.transport.mpi.communicator import MpiCommunicator
from spmd_grid.transport.mpi.library import MPI, abort
from spmd_grid.transport.mpi.liveness.lifeline import Departure, Lifeline
from spmd_grid.transport.mpi.mailbox import Mailbox
from spmd_grid.transport.mpi.node import agreed_settings, survey_node
from spmd_grid.transport.mpi.wire import MpiWire
from spmd_grid.watch.recorder import RECORDER_BYTES, Recorder
from spmd_grid.watch.settings import Settings
from spmd_grid.watch.trace.runs import trace_process

__all__ = ["World"]

# Of so many closed wires it is remembered how often they were used, for those who still wait for one more time.
_MOST_CLOSED = 4096

_CLOSED = "the program is at its end, and MPI is finalized: operations must come before that"


class World:
    """What all communicators made from one user communicator share."""

    pending: list = []  # of this process, whatever the communicator: whoever waits moves all
    tokens = [True]  # so is the gate: an operation at a time
    cut_off: list[World] = []  # worlds that the user has given back, whose memory MPI may still write to
    is_traced = False  # of the worlds of this process the first is

    def __init__(self, user_comm):
        self.comm = user_comm.Dup()
        self.process = Process(self.comm.rank, self.comm.size, self.pending, self.tokens)
        self.alone = MPI.COMM_SELF.Dup()
        self.mailbox = Mailbox(self.comm)
        self._control = None
        self.groups: dict[tuple[int, ...], MpiCommunicator] = {}
        self.wires: set[MpiWire] = set()
        self.exchanged: dict[tuple, int] = {}  # of wires that have been closed
        self.polite, self.process.arena = survey_node(self.comm)
        self.lifeline: Lifeline | None = None
        if self.comm.size > 1:
            watch = MPI.Query_thread() >= MPI.THREAD_MULTIPLE
            self._control = self.comm.Dup()
            self.lifeline = Lifeline(
                self.process, _Control(self._control), self._take_stock, watch, self._memory_of, *self._neighbours()
            )
            self.process.gate.on_cut = self.lifeline.cut_off
        else:
            self.process.gate.on_cut = lambda text: None  # nobody else counts on anything
        self._watches = self.lifeline is not None and watch
        self.watched = Settings()
        self._recorder: Recorder | None = None
        self._recorders: list[int] = []  # of all processes: where they lie in their segments, or -1
        self.watch(agreed_settings(self.comm))
        processes = tuple(range(self.comm.size))
        self.everybody = self.groups[processes] = MpiCommunicator(self, processes)
        self.everybody.comm = self.comm

    def watch(self, settings: Settings) -> None:
        """Records, and looks after waits, as ``settings`` say.  Collective, with equal settings."""
        self.watched = settings
        if settings.records and self._recorder is None:
            self._recorder = self._make_recorder()
        recorder = self.process.recorder = self._recorder if settings.records else None
        if recorder is not None:
            recorder.check = settings.check
            recorder.sign(self.process.label())
            if settings.trace is not None and not World.is_traced:
                World.is_traced = True
                trace_process(settings.trace, self.process)
        if self.lifeline is not None:
            self.lifeline.hang.limit = settings.timeout
            if settings.timeout is not None and not self._watches and self.comm.rank == 0:
                warnings.warn(
                    "no report of hangs: this MPI library lets no second thread look (it was started without"
                    " MPI_THREAD_MULTIPLE)",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def _neighbours(self) -> tuple[dict[int, int], np.ndarray | None]:
        """The process numbers of the others of this node in the system, by rank, and a word of memory that they share.

        Collective.
        """
        arena = self.process.arena
        self._line = line = arena.allocate(8, zeroed=True)
        offset = -1 if line is None else arena.offset_of(line.ctypes.data, line.nbytes)
        numbers, offsets = zip(*self.comm.allgather((os.getpid(), offset)), strict=True)
        node = [process for process in range(self.comm.size) if arena.base_of(process) is not None]
        word = None
        if node and offsets[node[0]] >= 0:
            word = np.ctypeslib.as_array((ctypes.c_int64 * 1).from_address(arena.base_of(node[0]) + offsets[node[0]]))
        return {process: numbers[process] for process in node if process != self.comm.rank}, word

    def _make_recorder(self) -> Recorder:
        arena = self.process.arena
        memory = arena.allocate(RECORDER_BYTES)
        offset = -1 if memory is None else arena.offset_of(memory.ctypes.data, memory.nbytes)
        self._recorders = self.comm.allgather(offset)
        return Recorder(memory)

    def _memory_of(self, process: int) -> np.ndarray | None:
        """The memory of the recorder of a process, where this one can read it.  Local."""
        base = self.process.arena.base_of(process)
        if base is None or not self._recorders or self._recorders[process] < 0:
            return None
        return np.ctypeslib.as_array((ctypes.c_uint8 * RECORDER_BYTES).from_address(base + self._recorders[process]))

    def _take_stock(self, departure: Departure) -> None:
        departure.exchanged.update(self.exchanged)
        for wire in self.wires:
            departure.exchanged[wire.key] = wire.epoch()
        for processes, group in self.groups.items():
            if group.is_open or group.entered:
                departure.entered[processes] = group.entered
            departure.sent[processes] = group.sent
            departure.received[processes] = group.received

    def forget(self, wire: MpiWire) -> None:
        """A wire has been closed; how often it was used may still tell somebody that he waits in vain."""
        self.wires.discard(wire)
        self.exchanged[wire.key] = wire.epoch()
        if len(self.exchanged) > _MOST_CLOSED:
            del self.exchanged[next(iter(self.exchanged))]

    def close(self) -> None:
        """Frees what MPI would complain about; runs once, when the program ends."""
        self._leave()
        self._release()

    def _leave(self) -> None:
        if self.lifeline is not None:
            self.lifeline.close()
        self.process.gate.bar(_CLOSED)

    def _release(self) -> None:
        for wire in tuple(self.wires):
            wire.close()
        for group in self.groups.values():
            group.release()

    def free(self) -> None:
        """Gives all its communicators back; collective, when the user frees the communicator it was made from.

        Not where an operation was cut off: its requests may be under way for ever, and must not be freed then; its
        messages may lie anywhere, and MPI would hand them to the next communicator that it makes in the same place.
        """
        self._leave()
        if self.process.gate.text != _CLOSED:
            self.cut_off.append(self)
            return
        self._release()
        own = [self.alone, self.comm, *([] if self._control is None else [self._control])]
        # In an order that all agree on: which of them was first heard of differs between processes.
        groups = sorted(self.groups.values(), key=lambda group: group.processes)
        made = [group.comm for group in groups if group.comm is not None and group.comm not in own]
        for comm in made + own:
            comm.Free()
        self.groups.clear()


class _Control:
    """The side channel of the lifeline: small messages that arrive whatever the program does."""

    def __init__(self, comm):
        self._comm = comm
        self._sent: list = []

    def post_all(self, message: bytes) -> None:
        for other in range(self._comm.size):
            if other != self._comm.rank:
                self.post(message, other)

    def post(self, message: bytes, other: int) -> None:
        self._sent.append(self._comm.Isend([message, len(message), MPI.BYTE], other))

    def poll(self) -> list[tuple[int, bytes]]:
        """The messages that have come since the last call, with their senders."""
        found = []
        status = MPI.Status()
        # Taken in the act of finding: another thread may look at the same time.
        while (arrived := self._comm.Improbe(status=status)) is not None:
            message, source = bytearray(status.Get_count(MPI.BYTE)), status.Get_source()
            arrived.Recv([message, len(message), MPI.BYTE])
            found.append((source, bytes(message)))
        return found

    def all_sent(self) -> bool:
        return MPI.Request.Testall(self._sent)

    def abort(self, code: int = 1) -> None:
        abort(code)
