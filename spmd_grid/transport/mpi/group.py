"""An ordered group of MPI processes, and what one member has done in it."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b

from spmd_grid.transport.communicator import Process
from spmd_grid.transport.lost_messages import Sent
from spmd_grid.transport.mpi.library import MPI

__all__ = ["GROUP_NAME_BYTES", "Group", "group_digest"]

GROUP_NAME_BYTES = 16

_MOST_KEPT = 64  # calls that sent to one member


class Group:
    """The members of a group and the counts that the lifeline compares between processes.

    ``entered``: number of meetings that this member has entered; ``sent``, ``received``: numbers of frames, by member;
    ``last_sent``: the calls that sent the last of them.
    ``comm``: MPI's communicator, made when the members first meet.  ``is_open``: whether they have met, and agree on
    their order; ``is_opening``: whether this member is about to find out.
    """

    process: Process

    def __init__(self, processes: tuple[int, ...], process: int):
        self.rank = processes.index(process)
        self.size = len(processes)
        self.processes = processes
        self.name = group_digest(processes)
        self.comm: MPI.Intracomm = None  # type: ignore[assignment]  # until the members first meet
        self.is_open = self.is_opening = False
        self.entered = 0
        self.sent = [0] * self.size
        self.received = [0] * self.size
        self.last_sent: dict[int, deque[Sent]] = {}

    def note_sent(self, member: int, sent: Sent | None) -> None:
        """Counts a frame that is sent to a member.  Local."""
        self.sent[member] += 1
        if sent is not None:
            try:
                self.last_sent[member].append(sent)
            except KeyError:
                self.last_sent[member] = deque([sent], _MOST_KEPT)

    def release(self) -> None:
        """Frees the requests that were made for the group.  Local."""


def group_digest(processes: tuple[int, ...]) -> bytes:
    """Bytes that differ between any two groups of a program."""
    return blake2b(repr(processes).encode(), digest_size=GROUP_NAME_BYTES).digest()
