"""The first meeting of processes that have no communicator of their own yet.

Making a communicator of MPI is collective over an ordered group.  Processes that disagree about the order would make
different ones and wait for ever, so they first meet as a set, and compare their orders.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from spmd_grid.errors import MismatchError, SpmdError, TransportError
from spmd_grid.transport.communicator import tag_of
from spmd_grid.transport.mismatch import DIFFERENT_GROUPS, OVERLAPPING_GROUPS, mismatch
from spmd_grid.transport.mpi.group import Group, group_digest
from spmd_grid.transport.mpi.library import MPI

__all__ = ["Gathering", "open_group"]

_TAG = tag_of("meetings")
# How long a process that was cut off waits for members that may be making a communicator with it.
_FINISHING_SECONDS = 1.0

Poll: TypeAlias = Callable[[Callable[[], bool]], None]  # waits until the function returns true


class Gathering:
    """A meeting of ``processes``, whose order does not matter.

    ``comm``: MPI's communicator of all processes; ``text``: what this process is doing, for error messages.
    ``poll(test)`` waits until ``test()`` is true while started operations go on, since MPI advances none of them while
    it makes a communicator.
    """

    def __init__(self, comm: MPI.Intracomm, processes: Sequence[int], text: str, poll: Poll):
        self._comm, self._text, self.poll = comm, text, poll
        self._members = sorted(processes)
        self._name = group_digest(tuple(self._members))
        # Requests of what was sent, and what was received, by the first key that is exchanged.
        self._rounds: dict[Any, tuple[list[MPI.Request], list[tuple[bytes, str, dict[Any, Any]]]]] = {}

    def compare(self, value: object) -> list[str] | None:
        """The texts of all members, in ascending order, if their values differ; None if all are equal.  Collective."""
        if len(self.union({value: None})) == 1:
            return None
        texts = self.union({self._comm.rank: self._text})
        return [texts[process] for process in self._members]

    def union(self, mine: dict[Any, Any]) -> dict[Any, Any]:
        """The union of the dictionaries of all members.  Collective.

        Raises MismatchError on a process that meets one which waits in another gathering.

        The messages are those of a dissemination barrier: D. Hensgen, R. Finkel and U. Manber, "Two algorithms for
        barrier synchronization" (1988).  A call that an exception cut off may be repeated, and goes on where it was.
        """
        comm, members = self._comm, self._members
        size, me = len(members), members.index(comm.rank)
        sent, received = self._rounds.setdefault(next(iter(mine)), ([], []))
        while True:
            known = dict(mine)
            for name, text, found in received:
                if name != self._name:  # messages arrive in the order in which they were sent: neither can go on
                    raise mismatch([self._text, text], OVERLAPPING_GROUPS)
                known.update(found)
            step = 1 << len(received)
            if step >= size:
                break
            source, target = members[(me - step) % size], members[(me + step) % size]
            # Done and noted in one call of C, so that no exception comes between.
            if len(sent) == len(received):
                sent.extend(map(comm.isend, [(self._name, self._text, known)], [target], [_TAG]))
            self.poll(partial(comm.Iprobe, source, _TAG))
            received.extend(map(comm.recv, [None], [source], [_TAG]))
        for request in sent:
            self.poll(request.Test)
        return known


def open_group(group: Group, world: MPI.Intracomm, gathering: Gathering) -> None:
    """Makes the communicator of ``group`` once its members have met.  Collective.  Raises MismatchError."""
    made: list[MPI.Intracomm] = []
    try:
        _meet_and_make(group, world, gathering, made)
    except MismatchError:
        raise
    except BaseException:
        _finish(group, world, gathering, made)
        raise


def _meet_and_make(group: Group, world: MPI.Intracomm, gathering: Gathering, made: list[MPI.Intracomm]) -> None:
    texts = gathering.compare(group.processes)
    if texts is not None:
        error = mismatch(texts, DIFFERENT_GROUPS)
        error.is_shared = True
        raise error
    if group.comm is None:
        everyone = world.Get_group()
        members = everyone.Incl(group.processes)
        if not made:
            made.extend(map(world.Create_group, [members]))  # made and noted in one call of C
        group.comm = made[0]
        members.Free()
        everyone.Free()


def _finish(group: Group, world: MPI.Intracomm, gathering: Gathering, made: list[MPI.Intracomm]) -> None:
    """Completes the creation after an exception: members that are making the communicator wait for this one in MPI,
    where no message reaches them.  If there are any, all members have come to the gathering, so it ends soon.
    """
    deadline = time.perf_counter() + _FINISHING_SECONDS

    def poll(test: Callable[[], bool]) -> None:
        while not test():
            if time.perf_counter() > deadline:
                raise TransportError("not all members have come")
            time.sleep(0)

    gathering.poll = poll
    with suppress(SpmdError):
        _meet_and_make(group, world, gathering, made)
