"""A few bytes from every member of a group, swapped in a frame between operations."""

from __future__ import annotations

from spmd_grid.transport.communicator import FRAME_BYTES, Communicator

__all__ = ["swap_in_frame"]

_START = 8  # after the kind and length of a header, which stay as they are


def swap_in_frame(comm: Communicator, mine: bytes) -> list[bytes]:
    """The bytes of all members, equally many each.  Collective; the header in this member's frame is kept."""
    frame = bytes(comm.frame)
    comm.frame[_START : _START + len(mine)] = mine
    data = comm.swap_frames().data
    comm.frame[:] = frame
    starts = range(_START, comm.size * FRAME_BYTES, FRAME_BYTES)
    return [bytes(data[start : start + len(mine)]) for start in starts]
