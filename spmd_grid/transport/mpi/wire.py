"""The wire over MPI: persistent requests and MPI's own functions, called by address.

Nothing is assumed of the library in use: how wide a request handle and a status are, and where its functions lie, is
read from it (``handles``, ``functions``: see ``library.py``).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence

import numpy as np

from spmd_grid.transport.mpi.liveness.lifeline import Departure
from spmd_grid.transport.mpi.liveness.signals import raise_held_back
from spmd_grid.transport.wire import Messages, Requests, Straight, Wire

__all__ = ["MpiWire"]

# A process that waits on a core of its own polls for some microseconds, then also gives way, since a third process may
# have made both neighbours share a core (with ten times the polls, calls took three times as long then, and no less
# else); and looks what else there is to do, signals among it.  One that shares its core gives way after a few looks,
# and then sleeps for a part of what it has waited.
_POLLS, _YIELDS = 200, 250
_POLITE_POLLS, _POLITE_YIELDS = 20, 200

_word_at = ctypes.c_int64.from_address


class MpiWire(Wire):
    """The wire between this process and its neighbours.

    ``requests``: persistent receives, sends and shorts.  ``nap(seconds waited)`` lets other processes of a crowded
    node run.  ``key`` names this wire in every process that has one end of it, ``epoch()`` says how many exchanges
    this process has begun.
    """

    def __init__(self, comm, requests: Sequence[Sequence], library, nap: Callable[[float], None] | None, lifeline):
        super().__init__()
        self._comm, self._lifeline = comm, lifeline
        self._nap = nap
        self.times_well = nap is None
        self._waited_for, self._began = None, 0.0
        self._library = library
        self._discarded: list = []
        self._persistent = [request for group in requests for request in group]
        self.start, self.test = library.functions
        self.requests = [(self.keep(library.handles(group)).ctypes.data, len(group)) for group in requests]
        self.statuses = self.keep(np.zeros(max(map(len, requests)) * library.status_bytes + 8, np.uint8)).ctypes.data
        word = ctypes.c_int64
        self.on_wait = self.callback(self._wait, word, word, word, word)
        self.polls, self.yields = (_POLLS, _YIELDS) if nap is None else (_POLITE_POLLS, _POLITE_YIELDS)

    def watch(self, key: tuple, epoch: Callable[[], int], messages: Messages, sources, readers, activity) -> None:
        """Says by which name others know this wire, and who is waited for."""
        self.key, self.epoch = key, epoch
        self._sources, self._readers, self.activity = sources, readers, activity
        self._peers = [place for place, _ in messages.receives], [place for place, _ in messages.sends]

    def straight_sends(self, messages: Sequence[Straight]) -> Requests:
        self._free_discarded()
        made = [self.send_straight(message) for message in messages]
        handles = self._library.handles(made)
        self._persistent += made
        # Whoever lets them go may be the garbage collector, in the midst of anything: they are freed later.
        return Requests(handles.ctypes.data, len(made), lambda: self._discarded.append((made, handles)))

    def _free_discarded(self) -> None:
        while self._discarded:
            requests, _ = self._discarded.pop()
            for request in requests:
                if request in self._persistent:
                    self._persistent.remove(request)
                    request.Free()

    def _wait(self, address: int, value: int, member: int) -> None:
        raise_held_back()
        if self.activity is not None:
            self._comm.process.activity = self.activity
        now = time.perf_counter()
        if self._waited_for != (address, value, member):
            self._waited_for, self._began = (address, value, member), now
        recorder = self._comm.process.recorder
        if recorder is not None and recorder.is_idle:
            recorder.see(self, (self.key, self.epoch()))
        if self._lifeline is not None:
            self._lifeline.waiting = self
            self._lifeline.listen()
        self._comm.process.progress()
        if self._nap is None:
            time.sleep(0)  # the interpreter's lock: a compiled loop may hold it, and others want to look around
        else:
            self._nap(now - self._began)

    def hopeless(self, departed: dict[int, Departure]) -> int | None:
        """The process that ended without writing what this one waits for."""
        address, value, member = self._waited_for
        if address and _word_at(address).value >= value:
            return None
        if address == 0:
            places, value = self._peers[member], self.epoch()
        else:
            places = [self._sources[member] if member >= 0 else self._readers[-2 - member]]
        for process in (self._comm.processes[place] for place in places):
            if process in departed and departed[process].exchanged.get(self.key, 0) < value:
                return process
        return None

    def close(self) -> None:
        for request in self._persistent:
            request.Free()
        self._persistent.clear()
        self._alive.clear()
        self.on_close(self)
