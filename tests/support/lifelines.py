"""The lifeline of one process by itself, with a side channel of our own."""

import threading
from contextlib import contextmanager

from spmd_grid.transport.communicator import Process
from support.jobs import of_mpi


class SideChannel:
    """Receives ``answers`` to each message; messages are gone when ``all_sent`` has been asked often enough."""

    def __init__(self, looks_until_sent=1, answers=()):
        self.looks, self._until = 0, looks_until_sent
        self.posted, self.aborted = [], threading.Event()
        self._answers, self._arrived = answers, []

    def arrive(self, source, message):
        """Lets a message of another process arrive."""
        self._arrived.append((source, message))

    def post_all(self, message):
        self.posted.append(message)
        self._arrived += self._answers

    def post(self, message, other):
        self.posted.append(message)

    def poll(self):
        arrived, self._arrived = self._arrived, []
        return arrived

    def all_sent(self):
        self.looks += 1
        return self.is_sent

    @property
    def is_sent(self):
        return bool(self.posted) and self.looks >= self._until

    def abort(self, code):
        self.aborted.set()
        raise SystemExit(code)  # of the watching thread alone


@contextmanager
def watching(channel, rank=0):
    """The lifeline of a rank of 2; the other has ended."""
    lifeline = of_mpi("liveness.lifeline")
    found = lifeline.Lifeline(
        Process(rank, 2), channel, lambda departure: None, True, lambda rank: None, {}, None, {"here": [0, 1]}
    )
    found.departed[1 - rank] = of_mpi("liveness.departure").Departure(f"rank {1 - rank} ({1 - rank},)")
    try:
        yield found
    finally:
        found.waiting = None
        found.close(lambda own, departed: "")
