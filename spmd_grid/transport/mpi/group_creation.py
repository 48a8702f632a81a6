"""How processes meet that have no communicator of their own yet: as a set, whatever order each of them thinks of.

To make a communicator of MPI is collective over an ordered group.  Processes that disagree about the order would make
different ones and wait for ever, so they meet before that and compare.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spmd_grid.transport.communicator import tag_of
from spmd_grid.transport.mismatch import OVERLAPPING_GROUPS, mismatch
from spmd_grid.transport.mpi.mailbox import group_name

__all__ = ["Gathering"]

_TAG = tag_of("meetings")


class Gathering:
    """A meeting of ``processes``, whose order does not matter.

    ``comm``: MPI's, of all processes; ``said``: what this process comes for, in words; ``poll(test)`` waits until
    ``test()`` is true, while started operations go on: MPI moves none of them while it makes a communicator.
    """

    def __init__(self, comm, processes: Sequence[int], said: str, poll: Callable):
        self._comm, self._said, self._poll = comm, said, poll
        self._members = sorted(processes)
        self._name = group_name(tuple(self._members))
        self._rounds: dict[object, tuple[list, list]] = {}  # requests of what was sent, and what came, by what is asked

    def poll_by(self, poll: Callable) -> None:
        """From now on it waits so."""
        self._poll = poll

    def compare(self, word) -> list[str] | None:
        """What all say, in ascending order, where they bring different words; None where all are alike.  Collective."""
        if len(self.union({word: None})) == 1:
            return None
        told = self.union({self._comm.rank: self._said})
        return [told[process] for process in self._members]

    def union(self, mine: dict) -> dict:
        """What all bring.  Collective.  Raises MismatchError on who meets a process that waits in another gathering.

        Goes round as a dissemination barrier does: D. Hensgen, R. Finkel and U. Manber, "Two algorithms for barrier
        synchronization" (1988).  One that an exception has cut off may be called again, and goes on where it was.
        """
        comm, members = self._comm, self._members
        size, me = len(members), members.index(comm.rank)
        sent, received = self._rounds.setdefault(next(iter(mine)), ([], []))
        while True:
            known = dict(mine)
            for name, said, found in received:
                if name != self._name:  # messages arrive in the order in which they were sent: neither will ever go on
                    raise mismatch([self._said, said], OVERLAPPING_GROUPS)
                known.update(found)
            step = 1 << len(received)
            if step >= size:
                break
            source, target = members[(me - step) % size], members[(me + step) % size]
            # Done and noted in one call of C, so that no exception comes between.
            if len(sent) == len(received):
                sent.extend(map(comm.isend, [(self._name, self._said, known)], [target], [_TAG]))
            self._poll(lambda source=source: comm.Iprobe(source, _TAG))
            received.extend(map(comm.recv, [None], [source], [_TAG]))
        for request in sent:
            self._poll(request.Test)
        return known
