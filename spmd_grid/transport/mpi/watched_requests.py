"""Requests that can tell whether a process that has ended was to complete them.

The communicators over MPI wrap their requests in these; the `lifeline` asks ``ended_partner``.
"""

from __future__ import annotations

from typing import Protocol

from spmd_grid.transport.mpi.group import Group
from spmd_grid.transport.mpi.liveness.departure import Departed, absent_member
from spmd_grid.watch.traffic import Activity

__all__ = ["Arrival", "Creation", "FrameSend", "Testable", "Watched"]


class Testable(Protocol):
    """A request that is completed by polling: MPI's own, and those of this package."""

    def Test(self) -> bool:
        """Whether it is complete; makes progress."""


class Watched:
    """A request for which the lifeline can find a process that will never complete it."""

    __slots__ = ("Test",)

    def __init__(self, request: Testable):
        self.Test = request.Test

    def ended_partner(self, departed: Departed) -> int | None:
        """See `WaitedFor`."""
        raise NotImplementedError


class Arrival(Watched):
    """This process's arrival at a meeting point."""

    __slots__ = ("_number", "_processes")

    def __init__(self, group: Group, request: Testable):
        super().__init__(request)
        self._processes = group.processes
        self._number = group.entered

    def ended_partner(self, departed: Departed) -> int | None:
        """The member that ended before it arrived."""
        return absent_member(self._processes, self._number, departed)


class FrameSend(Watched):
    """A frame on its way to one member, and all that follows it."""

    __slots__ = ("_group", "_number", "_peer")

    def __init__(self, group: Group, request: Testable, peer: int):
        super().__init__(request)
        self._group = group
        self._peer = peer
        self._number = group.sent[peer]

    def ended_partner(self, departed: Departed) -> int | None:
        """The receiver, if it ended without receiving the frame."""
        group, process = self._group, self._group.processes[self._peer]
        if process not in departed:
            return None
        received = departed[process].received.get(group.processes)
        return process if received is None or received[group.rank] < self._number else None


class Creation:
    """The making of a communicator, in which all its members take part."""

    def __init__(self, processes: tuple[int, ...], activity: Activity | None = None):
        self._processes = processes
        self._activity = activity

    def describe(self) -> str:
        """The operation that needs the communicator, for reports."""
        return f"{'a group' if self._activity is None else self._activity.describe()}, first use of the group"

    def ended_partner(self, departed: Departed) -> int | None:
        """The member that ended before it used the group."""
        gone = [p for p in self._processes if p in departed and self._processes not in departed[p].entered]
        return gone[0] if gone else None
