"""The all-gather of frames with which a group meets."""

from __future__ import annotations

from typing import TypeAlias

from spmd_grid.transport.communicator import FRAME_BYTES
from spmd_grid.transport.mpi.library import MPI

__all__ = ["FrameSwap", "frame_swap"]


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


FrameSwap: TypeAlias = MPI.Prequest | _RepeatedSwap


def frame_swap(comm: MPI.Intracomm, frame: bytearray, frames: bytearray) -> FrameSwap:
    """A persistent request that sends ``frame`` and collects those of all members in ``frames``.  Local."""
    try:
        return comm.Allgather_init([frame, FRAME_BYTES, MPI.BYTE], [frames, FRAME_BYTES, MPI.BYTE])
    except NotImplementedError:  # MPI before 4.0
        return _RepeatedSwap(comm, frame, frames)
