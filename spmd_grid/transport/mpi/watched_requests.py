"""Requests that can tell whether a process that has ended was to complete them.

The communicators over MPI wrap their requests in these; the `lifeline` asks ``ended_partner``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spmd_grid.transport.mpi.group import Group
from spmd_grid.transport.mpi.liveness.departure import Departed, absent_member
from spmd_grid.watch.traffic import Activity

__all__ = ["Arrival", "Creation", "FrameSend", "MeetingWait", "Testable", "Watched"]


class Testable(Protocol):
    """A request that is completed by polling: MPI's own, and those of this package."""

    def Test(self) -> bool:
        """Whether it is complete; makes progress."""


class Watched:
    """A request for which the lifeline can find a process that will never complete it."""

    __slots__ = ("Test",)

    for_message = True

    def __init__(self, request: Testable):
        self.Test = request.Test

    def ended_partner(self, departed: Departed) -> int | None:
        """See `WaitedFor`."""
        raise NotImplementedError

    def awaited(self) -> Sequence[int]:
        """See `WaitedFor`."""
        raise NotImplementedError


class MeetingWait:
    """A wait in a meeting of a group, in which all its members take part."""

    __slots__ = ("_number", "_processes")

    for_message = False

    def __init__(self, group: Group):
        self._processes = group.processes
        self._number = group.entered

    def ended_partner(self, departed: Departed) -> int | None:
        """The member that ended before it entered the meeting."""
        return absent_member(self._processes, self._number, departed)

    def awaited(self) -> Sequence[int]:
        """All members."""
        return self._processes


class Arrival(Watched):
    """This process's arrival at a meeting point."""

    __slots__ = ("_wait",)

    for_message = False

    def __init__(self, group: Group, request: Testable):
        super().__init__(request)
        self._wait = MeetingWait(group)

    def ended_partner(self, departed: Departed) -> int | None:
        """The member that ended before it arrived."""
        return self._wait.ended_partner(departed)

    def awaited(self) -> Sequence[int]:
        """All members."""
        return self._wait.awaited()


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

    def awaited(self) -> Sequence[int]:
        """None: MPI may complete a send before it is received."""
        return ()


class Creation:
    """The making of a communicator, in which all its members take part."""

    for_message = False

    def __init__(self, processes: tuple[int, ...], activity: Activity | None = None):
        self._processes = processes
        self._activity = activity

    def describe(self) -> str:
        """The operation that needs the communicator, for reports."""
        return f"{'a group' if self._activity is None else self._activity.describe()}, first use of the group"

    def ended_partner(self, departed: Departed) -> int | None:
        """The member that ended before it used the group."""
        members = tuple(sorted(self._processes))
        for process in self._processes:
            if process in departed:
                other = departed[process]
                if self._processes not in other.entered and members not in other.opening:
                    return process
        return None

    def awaited(self) -> Sequence[int]:
        """All members."""
        return self._processes
