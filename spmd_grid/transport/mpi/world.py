"""The state that all communicators made from one user communicator share: processes, memory, and the lifeline."""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Mapping
from typing import cast

import numpy as np

from spmd_grid.transport.communicator import Process, StartedOperation
from spmd_grid.transport.mpi.group import Group
from spmd_grid.transport.mpi.hosts.hosts import meet_hosts
from spmd_grid.transport.mpi.hosts.namespaces import prove_messages
from spmd_grid.transport.mpi.hosts.traces import trace_all
from spmd_grid.transport.mpi.library import MPI, abort
from spmd_grid.transport.mpi.liveness.departure import Departed, Departure, WireKey, runs_that_differ
from spmd_grid.transport.mpi.liveness.exit_report import ExitReport
from spmd_grid.transport.mpi.liveness.lifeline import Lifeline
from spmd_grid.transport.mpi.liveness.lost_sends import lost_messages
from spmd_grid.transport.mpi.mailbox import Mailbox
from spmd_grid.transport.mpi.node import agreed_settings, survey_node
from spmd_grid.transport.mpi.wire import MpiWire
from spmd_grid.transport.process_numbers import pid_namespace
from spmd_grid.watch.recorder import RECORDER_BYTES, Recorder
from spmd_grid.watch.settings import Settings

__all__ = ["World"]

# The number of exchanges is remembered of at most this number of closed wires, since other processes may still wait.
_MOST_CLOSED = 4096

_CLOSED = "the program is at its end, and MPI is finalized: operations must come before that"


class World:
    """The state of one user communicator.  Two things are common to all worlds of a process: the started operations,
    since a wait in any world advances all of them, and the token of the gate, since a process runs one operation at a
    time.
    """

    pending: list[StartedOperation] = []
    dropped: list[StartedOperation] = []  # those of freed worlds: MPI may still write to their buffers
    tokens = [True]
    cut_off: list[World] = []  # freed by the user after an operation was cut off: MPI may still write to their memory
    is_traced = False  # whether the first world of this process is traced: others are not

    def __init__(self, user_comm: MPI.Intracomm):
        self.comm = user_comm.Dup()
        prove_messages(self.comm)
        self.hosts = meet_hosts(self.comm)
        self.process = Process(self.comm.rank, self.comm.size, self.pending, self.tokens)
        if len(self.hosts.ranks) > 1:
            self.process.host = self.hosts.names[self.comm.rank]
        self.alone = MPI.COMM_SELF.Dup()
        self.mailbox = Mailbox(self.comm)
        self._control: MPI.Intracomm | None = None
        self.groups: Mapping[tuple[int, ...], Group] = {}
        self.wires: set[MpiWire] = set()
        self.exchanged: dict[WireKey, int] = {}  # numbers of exchanges of closed wires
        self.polite, self.process.arena, self.process.nodes, self.process.cores = survey_node(self.comm)
        self.lifeline: Lifeline | None = None
        if self.comm.size > 1:
            watch = MPI.Query_thread() >= MPI.THREAD_MULTIPLE
            self._control = self.comm.Dup()
            self.lifeline = Lifeline(
                self.process,
                _Control(self._control),
                self._take_stock,
                watch,
                self._memory_of,
                *self._neighbours(),
                self.hosts.ranks,
            )
            self.process.gate.on_cut = self.lifeline.cut_off
        else:
            self.process.gate.on_cut = lambda text: None  # no other process to stay in step with
        self._watches = self.lifeline is not None and watch
        self.watched = Settings()
        self._recorder: Recorder | None = None
        self._recorders: list[int] = []  # of all processes: their offsets in the segments, or -1
        self.watch(agreed_settings(self.comm))

    def watch(self, settings: Settings) -> None:
        """Records operations and watches waits as ``settings`` say.  Collective, with equal settings."""
        self.watched = settings
        if settings.records:
            self.prepare_to_record()
        recorder = self.process.recorder = self._recorder if settings.records else None
        self.process.watched[0] = recorder is not None
        if recorder is not None:
            recorder.check = settings.check
            recorder.sign(self.process.label())
            if settings.trace is not None and not World.is_traced:
                World.is_traced = True
                trace_all(self.comm, self.hosts, settings.trace, self.process)
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
        """The system's process numbers of the others of this node that it can tell, by rank, and a word of memory that
        all of the node share.  Collective.  In another PID namespace a number means another process.
        """
        arena = self.process.arena
        self._line = line = arena.allocate(8, zeroed=True)
        offset = -1 if line is None else arena.offset_of(line.ctypes.data, line.nbytes)
        own = pid_namespace()
        spaces, numbers, offsets = zip(*self.comm.allgather((own, os.getpid(), offset)), strict=True)
        node = [process for process in range(self.comm.size) if arena.base_of(process) is not None]
        word = None
        if node and offsets[node[0]] >= 0:
            base = cast(int, arena.base_of(node[0]))
            word = np.ctypeslib.as_array((ctypes.c_int64 * 1).from_address(base + offsets[node[0]]))
        known = [process for process in node if process != self.comm.rank and spaces[process] == own]
        return {process: numbers[process] for process in known}, word

    def prepare_to_record(self) -> None:
        """Makes the recorder, so that some processes can record alone.  Collective over the world that time."""
        if self._recorder is not None:
            return
        arena = self.process.arena
        memory = arena.allocate(RECORDER_BYTES)
        offset = -1 if memory is None else arena.offset_of(memory.ctypes.data, memory.nbytes)
        self._recorders = self.comm.allgather(offset)
        self._recorder = Recorder(memory)

    def _memory_of(self, process: int) -> np.ndarray | None:
        """The memory of the recorder of a process, if this one can read it.  Local."""
        base = self.process.arena.base_of(process)
        if base is None or not self._recorders or self._recorders[process] < 0:
            return None
        return np.ctypeslib.as_array((ctypes.c_uint8 * RECORDER_BYTES).from_address(base + self._recorders[process]))

    def _take_stock(self, departure: Departure) -> None:
        departure.exchanged.update(tuple(self.exchanged.items()))
        for wire in tuple(self.wires):  # another thread may make or close one meanwhile
            departure.exchanged[wire.key] = wire.epoch()
            if wire.digest is not None:
                departure.digests[wire.key] = wire.digest()
        for processes, group in tuple(self.groups.items()):
            if group.is_opening:
                departure.opening.add(tuple(sorted(processes)))
            if group.is_open or group.entered:
                departure.entered[processes] = group.entered
            departure.sent[processes] = list(group.sent)
            departure.received[processes] = list(group.received)
        self.mailbox.count_asked(departure.asked)

    def forget(self, wire: MpiWire) -> None:
        """Removes a closed wire, but keeps its number of exchanges: another process may wait for one more."""
        self.wires.discard(wire)
        self.exchanged[wire.key] = wire.epoch()
        if len(self.exchanged) > _MOST_CLOSED:
            del self.exchanged[next(iter(self.exchanged))]

    def close(self) -> None:
        """Frees what MPI would report as leaked; runs once, when the program ends."""
        self._leave()
        self._release()

    def _leave(self) -> None:
        self.process.end()
        if self.lifeline is not None:
            self.lifeline.close(self._compare_ends)
        else:
            departure = Departure(self.process.label())
            self._take_stock(departure)
            if problem := self._compare_ends(departure, {}):
                ExitReport(0, None, True, abort).say(problem)
        self.process.gate.bar(_CLOSED)

    def _compare_ends(self, own: Departure, departed: Departed) -> str:
        """The words for what is wrong with the ends of all processes; empty if nothing is, or an error said more."""
        if self.process.gate.text or getattr(sys, "last_value", None) is not None:
            return ""
        return runs_that_differ(own, departed.values()) or lost_messages(own, departed, tuple(self.groups.values()))

    def _release(self) -> None:
        for wire in tuple(self.wires):
            wire.close()
        for group in self.groups.values():
            group.release()

    def free(self) -> None:
        """Frees all its communicators, when the user frees the communicator it was made from.  Collective.

        Nothing is freed if an operation was cut off: its requests may stay active for ever, and must not be freed
        then; its messages may still be on their way, and MPI would deliver them to the next communicator with the same
        context.
        """
        self._leave()
        self._drop_started()
        if self.process.gate.text != _CLOSED:
            self.cut_off.append(self)
            return
        self._release()
        own = [self.alone, self.comm, *([] if self._control is None else [self._control])]
        # In the same order on all processes; the order in which they were made may differ.
        groups = sorted(self.groups.values(), key=lambda group: group.processes)
        made = [group.comm for group in groups if group.comm is not None and group.comm not in own]
        for comm in made + own:
            comm.Free()
        self.groups = {}

    def _drop_started(self) -> None:
        """Takes this world's started operations, which can no longer end, from those that waits advance.  Local."""
        own = [started for started in self.pending if started.process is self.process]
        self.dropped.extend(own)
        for started in own:
            self.pending.remove(started)


class _Control:
    """The side channel of the lifeline: small messages that arrive whatever the program does."""

    def __init__(self, comm: MPI.Intracomm):
        self._comm = comm
        self._sent: list[MPI.Request] = []

    def post_all(self, message: bytes) -> None:
        for other in range(self._comm.size):
            if other != self._comm.rank:
                self.post(message, other)

    def post(self, message: bytes, other: int) -> None:
        self._sent.append(self._comm.Isend([message, len(message), MPI.BYTE], other))

    def poll(self) -> list[tuple[int, bytes]]:
        """The messages that have arrived since the last call, with their senders."""
        found = []
        status = MPI.Status()
        # A matched probe takes the message: another thread may probe at the same time.
        while (arrived := self._comm.Improbe(status=status)) is not None:
            message, source = bytearray(status.Get_count(MPI.BYTE)), status.Get_source()
            arrived.Recv([message, len(message), MPI.BYTE])
            found.append((source, bytes(message)))
        return found

    def all_sent(self) -> bool:
        return MPI.Request.Testall(self._sent)

    def abort(self, code: int = 1) -> None:
        abort(code)
