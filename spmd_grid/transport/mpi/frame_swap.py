"""The swap of frames with which a group meets: an all-gather, or messages between members on several nodes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from spmd_grid.transport.communicator import FRAME_BYTES, tag_of
from spmd_grid.transport.mpi.library import MPI

__all__ = ["FrameSwap", "frame_swap"]

# In small groups every member sends its frame to every other one.
_MOST_MEMBERS = 8

_TAG = tag_of("frames of meetings")


class _MessageSwap:
    """Messages from every member to every other one: its ``frame``."""

    def __init__(self, comm: MPI.Intracomm, frame: bytearray, frames: bytearray):
        self._comm, self._frame, self._rank = comm, frame, comm.rank
        self._frames = np.frombuffer(frames, np.uint8).reshape(comm.size, FRAME_BYTES)
        self._sent = np.zeros(FRAME_BYTES, np.uint8)
        self._others = [member for member in range(comm.size) if member != comm.rank]
        self._requests: list[MPI.Request] = []

    def Start(self) -> None:
        """Sends the frame."""
        comm, frames = self._comm, self._frames
        self._requests = [comm.Irecv([frames[other], FRAME_BYTES, MPI.BYTE], other, _TAG) for other in self._others]
        frames[self._rank] = self._sent[:] = np.frombuffer(self._frame, np.uint8)
        self._requests += [comm.Isend([self._sent, FRAME_BYTES, MPI.BYTE], other, _TAG) for other in self._others]

    def Test(self) -> bool:
        """Whether all frames have come."""
        return MPI.Request.Testall(self._requests)

    def Free(self) -> None:
        """Nothing: each swap has requests of its own."""


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


FrameSwap: TypeAlias = MPI.Prequest | _RepeatedSwap | _MessageSwap


def frame_swap(comm: MPI.Intracomm, frame: bytearray, frames: bytearray, is_on_one_node: bool) -> FrameSwap:
    """A persistent request that sends ``frame`` and collects those of all members in ``frames``.  Local."""
    if not is_on_one_node and comm.size <= _MOST_MEMBERS:
        return _MessageSwap(comm, frame, frames)
    try:
        return comm.Allgather_init([frame, FRAME_BYTES, MPI.BYTE], [frames, FRAME_BYTES, MPI.BYTE])
    except NotImplementedError:  # MPI before 4.0
        return _RepeatedSwap(comm, frame, frames)
