"""Requests whose waits can be judged: whether a process that has ended was to complete them.

They stand between the MPI transport, whose requests they wrap, and the `lifeline`, which asks ``hopeless``.  A
``group`` is the communicator they belong to, with its counts of meetings and frames.
"""

from __future__ import annotations

from collections.abc import Sequence

from spmd_grid.transport.lifeline import Departure

__all__ = ["Arrival", "Creation", "FrameReceive", "FrameSend", "Watched", "absent"]


class Watched:
    """A request whose wait the lifeline can tell to be in vain."""

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


class FrameReceive(Watched):
    """A started receive of one frame that remembers its sender."""

    __slots__ = ("_done", "_group", "_request", "_status", "source")

    def __init__(self, group, request, status, source: int | None):
        self.source = source
        self._group = group
        self._status = status
        self._request = request
        self._done = False

    def Test(self) -> bool:
        if not self._done and self._request.Test(self._status):
            self._complete()
        return self._done

    def Wait(self) -> None:
        if not self._done:
            self._request.Wait(self._status)
            self._complete()

    def _complete(self) -> None:
        self._done = True
        self.source = self._status.Get_source()
        self._group.received[self.source] += 1

    def hopeless(self, departed: dict[int, Departure]) -> int | None:
        """A sender that ended without sending this frame, when nobody else can send it."""
        group = self._group
        senders = range(group.size) if self.source is None else [self.source]
        for place in senders:
            process = group.processes[place]
            if place == group.rank and self.source is None:
                continue
            sent = departed[process].sent.get(group.processes) if process in departed else None
            if process not in departed or (sent is not None and sent[group.rank] > group.received[place]):
                return None
        others = [group.processes[place] for place in senders if place != group.rank]
        # The frame may have come while we looked; it is done before it is counted as received.
        return None if self._done or not others else others[0]


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
