"""How processes meet that have no communicator of their own yet: as a set, whatever order each of them thinks of.

To make a communicator of MPI is collective over an ordered group.  Processes that disagree about the order would make
different ones and wait for ever, so they meet before that and compare.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

from spmd_grid.transport.communicator import tag_of
from spmd_grid.transport.mismatch import OVERLAPPING_GROUPS, mismatch
from spmd_grid.transport.mpi.library import MPI
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

    def compare(self, word) -> list[str] | None:
        """What all say, in ascending order, where they bring different words; None where all are alike.  Collective."""
        if len(self.union({word: None})) == 1:
            return None
        told = self.union({self._comm.rank: self._said})
        return [told[process] for process in self._members]

    def union(self, mine: dict) -> dict:
        """What all bring.  Collective.  Raises MismatchError on who meets a process that waits in another gathering.

        Goes round as a dissemination barrier does: D. Hensgen, R. Finkel and U. Manber, "Two algorithms for barrier
        synchronization" (1988).
        """
        comm, members, status = self._comm, self._members, MPI.Status()
        size, me = len(members), members.index(comm.rank)
        known, sent, step = dict(mine), [], 1
        while step < size:
            source, target = members[(me - step) % size], members[(me + step) % size]
            message = pickle.dumps((self._name, self._said, known))
            sent.append(comm.Isend([message, len(message), MPI.BYTE], target, _TAG))
            self._poll(lambda source=source: comm.Iprobe(source, _TAG, status))
            message = bytearray(status.Get_count(MPI.BYTE))
            comm.Recv([message, len(message), MPI.BYTE], source, _TAG)
            name, said, found = pickle.loads(message)
            if name != self._name:  # messages arrive in the order in which they were sent: neither will ever go on
                raise mismatch([self._said, said], OVERLAPPING_GROUPS)
            known.update(found)
            step *= 2
        for request in sent:
            self._poll(request.Test)
        return known
