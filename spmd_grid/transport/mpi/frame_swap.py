"""The swap of frames with which a group meets: an all-gather, or messages between members on several nodes.

Messages also carry *bodies*: small arrays, which so need no round of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from spmd_grid.transport.communicator import FRAME_BYTES, MemberBytes, tag_of
from spmd_grid.transport.mpi.library import MPI

__all__ = ["BodySwap", "FrameSwap", "MessageSwap", "frame_swap", "largest_body"]

# Members of small groups send one another frames and bodies.  A group's bodies together are limited: beyond that, a
# round of messages that cross once to each node takes less time than their bytes.
_MOST_MEMBERS, _LARGEST_BODY, _MOST_TOGETHER = 8, 1 << 12, 1 << 17

_TAG = tag_of("frames of meetings")


def largest_body(size: int) -> int:
    """The bytes of an array that may travel with the frame in a group of ``size`` members that spans nodes.  Local."""
    return min(_LARGEST_BODY, _MOST_TOGETHER // size**2) if size <= _MOST_MEMBERS else 0


class BodySwap:
    """Messages from every member to every other: its ``frame`` and, after it, its body of at most ``most`` bytes."""

    def __init__(self, comm: MPI.Intracomm, frame: bytearray, frames: bytearray, most: int):
        self._comm, self._frame, self._rank = comm, frame, comm.rank
        self._frames = np.frombuffer(frames, np.uint8).reshape(comm.size, FRAME_BYTES)
        self._rows = np.zeros((comm.size, FRAME_BYTES + most), np.uint8)
        self.bodies = list(self._rows[:, FRAME_BYTES:])
        self._others = [member for member in range(comm.size) if member != comm.rank]
        self._requests: list[MPI.Request] = []
        self.body: np.ndarray | None = None

    def Start(self) -> None:
        """Sends the frame and `body`, which is set for this swap alone."""
        comm, rows, own = self._comm, self._rows, self._rows[self._rank]
        requests = [comm.Irecv([rows[member], rows.shape[1], MPI.BYTE], member, _TAG) for member in self._others]
        n_bytes, body, self.body = FRAME_BYTES, self.body, None
        own[:FRAME_BYTES] = np.frombuffer(self._frame, np.uint8)
        if body is not None:
            n_bytes += body.nbytes
            own[FRAME_BYTES:n_bytes] = body
        self._requests = requests + [comm.Isend([own, n_bytes, MPI.BYTE], member, _TAG) for member in self._others]

    def Test(self) -> bool:
        """Whether all frames have come; then they lie in the frames of the communicator."""
        if not MPI.Request.Testall(self._requests):
            return False
        self._frames[:] = self._rows[:, :FRAME_BYTES]
        return True

    def Free(self) -> None:
        """Nothing: each swap has requests of its own."""


class MessageSwap:
    """Messages between some of the members; those received may be shorter than their buffers."""

    def __init__(self, comm: MPI.Intracomm, sends: Sequence[MemberBytes], receives: Sequence[MemberBytes]):
        self._kept = sends, receives
        self._requests = [comm.Irecv([buffer, len(buffer), MPI.BYTE], member, _TAG) for member, buffer in receives]
        self._requests += [comm.Isend([buffer, len(buffer), MPI.BYTE], member, _TAG) for member, buffer in sends]

    def Test(self) -> bool:
        """Whether all have been sent and received."""
        return MPI.Request.Testall(self._requests)


class _RepeatedSwap:
    """Stands in for ``Allgather_init`` in libraries that lack it."""

    def __init__(self, comm: MPI.Intracomm, frame: bytearray, frames: bytearray):
        self._comm, self._frame, self._frames = comm, frame, frames
        self._request: MPI.Request = MPI.REQUEST_NULL

    def Start(self) -> None:
        self._request = self._comm.Iallgather(
            [self._frame, FRAME_BYTES, MPI.BYTE], [self._frames, FRAME_BYTES, MPI.BYTE]
        )

    def Test(self) -> bool:
        return self._request.Test()

    def Free(self) -> None:
        pass


FrameSwap: TypeAlias = MPI.Prequest | _RepeatedSwap | BodySwap


def frame_swap(comm: MPI.Intracomm, frame: bytearray, frames: bytearray) -> FrameSwap:
    """A persistent request that sends ``frame`` and collects those of all members in ``frames``.  Local."""
    try:
        return comm.Allgather_init([frame, FRAME_BYTES, MPI.BYTE], [frames, FRAME_BYTES, MPI.BYTE])
    except NotImplementedError:  # MPI before 4.0
        return _RepeatedSwap(comm, frame, frames)
