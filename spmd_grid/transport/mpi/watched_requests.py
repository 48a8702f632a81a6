"""Requests whose waits can be judged: whether a process that has ended was to complete them.

They stand between the communicators over MPI, whose requests they wrap, and the `lifeline`, which asks ``hopeless``.  A
``group`` is the communicator they belong to, with its counts of meetings and frames.
"""

from __future__ import annotations

from collections.abc import Sequence

from spmd_grid.transport.mpi.liveness.lifeline import Departure

__all__ = ["Arrival", "Creation", "FrameSend", "Watched", "absent"]


class Watched:
    """A request whose wait the lifeline can tell to be in vain.

    ``Wait``: None where only ``Test`` can tell the end.
    """

    __slots__ = ("Test", "Wait")

    def __init__(self, request):
        self.Test = request.Test
        self.Wait = request.Wait


class Arrival(Watched):
    """This process's arrival at a meeting point."""

    __slots__ = ("_number", "_processes")

    def __init__(self, group, request):
        super().__init__(request)
        self._processes = group.processes
        self._number = group.entered

    def hopeless(self, departed: dict[int, Departure]) -> int | None:
        return absent(self._processes, self._number, departed)


class FrameSend(Watched):
    """A frame on its way to one member, and all that follows it."""

    __slots__ = ("_group", "_number", "_peer")

    def __init__(self, group, request, peer: int):
        super().__init__(request)
        self._group = group
        self._peer = peer
        self._number = group.sent[peer]

    def hopeless(self, departed: dict[int, Departure]) -> int | None:
        """The receiver, if it ended without taking the frame."""
        group, process = self._group, self._group.processes[self._peer]
        if process not in departed:
            return None
        received = departed[process].received.get(group.processes)
        return process if received is None or received[group.rank] < self._number else None


class Creation:
    """The making of a communicator, in which all its members take part."""

    def __init__(self, processes: tuple[int, ...], activity=None):
        self._processes = processes
        self._activity = activity

    def describe(self) -> str:
        """What the communicator is made for."""
        return f"{'a group' if self._activity is None else self._activity.describe()}, first use of the group"

    def hopeless(self, departed: dict[int, Departure]) -> int | None:
        gone = [p for p in self._processes if p in departed and self._processes not in departed[p].entered]
        return gone[0] if gone else None


def absent(processes: Sequence[int], meeting: int, departed: dict[int, Departure]) -> int | None:
    """The member that ended before it came to a meeting of the group, counted from 1."""
    for process in processes:
        if process in departed and departed[process].entered.get(processes, 0) < meeting:
            return process
    return None
