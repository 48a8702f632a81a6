"""Messages between two processes, whose group need never have met.

To make a communicator of MPI is collective over all its members, but `send` and `recv` are of two.  So their messages
travel between the processes of the world: a frame, behind the name of its group, and the bodies that it announces.  It
is here that a receive gets the first frame of its group; one that nobody of its group has asked for yet is kept.

A frame is received once it has come, from the process that has sent it.  A receive from anybody that is posted before
may wait for ever: MPICH over UCX loses messages to it where two threads call MPI.

The bodies of a message have a tag of their own, but tags come again.  MPI matches messages of one sender and one tag in
the order in which they were sent, groups may be heard in any order: bodies that are in the way of others are taken
aside until somebody asks for them.
"""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from spmd_grid.transport.communicator import MESSAGE_FRAME_BYTES, MOST_BODIES, tag_of
from spmd_grid.transport.mpi.buffers import pieces
from spmd_grid.transport.mpi.library import MPI
from spmd_grid.transport.mpi.liveness.lifeline import Departure
from spmd_grid.transport.mpi.watched_requests import Watched

__all__ = ["FrameReceive", "Mailbox", "group_name"]

_NAME_BYTES = 16
_HEAD = struct.Struct(f"<{_NAME_BYTES}sII{MOST_BODIES}Q")  # the group, the tag and the number of bodies, their lengths
_MESSAGE_BYTES = _HEAD.size + MESSAGE_FRAME_BYTES
_TAG = tag_of("frames of send and recv")


class Mailbox:
    """The messages of this process.  ``comm`` is MPI's, of all processes."""

    def __init__(self, comm):
        self._comm = comm
        self._asked: list[FrameReceive] = []  # in this order
        self._kept: dict[bytes, deque[tuple[bytes, _Bodies]]] = {}  # frames by group
        self._message, self._status = bytearray(_MESSAGE_BYTES), MPI.Status()
        self._turns: Counter[int] = Counter()  # messages with bodies so far, by process
        self._announced: dict[tuple[int, int], deque[_Bodies]] = {}  # not asked for yet, by sender and tag

    def send(self, group_name: bytes, frame: bytearray, bodies: Sequence, process: int) -> list:
        """Requests of MPI's, that of the frame first.  Local."""
        comm, tag = self._comm, 0
        if bodies:
            self._turns[process] += 1
            tag = tag_of("bodies of send and recv", self._turns[process])
        lengths = [*map(len, bodies), *[0] * (MOST_BODIES - len(bodies))]
        message = _HEAD.pack(group_name, tag, len(bodies), *lengths) + frame
        requests = [comm.Isend([message, _MESSAGE_BYTES, MPI.BYTE], process, _TAG)]
        for body in bodies:
            requests += [comm.Isend([piece, len(piece), MPI.BYTE], process, tag) for piece in pieces(body)]
        return requests

    def ask(self, receive: FrameReceive) -> FrameReceive:
        """Fills ``receive`` as soon as there is a frame for it.  Local."""
        kept = self._kept.get(receive.group_name, ())
        for at, (frame, bodies) in enumerate(kept):
            if receive.takes(bodies.sender):
                del kept[at]
                if not kept:
                    del self._kept[receive.group_name]
                receive.complete(frame, bodies)
                return receive
        self._asked.append(receive)
        return receive

    def withdraw(self, receive: FrameReceive) -> None:
        """Nobody waits for it any more.  Local."""
        self._asked.remove(receive)

    def body(self, bodies: _Bodies, buffer) -> list:
        """Requests for the next of the bodies into ``buffer``.  Local."""
        if bodies.aside:
            return [bodies.aside.popleft().into(buffer)]
        announced = self._announced[bodies.sender, bodies.tag]
        while announced[0] is not bodies:
            announced.popleft().take_aside(self._receive)
        bodies.lengths.popleft()
        if not bodies.lengths:
            announced.popleft()
            if not announced:
                del self._announced[bodies.sender, bodies.tag]
        return self._receive(bodies, buffer)

    def look(self) -> None:
        """Hands out what has come, as long as somebody asks.  Local."""
        comm, status = self._comm, self._status
        while self._asked and comm.Iprobe(MPI.ANY_SOURCE, _TAG, status):
            sender = status.Get_source()
            comm.Recv([self._message, _MESSAGE_BYTES, MPI.BYTE], sender, _TAG)
            self._hand_out(sender)

    def _receive(self, bodies: _Bodies, buffer) -> list:
        sender, tag = bodies.sender, bodies.tag
        return [self._comm.Irecv([piece, len(piece), MPI.BYTE], sender, tag) for piece in pieces(buffer)]

    def _hand_out(self, sender: int) -> None:
        name, tag, count, *lengths = _HEAD.unpack_from(self._message)
        bodies = _Bodies(sender, tag, lengths[:count])
        if count:
            self._announced.setdefault((bodies.sender, tag), deque()).append(bodies)
        frame = bytes(self._message[_HEAD.size :])
        for receive in self._asked:
            if receive.group_name == name and receive.takes(bodies.sender):
                self._asked.remove(receive)
                receive.complete(frame, bodies)
                break
        else:
            self._kept.setdefault(name, deque()).append((frame, bodies))


class _Bodies:
    """The bodies of one message, as far as nobody has asked for them: their ``lengths``, or themselves, ``aside``."""

    __slots__ = ("aside", "lengths", "sender", "tag")

    def __init__(self, sender: int, tag: int, lengths: Sequence[int]):
        self.sender, self.tag, self.lengths = sender, tag, deque(lengths)
        self.aside: deque[_Aside] = deque()

    def take_aside(self, receive) -> None:
        for length in self.lengths:
            data = np.empty(length, np.uint8)
            self.aside.append(_Aside(receive(self, data), data))
        self.lengths.clear()


class _Aside:
    """A body on its way into memory of our own; a request once it is known where it is to go."""

    __slots__ = ("_buffer", "_data", "_requests")

    def __init__(self, requests: list, data: np.ndarray):
        self._requests, self._data, self._buffer = requests, data, None

    def into(self, buffer) -> _Aside:
        self._buffer = buffer
        return self

    def Test(self) -> bool:
        if self._buffer is None:
            return True
        if not all([request.Test() for request in self._requests]):
            return False
        self._land()
        return True

    def Wait(self) -> None:
        if self._buffer is not None:
            for request in self._requests:
                request.Wait()
            self._land()

    def _land(self) -> None:
        self._buffer[:] = self._data
        self._buffer = None


class FrameReceive(Watched):
    """A receive of one frame of ``group``, from its member ``source`` or from anybody, whom it names then."""

    __slots__ = ("_frame", "_group", "_is_done", "_mailbox", "bodies", "group_name", "source")

    Wait = None  # MPI knows of no receive that it could wait for

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

    def complete(self, frame: bytes, bodies: _Bodies) -> None:
        self._frame[:] = frame
        self.bodies = bodies
        self.source = place = self._group.processes.index(bodies.sender)
        self._is_done = True
        self._group.received[place] += 1

    def Test(self) -> bool:
        if not self._is_done:
            self._mailbox.look()
        return self._is_done

    def is_own(self) -> bool:
        """Whether this process alone could complete it, and has sent itself nothing."""
        group = self._group
        only = self.source if group.size > 1 else group.rank
        return only == group.rank and not self.Test() and group.sent[only] <= group.received[only]

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
