"""Frames between two processes, whose group need never have met.

To make a communicator of MPI is collective over all its members, but `send` and `recv` are of two.  So their frames
travel between the processes of the world, each behind the name of its group, and it is here that a receive gets the
first one of its group.  A frame that nobody of its group has asked for yet is kept.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b

from spmd_grid.transport.communicator import MESSAGE_FRAME_BYTES, tag_of
from spmd_grid.transport.mpi.library import MPI
from spmd_grid.transport.mpi.lifeline import Departure
from spmd_grid.transport.mpi.watched import Watched

__all__ = ["FrameReceive", "Mailbox", "group_name"]

_NAME_BYTES = 16
_MESSAGE_BYTES = _NAME_BYTES + MESSAGE_FRAME_BYTES
_TAG = tag_of("frames of send and recv")


class Mailbox:
    """The frames that come to this process.  ``comm`` is MPI's, of all processes."""

    def __init__(self, comm):
        self._comm = comm
        self._asked: list[FrameReceive] = []  # in this order
        self._kept: dict[bytes, deque[tuple[int, bytes]]] = {}  # by group: senders and frames
        self._message = bytearray(_MESSAGE_BYTES)
        self._request, self._status = None, MPI.Status()

    def send(self, group_name: bytes, frame: bytearray, process: int):
        """A request of MPI's.  Local."""
        return self._comm.Isend([group_name + frame, _MESSAGE_BYTES, MPI.BYTE], process, _TAG)

    def ask(self, receive: FrameReceive) -> FrameReceive:
        """Fills ``receive`` as soon as there is a frame for it.  Local."""
        kept = self._kept.get(receive.group_name, ())
        for at, (sender, frame) in enumerate(kept):
            if receive.takes(sender):
                del kept[at]
                receive.complete(sender, frame)
                return receive
        self._asked.append(receive)
        self._listen()
        return receive

    def look(self) -> None:
        """Hands out what has come.  Local."""
        while self._request is not None and self._request.Test(self._status):
            self._hand_out()

    def wait(self) -> None:
        """Waits for one more frame, of whomever, and hands it out."""
        self._request.Wait(self._status)
        self._hand_out()

    def _listen(self) -> None:
        if self._request is None and self._asked:
            self._request = self._comm.Irecv([self._message, _MESSAGE_BYTES, MPI.BYTE], MPI.ANY_SOURCE, _TAG)

    def _hand_out(self) -> None:
        self._request = None
        sender, name = self._status.Get_source(), bytes(self._message[:_NAME_BYTES])
        frame = bytes(self._message[_NAME_BYTES:])
        for receive in self._asked:
            if receive.group_name == name and receive.takes(sender):
                self._asked.remove(receive)
                receive.complete(sender, frame)
                break
        else:
            self._kept.setdefault(name, deque()).append((sender, frame))
        self._listen()


class FrameReceive(Watched):
    """A receive of one frame of ``group``, from its member ``source`` or from anybody, whom it names then."""

    __slots__ = ("_frame", "_group", "_is_done", "_mailbox", "group_name", "source")

    def __init__(self, group, mailbox: Mailbox, frame: bytearray, source: int | None):
        self.source = source
        self.group_name = group.name
        self._group = group
        self._mailbox = mailbox
        self._frame = frame
        self._is_done = False

    def takes(self, sender: int) -> bool:
        """Whether it is for frames of this process, which is a member."""
        return self.source is None or self._group.processes[self.source] == sender

    def complete(self, sender: int, frame: bytes) -> None:
        self._frame[:] = frame
        self.source = place = self._group.processes.index(sender)
        self._is_done = True
        self._group.received[place] += 1

    def Test(self) -> bool:
        if not self._is_done:
            self._mailbox.look()
        return self._is_done

    def Wait(self) -> None:
        while not self._is_done:
            self._mailbox.wait()

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
        return None if self._is_done or not others else others[0]


def group_name(processes: tuple[int, ...]) -> bytes:
    """Bytes that no two groups of a program share."""
    return blake2b(repr(processes).encode(), digest_size=_NAME_BYTES).digest()
