"""The wire over MPI: persistent requests and MPI's own functions, called by address.

Nothing is assumed of the library in use: the sizes of request handles and of statuses, and the addresses of its
functions, are read from it (``handles``, ``functions``: see ``library.py``).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence

import numpy as np

from spmd_grid.transport.mpi.group import Group
from spmd_grid.transport.mpi.library import MPI, MpiLibrary
from spmd_grid.transport.mpi.liveness.departure import Departed, WaitedFor, WireKey
from spmd_grid.transport.mpi.liveness.lifeline import Lifeline
from spmd_grid.transport.mpi.liveness.signals import raise_postponed_interrupt
from spmd_grid.transport.wire import YIELDS_BETWEEN_NODES, Messages, Posting, RequestHandles, Straight, Wire
from spmd_grid.watch.traffic import Activity

__all__ = ["MpiWire"]

# A process that waits on a core of its own polls for some microseconds.  Then it also gives way, since a third process
# may have made both neighbours share a core (with ten times the polls, calls took three times as long then, and no less
# otherwise), makes other progress, and handles signals.  One that shares its core gives way after a few polls, and then
# sleeps for a part of its waiting time.
_POLLS, _YIELDS = 200, 250
_POLITE_POLLS, _POLITE_YIELDS = 20, 200

_word_at = ctypes.c_int64.from_address


class _WireWait:
    """A wait for a word that another process writes; for messages, or for all ``processes``, if ``address`` is 0.

    ``value``: what the word must reach, or the number of the exchange; ``is_certain``: whether all of ``processes``
    must have come to it, with the same ``digest`` if there is one.
    """

    __slots__ = ("_address", "_digest", "_is_certain", "_key", "_processes", "_value")

    for_message = False

    def __init__(
        self,
        key: WireKey,
        address: int,
        value: int,
        processes: Sequence[int],
        is_certain: bool,
        digest: int | None = None,
    ):
        self._key, self._address, self._value, self._digest = key, address, value, digest
        self._processes, self._is_certain = processes, is_certain

    def ended_partner(self, departed: Departed) -> int | None:
        """The process that ended without writing the word, or sending the message."""
        if self._address and _word_at(self._address).value >= self._value:
            return None
        for process in self._processes:
            if process not in departed:
                continue
            number, other = departed[process].exchanged.get(self._key, 0), departed[process].digests.get(self._key)
            if number < self._value or (number == self._value and self._digest not in (None, other)):
                return process
        return None

    def awaited(self) -> Sequence[int]:
        """See `WaitedFor`."""
        return self._processes if self._is_certain else ()


class MpiWire(Wire):
    """The wire between this process and its neighbours.

    ``requests``: persistent receives, sends and shorts.  ``nap(seconds waited)`` lets other processes of a crowded
    node run.  ``send_straight(message)`` makes a persistent send of a message where it lies; ``on_close(wire)`` is
    called at the end; ``stir()`` lets messages go on that others wait for; ``duplicate()`` makes another communicator
    of the group, and is collective.
    """

    def __init__(
        self,
        comm: Group,
        requests: Sequence[Sequence[MPI.Request]],
        library: MpiLibrary,
        nap: Callable[[float, float], None] | None,
        lifeline: Lifeline | None,
        send_straight: Callable[[Straight], MPI.Request],
        on_close: Callable[[MpiWire], None],
        stir: Callable[[], None],
        duplicate: Callable[[], MPI.Intracomm],
    ):
        super().__init__()
        self._comm, self._lifeline = comm, lifeline
        self._nap, self._send_straight, self._on_close, self._stir = nap, send_straight, on_close, stir
        self._duplicate = duplicate
        self.times_well = nap is None
        self._waited_for: tuple[int, int, int] = (-1, 0, 0)
        self._waiting: WaitedFor | None = None
        self._began = self._called = 0.0
        self._library = library
        self._discarded: list[tuple[list[MPI.Request], np.ndarray]] = []
        self._persistent = [request for group in requests for request in group]
        self.start, self.test = library.functions
        self.requests = [(self.keep(library.handles(group)).ctypes.data, len(group)) for group in requests]
        self.statuses = self.keep(np.zeros(max(map(len, requests)) * library.status_bytes + 8, np.uint8)).ctypes.data
        word = ctypes.c_int64
        self.on_wait = self.callback(self._wait, word, word, word, word)
        self.polls, self.yields = (_POLLS, _YIELDS) if nap is None else (_POLITE_POLLS, _POLITE_YIELDS)
        if nap is None and any(requests):
            self.yields = YIELDS_BETWEEN_NODES
        self.yields_again = self.yields if nap is None else 0

    def watch(
        self,
        key: WireKey,
        epoch: Callable[[], int],
        messages: Messages,
        sources: Sequence[int],
        readers: Sequence[int],
        activity: Activity | None,
    ) -> None:
        """Sets what reports of waits need: the wire's key, the members that it waits for, and its purpose."""
        self.key, self.epoch = key, epoch
        self._sources, self._readers, self.activity = sources, readers, activity
        self._peers = [member for member, _ in messages.receives], [member for member, _ in messages.sends]

    def straight_sends(self, messages: Sequence[Straight]) -> RequestHandles:
        self._free_discarded()
        made = [self._send_straight(message) for message in messages]
        handles = self._library.handles(made)
        self._persistent += made
        # They may be released by the garbage collector, in the middle of anything: they are freed later.
        return RequestHandles(handles.ctypes.data, len(made), lambda: self._discarded.append((made, handles)))

    def posting(self, tag: int) -> Posting:
        return self._library.posting(self._comm.comm, tag)

    def posting_of_its_own(self) -> Posting:
        return self._library.posting(self.keep(self._duplicate()), MPI.ANY_TAG)

    def _free_discarded(self) -> None:
        while self._discarded:
            requests, _ = self._discarded.pop()
            for request in requests:
                if request in self._persistent:
                    self._persistent.remove(request)
                    request.Free()

    def _wait(self, address: int, value: int, member: int) -> None:
        raise_postponed_interrupt()
        recorder = self._comm.process.recorder
        is_in_loop = recorder is not None and recorder.is_idle
        activity = self if is_in_loop else self.purpose()
        if activity is not None:
            self._comm.process.activity = activity
        now = time.perf_counter()
        if address == 0:
            value = self.epoch()
        if self._waited_for != (address, value, member):
            self._waited_for, self._began = (address, value, member), now
            self._waiting = self._wait_for(address, value, member)
        if recorder is not None and is_in_loop:
            recorder.see(self, (self.key, self.epoch()))
        if self._lifeline is not None:
            self._lifeline.waiting = self._waiting
            self._lifeline.listen()
        self._stir()
        self._comm.process.progress()
        if self._nap is None:
            time.sleep(0)  # a compiled loop may hold the interpreter's lock, which other threads need
        else:
            # It gives way before each call; where it waits for another node, others may have had the core meanwhile.
            self._nap(now - self._began, 0.0 if address else now - self._called)
            self._called = time.perf_counter()

    def _wait_for(self, address: int, value: int, member: int) -> WaitedFor:
        if self.meets:
            return _WireWait(self.key, 0, self.epoch(), self._comm.processes, True)
        if address == 0:
            members = self._peers[member] if self.find_peers is None else self.find_peers(member)
        else:
            members = [self._sources[member] if member >= 0 else self._readers[-2 - member]]
        processes = [self._comm.processes[each] for each in members]
        if self.digest is not None:
            now = self.epoch()
            return _WireWait(self.key, address, value, processes, True, self.digest() if value == now else None)
        # MPI may complete a send before it is received.
        is_certain = address != 0 or member == 0
        return _WireWait(self.key, address, value, processes, is_certain)

    def close(self) -> None:
        if self._lifeline is not None and self._lifeline.waiting is self._waiting:
            self._lifeline.waiting = None
        for request in self._persistent:
            request.Free()
        self._persistent.clear()
        self._alive.clear()
        self._on_close(self)
