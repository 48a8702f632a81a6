"""How the members of a group meet at the opening of an operation, and how they reach one another's arrays.

Where all of them see one another's memory, they meet there: each posts its frame and the place of its array, which the
others read where it lies.  A small array is posted with the frame; one that lies outside the arena and is not large is
copied into it first.  Elsewhere frames go round by the transport, and arrays follow in messages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import TransportError
from spmd_grid.exchange.header import Facts
from spmd_grid.kernels import slots as at
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, Communicator, Frames
from spmd_grid.transport.wire import Messages

__all__ = ["COPIED_BYTES", "LINE_BYTES", "Meeting", "meeting_of"]

# Arrays outside the arena of up to this many bytes are copied into it to be read; larger ones go in messages.
COPIED_BYTES = 1 << 19

LINE_BYTES = at.LINE_ARRAY + at.LINE_ARRAY_BYTES
_PLACE = at.PLACE_WORDS * 8
_MOST_STRIDES = at.PLACE_WORDS - at.PLACE_STRIDES


class Meeting:
    """Meetings by what the transport offers."""

    def __init__(self, comm: Communicator):
        self.comm = comm

    def swap(self, x: np.ndarray | None = None) -> Frames:
        """Posts this member's frame, and lets the others read ``x``; everybody's frames.  Collective."""
        return self.comm.swap_frames(x)

    def arrays(self, frames: Frames, facts: Sequence[Facts]) -> list[np.ndarray | None] | None:
        """The arrays that members let others read in the last meeting; None where not all can be read.

        Local, alike on all members.  None stands for a member that has no array.
        """
        return frames.exposed

    def reads_in_place(self, x: np.ndarray) -> bool:
        """Whether the others would read, and could write, ``x`` itself rather than a copy.  Local."""
        return self.comm.shares_objects

    def depart(self, frames: Frames) -> None:
        """Says that this member has read what it wanted; returns once its own array has been read.

        Collective, after a meeting with arrays ``lent``.
        """
        self.comm.barrier()


class MemoryMeeting(Meeting):
    """Meetings in the memory of the node.

    ``block``: this member's part of it; ``addresses``: everybody's, as seen by this process.
    """

    def __init__(self, comm: Communicator, block: np.ndarray, addresses: Sequence[int]):
        super().__init__(comm)
        self._block = block
        self._arena = comm.process.arena
        self._copies: list[np.ndarray | None] = [None, None]  # of even and odd meetings, as with lines
        size = comm.size
        self._state = state = np.zeros(at.BLOCKS + size, np.int64)
        self._wire = wire = comm.wire(
            Messages([], [], []), range(size), range(size), 0, lambda: int(self._state[at.EPOCH]), None
        )
        self._headers = np.zeros(size * HEADER_BYTES, np.uint8)
        self._places = np.zeros(size * _PLACE, np.uint8)
        self._frames = Frames(b"", bytearray(size * FRAME_BYTES), None)
        self._strides = state[at.PLACE + at.PLACE_STRIDES : at.PLACE + at.PLACE_WORDS]
        state[at.MEMBERS], state[at.MEMBER], state[at.LINE_BYTES] = size, comm.rank, LINE_BYTES
        state[at.BLOCKS :] = addresses
        state[at.BLOCK_OFFSET] = self._arena.offset_of(kernels.address_of(block), block.nbytes)
        state[at.FRAME] = kernels.address_of(np.frombuffer(comm.frame, np.uint8))
        state[at.FRAMES_SEEN] = kernels.address_of(np.frombuffer(self._frames.data, np.uint8))
        state[at.HEADERS_SEEN] = kernels.address_of(self._headers)
        state[at.PLACES_SEEN] = kernels.address_of(self._places)
        state[at.POLLS], state[at.YIELDS], state[at.ON_WAIT] = wire.polls, wire.yields, wire.on_wait
        state[at.WENT_ON], state[at.ON_POST] = kernels.address_of(wire.went_on), wire.on_post
        self._address = kernels.address_of(state)

    def swap(self, x: np.ndarray | None = None) -> Frames:
        comm = self.comm
        comm.mark_frame()
        address, n_bytes, offset, flags = 0, 0, -1, 0
        if x is not None:
            if x.nbytes > at.LINE_ARRAY_BYTES:
                offset, flags = self._place_of(x)
            elif x.nbytes:
                if not x.flags.c_contiguous:
                    x = x.copy("C")
                address, n_bytes = kernels.address_of(x), x.nbytes
        lent = kernels.meet(self._address, address, n_bytes, offset, flags)
        if lent < 0:
            self._raise_ended()
        frames = self._frames
        frames.headers, frames.places = self._headers.tobytes(), self._places.tobytes()
        frames.lent, frames.lends = bool(lent), flags & at.LENT
        comm.headers_seen = frames.headers
        return frames

    def _place_of(self, x: np.ndarray) -> tuple[int, int]:
        """Where others can read ``x``, or a copy of it: the offset in this process's segment (or -1), and flags."""
        if x.flags.c_contiguous:
            offset = self._arena.offset_of(kernels.address_of(x), x.nbytes)
            if offset >= 0:
                return offset, at.LENT
        elif x.ndim <= _MOST_STRIDES and min(x.strides) >= 0:
            offset = self._arena.offset_of(kernels.address_of(x), _span(x.shape, x.strides, x.itemsize))
            if offset >= 0:
                self._strides[: x.ndim] = x.strides
                self._strides[x.ndim :] = 0
                return offset, at.LENT | at.STRIDED
        if x.nbytes > COPIED_BYTES:
            return -1, 0
        turn = int(self._state[at.EPOCH]) & 1
        self._copies[turn] = None  # of the meeting before the last: it has been read, and its memory is warm
        copy = self._copies[turn] = self._arena.allocate(x.nbytes)
        if copy is None:
            return -1, 0
        copy.view(x.dtype).reshape(x.shape)[...] = x
        return self._arena.offset_of(kernels.address_of(copy), x.nbytes), at.LENT

    def arrays(self, frames: Frames, facts: Sequence[Facts]) -> list[np.ndarray | None] | None:
        found: list[np.ndarray | None] = []
        places = np.frombuffer(frames.places, np.int64).reshape(-1, at.PLACE_WORDS).tolist()
        for process, fact, (offset, flags, *strides) in zip(self.comm.processes, facts, places, strict=True):
            if fact.shape is None:
                found.append(None)
            elif not fact.nbytes:
                found.append(np.empty(fact.shape, fact.dtype))
            elif offset < 0:
                return None
            else:
                strides = strides[: len(fact.shape)] if flags & at.STRIDED else None
                n_bytes = _span(fact.shape, strides, fact.dtype.itemsize) if strides else fact.nbytes
                memory = kernels.bytes_at(self._arena.base_of(process) + offset, n_bytes)
                found.append(np.ndarray(fact.shape, fact.dtype, memory, 0, strides))
        return found

    def reads_in_place(self, x: np.ndarray) -> bool:
        in_line = x.nbytes <= at.LINE_ARRAY_BYTES
        return not in_line and x.flags.c_contiguous and self._arena.offset_of(kernels.address_of(x), x.nbytes) >= 0

    def depart(self, frames: Frames) -> None:
        if kernels.depart(self._address, frames.lends) != at.FINE:
            self._raise_ended()

    def _raise_ended(self) -> None:
        self._wire.raise_error()
        raise TransportError("a meeting in the node's memory was interrupted")


def _span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Bytes from the first to the last of cells at strides from 0 on."""
    return sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)) + itemsize


def meeting_of(comm: Communicator) -> Meeting:
    """How the members of ``comm`` meet; the same from the first call on.  Collective at that call."""
    if comm.meeting is None:
        comm.meeting = _make(comm)
    return comm.meeting


def _make(comm: Communicator) -> Meeting:
    arena = comm.process.arena
    if comm.shares_objects or not comm.shares_memory:
        return Meeting(comm)
    block = arena.allocate(2 * LINE_BYTES + 128, zeroed=True)
    offset = -1 if block is None else arena.offset_of(kernels.address_of(block), block.nbytes)
    frame = bytes(comm.frame)
    comm.frame[8:16] = offset.to_bytes(8, "little", signed=True)
    data = comm.swap_frames().data
    comm.frame[:] = frame
    starts = range(8, comm.size * FRAME_BYTES, FRAME_BYTES)
    offsets = [int.from_bytes(data[start : start + 8], "little", signed=True) for start in starts]
    if min(offsets) < 0:
        return Meeting(comm)
    addresses = [arena.base_of(process) + at_ for process, at_ in zip(comm.processes, offsets, strict=True)]
    return MemoryMeeting(comm, block, addresses)
