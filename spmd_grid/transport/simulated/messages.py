"""Messages between simulated ranks: sends and receives that wait for one another."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from spmd_grid.errors import TransportError
from spmd_grid.transport.lost_messages import Sent
from spmd_grid.transport.simulated.scheduler import Scheduler

__all__ = ["Inbox", "SentMessage", "PendingSend", "PendingReceive", "Pending", "copy_bytes"]


class Pending:
    """Something that the member ``source`` of a group completes, or any member if that is None.

    ``waiter``: the rank to wake then.
    """

    __slots__ = ("processes", "source", "waiter")

    def __init__(self, processes: tuple[int, ...], source: int | None):
        self.processes = processes
        self.source = source
        self.waiter: int | None = None

    @property
    def done(self) -> bool:
        raise NotImplementedError


class PendingReceive(Pending):
    """A receive into ``target``; with ``at_most``, of a message that may be shorter.

    ``stamp``: its turn among the receives of its mailbox.
    """

    __slots__ = ("at_most", "bodies", "done", "sender", "stamp", "target")

    bodies: deque[np.ndarray]
    done: bool
    sender: int

    def __init__(
        self, processes: tuple[int, ...], target: np.ndarray, source: int | None, stamp: int, at_most: bool = False
    ):
        super().__init__(processes, source)
        self.target = target
        self.at_most = at_most
        self.stamp = stamp
        self.done = False

    def complete(self, data: np.ndarray, bodies: deque[np.ndarray], sender: int) -> None:
        copy_bytes(data, self.target[: len(data)] if self.at_most else self.target)
        self.bodies = bodies
        self.source = self.sender = sender
        self.done = True


class PendingSend(Pending):
    """A message that keeps its sender waiting until ``receiver`` receives it, or has ended."""

    __slots__ = ("_receiver", "_scheduler", "is_received")

    def __init__(self, scheduler: Scheduler, processes: tuple[int, ...], receiver: int):
        super().__init__(processes, receiver)
        self._scheduler = scheduler
        self._receiver = processes[receiver]
        self.is_received = False

    @property
    def done(self) -> bool:
        return self.is_received or self._scheduler.has_ended(self._receiver)


class SentMessage(NamedTuple):
    """A message that has been sent and not yet received.

    ``pending``: the request of a sender that waits; ``sent``: the call, of messages whose loss is an error.
    """

    stamp: int
    data: np.ndarray
    bodies: deque[np.ndarray]
    pending: PendingSend | None
    sent: Sent | None


class Inbox:
    """The messages to one member: ``arrived`` before a receive, or ``posted`` receives without a message."""

    __slots__ = ("arrived", "clock", "posted")

    def __init__(self) -> None:
        self.arrived: dict[tuple[int, int], deque[SentMessage]] = {}
        self.posted: dict[tuple[int | None, int], deque[PendingReceive]] = {}
        self.clock = 0

    def take_receive(self, source: int, tag: int) -> PendingReceive | None:
        """Takes the earliest posted receive that a message from ``source`` completes."""
        keys: list[tuple[int | None, int]] = [key for key in ((source, tag), (None, tag)) if self.posted.get(key)]
        if not keys:
            return None
        key = min(keys, key=lambda key: self.posted[key][0].stamp)
        receive = self.posted[key].popleft()
        if not self.posted[key]:
            del self.posted[key]
        return receive

    def take_message(self, sender: int, tag: int) -> SentMessage:
        """Takes the earliest message of ``sender``."""
        queue = self.arrived[sender, tag]
        message = queue.popleft()
        if not queue:
            del self.arrived[sender, tag]
        return message

    def senders(self, tag: int) -> list[int]:
        """The senders of messages with ``tag``, that of the earliest first."""
        senders = [sender for sender, its_tag in self.arrived if its_tag == tag]
        return sorted(senders, key=lambda sender: self.arrived[sender, tag][0].stamp)


def copy_bytes(data: np.ndarray, target: np.ndarray) -> None:
    """Copies a message into its buffer.  Raises TransportError unless their sizes are equal."""
    if len(data) != len(target):
        raise TransportError(f"a message of {len(data)} bytes meets a buffer of {len(target)} bytes")
    target[:] = data
