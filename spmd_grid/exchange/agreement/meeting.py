"""How the members of a group meet at the opening of an operation, and how they reach one another's arrays.

Where all of them see one another's memory, they meet there: each posts its frame and the place of its array, which the
others read where it lies.  A small array is posted with the frame; one that lies outside the arena and is not large is
copied into it first.  Where only some see one another's memory, frames go round by the transport, and places with
them: members of one node read one another's arrays, and messages carry them to the others.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import astuple
from time import perf_counter

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import TransportError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.transfer.flat_bytes import copy_views
from spmd_grid.exchange.transfer.machine_model import MachineModel, cached_model, keep_model, measure_model
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, INLINE_BYTES, Communicator, Frames
from spmd_grid.transport.wire import Messages

__all__ = ["COPIED_BYTES", "FAR_SECONDS", "LINE_BYTES", "Meeting", "MemoryMeeting", "array_in_frame", "meeting_of"]

# Arrays outside the arena are copied into it to be read up to this many bytes at most; larger ones go in messages.
COPIED_BYTES = 1 << 19

# Between processors that are far apart, arrays of sizes between these are copied even where they could be read: what a
# neighbour has read is dear to write to, line by line, until it is out of the caches.  Below it costs less than a copy,
# above the caches have forgotten it.
_DEAR_BYTES, _LENT_BYTES = 1 << 15, 1 << 22

# Processors are far apart where a word takes longer from one to the other than within one cache.  Asked for every so
# many meetings, for virtual processors wander.
FAR_SECONDS = 170e-9
_ASKED_EVERY = 256
_ROLL_CALLS = 8

_LEAST_STAGED = 1 << 16  # below it, the meetings would cost more than the copies

LINE_BYTES = at.LINE_ARRAY + at.LINE_ARRAY_BYTES
_BLOCK_BYTES = 2 * LINE_BYTES + 128
_PLACE_BYTES = at.PLACE_WORDS * 8  # as many as a frame carries beside its header
_MOST_STRIDES = at.PLACE_WORDS - at.PLACE_STRIDES


class Meeting:
    """Meetings by what the transport offers."""

    is_far = False  # whether the processors of some members are far apart, as all of them see it

    def __init__(self, comm: Communicator):
        self.comm = comm

    def swap(self, x: np.ndarray | None = None, in_place: bool = False) -> Frames:
        """Posts this member's frame, and lets the others read ``x``; everybody's frames.

        Collective.  ``in_place``: they get at ``x`` itself and may write to it, which `reads_in_place`.
        """
        return self.comm.swap_frames(x)

    def arrays(self, frames: Frames, facts: Sequence[Facts]) -> list[np.ndarray | None] | None:
        """The arrays that members let others read in the last meeting; None where messages have to carry them.

        Local.  None stands also for a member that has no array, or whose array this process cannot read.
        """
        return frames.exposed

    def reads_in_place(self, x: np.ndarray) -> bool:
        """Whether the others would read, and could write, ``x``, which is contiguous, rather than a copy.  Local."""
        return self.comm.shares_objects

    @property
    def stage_bytes(self) -> int:
        """In pieces of up to this many bytes arrays outside the arena go through it; 0: they go in messages."""
        return 0

    def describe(self) -> str:
        """How arrays reach the other members, in words.  Local."""
        return "direct: arrays are read where they lie" if self.comm.shares_objects else "by messages"

    def most(self, value: int) -> int:
        """The largest of the numbers, from 0, that members bring.  Collective."""
        comm = self.comm
        frame = bytes(comm.frame)
        comm.frame[8:16] = value.to_bytes(8, "little")
        data = comm.swap_frames().data
        comm.frame[:] = frame
        return max(int.from_bytes(data[start : start + 8], "little") for start in range(8, len(data), FRAME_BYTES))

    def ask_distance(self) -> float | None:
        """The seconds that a word takes from one member to the others, where that can be told.  Collective."""
        return None

    def depart(self, frames: Frames) -> None:
        """Says that this member has read what it wanted; returns once its own array has been read.

        Collective, after a meeting with arrays ``lent``.
        """
        self.comm.barrier()


class _NodeMeeting(Meeting):
    """What meetings with members of the own node share: places in the arena, and words that say who has read.

    ``members``: those of the node, this one included; ``block``: its part of the memory in which they meet,
    ``addresses``: theirs, as seen by this process.
    """

    def __init__(self, comm: Communicator, members: Sequence[int], block: np.ndarray, addresses: Sequence[int]):
        super().__init__(comm)
        self._block, self._arena = block, comm.process.arena
        self._copies: list[np.ndarray | None] = [None, None]  # of even and odd meetings, as with lines
        self._state = state = np.zeros(at.BLOCKS + len(members), np.int64)
        self._wire = wire = comm.wire(
            Messages([], [], []), members, members, 0, lambda: int(self._state[at.EPOCH]), None
        )
        self._strides = state[at.PLACE + at.PLACE_STRIDES : at.PLACE + at.PLACE_WORDS]
        state[at.MEMBERS], state[at.MEMBER] = len(members), members.index(comm.rank)
        state[at.LINE_BYTES] = LINE_BYTES
        state[at.BLOCKS :] = addresses
        state[at.BLOCK_OFFSET] = self._arena.offset_of(kernels.address_of(block), block.nbytes)
        state[at.POLLS], state[at.YIELDS], state[at.ON_WAIT] = wire.polls, wire.yields, wire.on_wait
        state[at.WENT_ON], state[at.ON_POST] = kernels.address_of(wire.went_on), wire.on_post
        self._address = kernels.address_of(state)

    copied_bytes = COPIED_BYTES
    model: MachineModel | None = None

    def _place_of(self, x: np.ndarray, in_place: bool) -> tuple[int, int]:
        """Where others can read ``x``, or a copy of it: the offset in this process's segment (or -1), and flags."""
        if self.is_far and _DEAR_BYTES < x.nbytes < _LENT_BYTES and not in_place:
            pass
        elif x.flags.c_contiguous:
            offset = self._arena.offset_of(kernels.address_of(x), x.nbytes)
            if offset >= 0:
                return offset, at.LENT
        elif x.ndim <= _MOST_STRIDES and min(x.strides) >= 0:
            offset = self._arena.offset_of(kernels.address_of(x), _span(x.shape, x.strides, x.itemsize))
            if offset >= 0:
                self._strides[: x.ndim] = x.strides
                self._strides[x.ndim :] = 0
                return offset, at.LENT | at.STRIDED
        if x.nbytes > self.copied_bytes:
            return -1, 0
        turn = int(self._state[at.EPOCH]) & 1
        room = self._copies[turn]  # what was there two meetings ago has been read, so this is never lent
        if room is None or room.nbytes < x.nbytes:
            self._copies[turn] = None
            room = self._copies[turn] = self._arena.allocate(x.nbytes)
            if room is None:
                return -1, 0
        copy_views([(x, room[: x.nbytes].view(x.dtype).reshape(x.shape))])
        return self._arena.offset_of(kernels.address_of(room), x.nbytes), 0

    def _at(self, member: int, fact: Facts, place: Sequence[int]) -> np.ndarray:
        """The array of a member of the node."""
        offset, flags, *strides = place
        strides = strides[: len(fact.shape)] if flags & at.STRIDED else None
        n_bytes = _span(fact.shape, strides, fact.dtype.itemsize) if strides else fact.nbytes
        memory = kernels.bytes_at(self._arena.base_of(self.comm.processes[member]) + offset, n_bytes)
        return np.ndarray(fact.shape, fact.dtype, memory, 0, strides)

    def depart(self, frames: Frames) -> None:
        if kernels.depart(self._address, frames.lends) != at.FINE:
            self._raise_ended()

    def ask_distance(self) -> float | None:
        taken = []
        for _ in range(3):
            began = perf_counter()
            self._call_roll(_ROLL_CALLS)
            taken.append(perf_counter() - began)
        seconds = min(taken) / _ROLL_CALLS
        self.is_far = bool(self._call_roll(1, seconds > FAR_SECONDS))
        return seconds

    def _call_roll(self, rounds: int, brought: int = 0) -> int:
        found = kernels.call_roll(self._address, rounds, brought)
        if found < 0:
            self._raise_ended()
        return found

    def _raise_ended(self) -> None:
        self._wire.raise_error()
        self.comm.process.gate.check()
        error = TransportError("a meeting in the node's memory was interrupted")
        error.cuts_off = True
        raise error


class MemoryMeeting(_NodeMeeting):
    """Meetings in the memory of the node, of members that all see it."""

    def __init__(self, comm: Communicator, members: Sequence[int], block: np.ndarray, addresses: Sequence[int]):
        super().__init__(comm, members, block, addresses)
        self._headers = np.zeros((2, comm.size * HEADER_BYTES), np.uint8)
        self._places = np.zeros((2, comm.size * _PLACE_BYTES), np.uint8)
        data = np.zeros((2, comm.size * FRAME_BYTES), np.uint8)
        self._frames = [Frames(b"", memoryview(each), None) for each in data]  # of even and odd meetings
        self._count = 0
        state = self._state
        state[at.FRAME] = kernels.address_of(np.frombuffer(comm.frame, np.uint8))
        state[at.FRAMES_SEEN] = kernels.address_of(data)
        state[at.HEADERS_SEEN] = kernels.address_of(self._headers)
        state[at.PLACES_SEEN] = kernels.address_of(self._places)

    def swap(self, x: np.ndarray | None = None, in_place: bool = False) -> Frames:
        comm = self.comm
        self._count = count = self._count + 1
        if count % _ASKED_EVERY == 0 and comm.times_well:
            self.ask_distance()
        address, n_bytes, offset, flags = 0, 0, -1, 0
        if x is not None:
            if x.nbytes > at.LINE_ARRAY_BYTES:
                offset, flags = self._place_of(x, in_place)
            elif x.nbytes:
                if not x.flags.c_contiguous:
                    x = x.copy("C")
                address, n_bytes = kernels.address_of(x), x.nbytes
        seen = kernels.meet(self._address, address, n_bytes, offset, flags)
        turn = count & 1
        frames = self._frames[turn]
        if seen & at.RENEWED:
            if seen < 0:
                self._raise_ended()
            # The same bytes as long as nothing changes: they know their hash, by which everything is looked up.
            frames.headers, frames.places = self._headers[turn].tobytes(), self._places[turn].tobytes()
        frames.lent, frames.lends = seen & at.ANY_LENT, flags & at.LENT
        return frames

    def arrays(self, frames: Frames, facts: Sequence[Facts]) -> list[np.ndarray | None] | None:
        """As of any meeting; None on all members alike where one of the arrays cannot be read."""
        found: list[np.ndarray | None] = []
        for member, (fact, place) in enumerate(zip(facts, _read(frames.places), strict=True)):
            if fact.shape is None:
                found.append(None)
            elif not fact.nbytes:
                found.append(np.empty(fact.shape, fact.dtype))
            elif place[at.PLACE_OFFSET] < 0:
                return None
            else:
                found.append(self._at(member, fact, place))
        return found

    def most(self, value: int) -> int:
        return self._call_roll(1, value)

    @property
    def stage_bytes(self) -> int:
        return self.copied_bytes if self.copied_bytes >= _LEAST_STAGED else 0

    def describe(self) -> str:
        timed = "" if self.model is None else f" (timed here: {self.model})"
        return (
            "direct: arrays in the node's memory are read where they lie; others of up to"
            f" {self.copied_bytes} bytes are copied into it{timed}; larger ones go in messages"
        )

    def reads_in_place(self, x: np.ndarray) -> bool:
        in_line = x.nbytes <= at.LINE_ARRAY_BYTES
        return not in_line and self._arena.offset_of(kernels.address_of(x), x.nbytes) >= 0


class MixedMeeting(_NodeMeeting):
    """Meetings by the transport, of members of which some see one another's memory; frames carry the places."""

    def swap(self, x: np.ndarray | None = None, in_place: bool = False) -> Frames:
        self._state[at.EPOCH] += 1
        flags = 0
        if x is not None and x.nbytes > INLINE_BYTES:  # a smaller one is in the frame itself
            offset, flags = self._place_of(x, in_place)
            place = np.zeros(at.PLACE_WORDS, np.int64)
            place[at.PLACE_OFFSET], place[at.PLACE_FLAGS] = offset, flags
            if flags & at.STRIDED:
                place[at.PLACE_STRIDES :] = self._strides
            self.comm.frame[HEADER_BYTES:] = place.tobytes()
        frames = self.comm.swap_frames()
        starts = range(HEADER_BYTES, len(frames.data), FRAME_BYTES)
        frames.places = b"".join([frames.data[start : start + _PLACE_BYTES] for start in starts])
        frames.lent, frames.lends = True, flags & at.LENT
        return frames

    def arrays(self, frames: Frames, facts: Sequence[Facts]) -> list[np.ndarray | None] | None:
        """Of members whose array is in the frame, or near and can be read; this member's own is nobody else's."""
        found: list[np.ndarray | None] = []
        for member, (fact, place) in enumerate(zip(facts, _read(frames.places), strict=True)):
            if fact.shape is None or member == self.comm.rank:
                found.append(None)
            elif fact.fits_inline:
                found.append(array_in_frame(frames.data, member, fact))
            elif place[at.PLACE_OFFSET] < 0 or member not in self.comm.near:
                found.append(None)
            else:
                found.append(self._at(member, fact, place))
        return found

    def describe(self) -> str:
        return (
            f"mixed: {len(self.comm.near) + 1} members on this node read one another's arrays; those outside its memory"
            f" are copied into it if of up to {self.copied_bytes} bytes; messages carry the rest"
        )

    def is_read_by(self, frames: Frames, facts: Sequence[Facts], member: int) -> bool:
        """Whether ``member`` reads this member's array by itself.  Local."""
        me = self.comm.rank
        if facts[me].fits_inline:
            return True
        return member in self.comm.near and _read(frames.places)[me][at.PLACE_OFFSET] >= 0


def array_in_frame(data, member: int, fact: Facts) -> np.ndarray:
    """The small array of a member as it lies in its frame.  Local."""
    if fact.nbytes == 0:
        return np.empty(fact.shape, fact.dtype)
    raw = np.frombuffer(data, np.uint8, fact.nbytes, member * FRAME_BYTES + HEADER_BYTES)
    return raw.view(fact.dtype).reshape(fact.shape)


def _read(places: bytes) -> list[list[int]]:
    return np.frombuffer(places, np.int64).reshape(-1, at.PLACE_WORDS).tolist()


def _span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Bytes from the first to the last of cells at strides from 0 on."""
    return sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)) + itemsize


def meeting_of(comm: Communicator) -> Meeting:
    """How the members of ``comm`` meet; the same from the first call on.  Collective at that call."""
    if comm.meeting is None:
        comm.meeting = _make(comm)
    return comm.meeting


def _make(comm: Communicator) -> Meeting:
    if comm.shares_objects or comm.size == 1:
        return Meeting(comm)
    arena = comm.process.arena
    members = sorted([comm.rank, *comm.near])
    block = arena.allocate(_BLOCK_BYTES, zeroed=True) if comm.near else None
    offset = -1 if block is None else arena.offset_of(kernels.address_of(block), block.nbytes)
    frame = bytes(comm.frame)
    comm.frame[8:16] = offset.to_bytes(8, "little", signed=True)
    data = comm.swap_frames().data
    comm.frame[:] = frame
    starts = range(8, comm.size * FRAME_BYTES, FRAME_BYTES)
    offsets = [int.from_bytes(data[start : start + 8], "little", signed=True) for start in starts]
    if comm.shares_memory and min(offsets) < 0:  # no room: on all members alike
        return Meeting(comm)
    if not comm.shares_memory and any(offsets[member] < 0 for member in members):
        members, block = [comm.rank], np.zeros(_BLOCK_BYTES, np.uint8)
        comm.near = []
    addresses = [
        kernels.address_of(block) if member == comm.rank else arena.base_of(comm.processes[member]) + offsets[member]
        for member in members
    ]
    if not comm.shares_memory:
        return MixedMeeting(comm, members, block, addresses)
    meeting = MemoryMeeting(comm, members, block, addresses)
    if comm.times_well:
        meeting.ask_distance()
        meeting.model = _agreed_model(comm)
        meeting.copied_bytes = meeting.model.copied_bytes(at.LINE_ARRAY_BYTES, COPIED_BYTES)
    return meeting


def _agreed_model(comm: Communicator) -> MachineModel:
    """The first member's model, which it times with the second where it has none.  Collective."""
    model = cached_model(comm.library)
    for _ in range(2):
        frame = bytes(comm.frame)
        comm.frame[8:32] = struct.pack("3d", *((0, 0, 0) if model is None else astuple(model)))
        first = struct.unpack("3d", bytes(comm.swap_frames().data[8:32]))
        comm.frame[:] = frame
        if all(first):
            return MachineModel(*first)
        model = measure_model(comm)
        if comm.rank == 0:
            keep_model(comm.library, model)
    raise TransportError("the first member of a group has timed nothing")
