"""Messages between two processes, whose group need not have met.

Making a communicator of MPI is collective over all its members, but `send` and `recv` involve two.  So their messages
travel on the communicator of all processes: a frame with the name of its group, and the bodies that it announces.  The
mailbox hands each frame to a receive of its group; a frame that no receive has requested yet is kept.

A frame is received once it has arrived, from the process that sent it.  No receive from any source is ever posted:
MPICH over UCX loses messages to such receives if two threads call MPI.

The bodies of a message have a tag of their own, but tags are reused.  MPI matches messages of one sender and one tag in
the order in which they were sent, while groups may receive in any order.  So bodies that are in the way of others are
received into spare memory until they are requested.
"""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Callable, Sequence

import numpy as np

from spmd_grid.transport.communicator import MESSAGE_FRAME_BYTES, MOST_BODIES, tag_of
from spmd_grid.transport.mpi.buffers import pieces
from spmd_grid.transport.mpi.group import GROUP_NAME_BYTES, Group
from spmd_grid.transport.mpi.library import MPI
from spmd_grid.transport.mpi.liveness.departure import Departed
from spmd_grid.transport.mpi.watched_requests import Testable, Watched

__all__ = ["FrameReceive", "Mailbox"]

# The group, the tag and the number of bodies, their lengths.
_HEAD = struct.Struct(f"<{GROUP_NAME_BYTES}sII{MOST_BODIES}Q")
_MESSAGE_BYTES = _HEAD.size + MESSAGE_FRAME_BYTES
_TAG = tag_of("frames of send and recv")


class Mailbox:
    """The messages of this process.  ``comm`` is MPI's communicator of all processes."""

    def __init__(self, comm: MPI.Intracomm):
        self._comm = comm
        self._receives: list[FrameReceive] = []  # without a frame so far, in order
        self._kept: dict[bytes, deque[tuple[bytes, _Bodies]]] = {}  # frames without a receive so far, by group
        self._message, self._status = bytearray(_MESSAGE_BYTES), MPI.Status()
        self._turns: Counter[int] = Counter()  # number of messages with bodies sent so far, by process
        self._announced: dict[tuple[int, int], deque[_Bodies]] = {}  # not requested yet, by sender and tag

    def send(self, name: bytes, frame: bytearray, bodies: Sequence[np.ndarray], process: int) -> list[MPI.Request]:
        """Starts sending a message of the group ``name``; MPI's requests, that of the frame first.  Local."""
        comm, tag = self._comm, 0
        if bodies:
            self._turns[process] += 1
            tag = tag_of("bodies of send and recv", self._turns[process])
        lengths = [*map(len, bodies), *[0] * (MOST_BODIES - len(bodies))]
        message = _HEAD.pack(name, tag, len(bodies), *lengths) + frame
        requests = [comm.Isend([message, _MESSAGE_BYTES, MPI.BYTE], process, _TAG)]
        for body in bodies:
            requests += [comm.Isend([piece, len(piece), MPI.BYTE], process, tag) for piece in pieces(body)]
        return requests

    def request(self, receive: FrameReceive) -> FrameReceive:
        """Completes ``receive`` as soon as there is a frame for it.  Local."""
        kept = self._kept.get(receive.group_name, deque())
        for at, (frame, bodies) in enumerate(kept):
            if receive.takes(bodies.sender):
                del kept[at]
                if not kept:
                    del self._kept[receive.group_name]
                receive.complete(frame, bodies)
                return receive
        self._receives.append(receive)
        return receive

    def count_asked(self, asked: dict[tuple[int, ...], list[int]]) -> None:
        """Counts the receives that have no frame so far, by group and member.  Local; from any thread."""
        for receive in tuple(self._receives):
            receive.count_in(asked)

    def withdraw(self, receive: FrameReceive) -> None:
        """Cancels a receive that has no frame.  Local."""
        self._receives.remove(receive)

    def body(self, bodies: _Bodies, buffer: np.ndarray) -> list[Testable]:
        """Requests that receive the next of the bodies into ``buffer``.  Local."""
        if bodies.spare:
            return [bodies.spare.popleft().into(buffer)]
        announced = self._announced[bodies.sender, bodies.tag]
        while announced[0] is not bodies:
            announced.popleft().receive_into_spare(self._receive)
        bodies.lengths.popleft()
        if not bodies.lengths:
            announced.popleft()
            if not announced:
                del self._announced[bodies.sender, bodies.tag]
        return self._receive(bodies, buffer)

    def look(self) -> None:
        """Receives the frames that have arrived, while any receive waits for one.  Local."""
        comm, status = self._comm, self._status
        while self._receives and comm.Iprobe(MPI.ANY_SOURCE, _TAG, status):
            sender = status.Get_source()
            comm.Recv([self._message, _MESSAGE_BYTES, MPI.BYTE], sender, _TAG)
            self._hand_out(sender)

    def _receive(self, bodies: _Bodies, buffer: np.ndarray) -> list[Testable]:
        sender, tag = bodies.sender, bodies.tag
        return [self._comm.Irecv([piece, len(piece), MPI.BYTE], sender, tag) for piece in pieces(buffer)]

    def _hand_out(self, sender: int) -> None:
        name, tag, count, *lengths = _HEAD.unpack_from(self._message)
        bodies = _Bodies(sender, tag, lengths[:count])
        if count:
            self._announced.setdefault((bodies.sender, tag), deque()).append(bodies)
        frame = bytes(self._message[_HEAD.size :])
        for receive in self._receives:
            if receive.group_name == name and receive.takes(bodies.sender):
                self._receives.remove(receive)
                receive.complete(frame, bodies)
                break
        else:
            self._kept.setdefault(name, deque()).append((frame, bodies))


class _Bodies:
    """The bodies of one message that have not been requested: their ``lengths``, or themselves, in ``spare`` memory."""

    __slots__ = ("lengths", "sender", "spare", "tag")

    def __init__(self, sender: int, tag: int, lengths: Sequence[int]):
        self.sender, self.tag, self.lengths = sender, tag, deque(lengths)
        self.spare: deque[_SpareReceive] = deque()

    def receive_into_spare(self, receive: Callable[[_Bodies, np.ndarray], list[Testable]]) -> None:
        for length in self.lengths:
            data = np.empty(length, np.uint8)
            self.spare.append(_SpareReceive(receive(self, data), data))
        self.lengths.clear()


class _SpareReceive:
    """A receive into spare memory; a request that copies the data once their buffer is known."""

    __slots__ = ("_buffer", "_data", "_requests")

    def __init__(self, requests: list[Testable], data: np.ndarray):
        self._requests, self._data = requests, data
        self._buffer: np.ndarray | None = None

    def into(self, buffer: np.ndarray) -> _SpareReceive:
        self._buffer = buffer
        return self

    def Test(self) -> bool:
        if self._buffer is None:
            return True
        if not all([request.Test() for request in self._requests]):
            return False
        self._buffer[:] = self._data
        self._buffer = None
        return True


class FrameReceive(Watched):
    """A receive of one frame of ``group``, from its member ``source``, or from any; ``sender`` is set at the end."""

    __slots__ = ("_frame", "_group", "_is_done", "_mailbox", "_source", "bodies", "group_name", "sender")

    bodies: _Bodies
    sender: int

    def __init__(self, group: Group, mailbox: Mailbox, frame: bytearray, source: int | None):
        self.group_name = group.name
        self._source = source
        self._group = group
        self._mailbox = mailbox
        self._frame = frame
        self._is_done = False

    def takes(self, process: int) -> bool:
        """Whether it accepts frames of this process, a member."""
        return self._source is None or self._group.processes[self._source] == process

    def count_in(self, asked: dict[tuple[int, ...], list[int]]) -> None:
        """Adds itself to the counts of receives, of the members that it accepts frames of."""
        group = self._group
        counts = asked.setdefault(group.processes, [0] * group.size)
        for member in range(group.size) if self._source is None else (self._source,):
            counts[member] += 1

    def complete(self, frame: bytes, bodies: _Bodies) -> None:
        self._frame[:] = frame
        self.bodies = bodies
        self.sender = member = self._group.processes.index(bodies.sender)
        self._is_done = True
        self._group.received[member] += 1

    def Test(self) -> bool:
        if not self._is_done:
            self._mailbox.look()
        return self._is_done

    def is_own(self) -> bool:
        """Whether this process alone could complete it, and has sent itself nothing."""
        group = self._group
        only = self._source if group.size > 1 else group.rank
        return only == group.rank and not self.Test() and group.sent[group.rank] <= group.received[group.rank]

    def ended_partner(self, departed: Departed) -> int | None:
        """A sender that ended without sending this frame, if no other process can send it."""
        group = self._group
        senders = range(group.size) if self._source is None else [self._source]
        for member in senders:
            process = group.processes[member]
            if member == group.rank and self._source is None:
                continue
            sent = departed[process].sent.get(group.processes) if process in departed else None
            if process not in departed or (sent is not None and sent[group.rank] > group.received[member]):
                return None
        others = [group.processes[member] for member in senders if member != group.rank]
        # The frame may have arrived meanwhile; it is done before it is counted as received.
        return None if self._is_done or not others else others[0]

    def awaited(self) -> Sequence[int]:
        """The sender, where one alone can send the frame."""
        group = self._group
        return () if self._source is None else (group.processes[self._source],)
