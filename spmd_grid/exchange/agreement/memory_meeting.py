"""Meetings in the memory of a node: members read one another's arrays where they lie.

Each member posts its frame and the location of its array.  A small array is posted with the frame; one that lies
outside the arena and is not large is copied into it first.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import count
from time import perf_counter
from typing import NoReturn, cast

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import TransportError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.agreement.meeting import Meeting
from spmd_grid.exchange.agreement.quicker_way import QuickerWays
from spmd_grid.exchange.agreement.relay import COPIED_IF_RELAYED, RELAYED_FROM, RING_BYTES, RelayProgram, Rings
from spmd_grid.exchange.agreement.staging_ring import MOST_STAGED, RING_HELD_BYTES, StagingRing
from spmd_grid.exchange.transfer.machine_model import MachineModel
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, Communicator, Frames
from spmd_grid.transport.wire import Messages
from spmd_grid.watch.traffic import Activity

__all__ = [
    "MEETING_BLOCK_BYTES",
    "COPIED_BYTES",
    "FAR_SECONDS",
    "LOCATION_BYTES",
    "MEETING_LINE_BYTES",
    "STAGED_BYTES",
    "MemoryMeeting",
    "NodeMeeting",
    "read_locations",
]

# Arrays of at most this many bytes outside the arena are copied into it to be read, where they cannot be relayed.
COPIED_BYTES = MOST_STAGED

# The most bytes of copies that a process holds for a group: of large arrays, which are copied or relayed, and of small.
STAGED_BYTES = max(RING_BYTES + 8 * COPIED_IF_RELAYED, RING_HELD_BYTES)

# Processors are far apart where a word takes longer than within one cache.  Measured again every _ASKED_EVERY meetings.
FAR_SECONDS = 170e-9
_ASKED_EVERY = 256
_ROLL_CALLS = 8

# Bits of a meeting's result that are rare: -1 has all bits.
_RARE = at.RENEWED | at.ASK

# Bytes of the largest arrays that are always relayed between far processors, and of the largest that lie in a cache.
_RELAYED_IF_FAR, _LEFT_CACHES = 1 << 23, 1 << 25

_LEAST_STAGED = 1 << 16  # below it, the meetings would cost more than the copies

MEETING_LINE_BYTES = at.LINE_ARRAY + at.LINE_ARRAY_BYTES
MEETING_BLOCK_BYTES = 2 * MEETING_LINE_BYTES + 256
LOCATION_BYTES = at.LOCATION_WORDS * 8  # a frame carries as many beside its header
_MOST_STRIDES = at.LOCATION_WORDS - at.LOCATION_STRIDES


class NodeMeeting(Meeting):
    """Meetings whose members on one node tell one another where arrays lie in the arena, and when they have read.

    ``members``: those of the node, this one included; ``block``: this member's part of their common memory;
    ``addresses``: the members' blocks, as seen by this process.
    """

    def __init__(self, comm: Communicator, members: Sequence[int], block: np.ndarray, addresses: Sequence[int]):
        super().__init__(comm)
        self._block, self._arena = block, comm.process.arena
        self._copies = StagingRing(self._arena)
        self._state = state = np.zeros(at.BLOCKS + len(members), np.int64)
        self._wire = wire = comm.wire(
            Messages([], [], []), members, members, 0, lambda: int(self._state[at.EPOCH]), None
        )
        self._strides = state[at.LOCATION + at.LOCATION_STRIDES : at.LOCATION + at.LOCATION_WORDS]
        state[at.MEMBERS], state[at.MEMBER] = len(members), members.index(comm.rank)
        state[at.LINE_BYTES] = MEETING_LINE_BYTES
        state[at.BLOCKS :] = addresses
        state[at.BLOCK_OFFSET] = self._arena.offset_of(kernels.address_of(block), block.nbytes)
        state[at.POLLS], state[at.YIELDS], state[at.ON_WAIT] = wire.polls, wire.yields, wire.on_wait
        state[at.WENT_ON], state[at.ON_POST] = kernels.address_of(wire.went_on), wire.on_post
        self._headers = np.zeros((2, len(members) * HEADER_BYTES), np.uint8)
        self._locations = np.zeros((2, len(members) * LOCATION_BYTES), np.uint8)
        self._data = np.zeros((2, len(members) * FRAME_BYTES), np.uint8)
        state[at.FRAME] = kernels.address_of(np.frombuffer(comm.frame, np.uint8))
        state[at.FRAMES_SEEN] = kernels.address_of(self._data)
        state[at.HEADERS_SEEN] = kernels.address_of(self._headers)
        state[at.LOCATIONS_SEEN] = kernels.address_of(self._locations)
        self._address = kernels.address_of(state)

    copied_bytes = COPIED_BYTES
    model: MachineModel | None = None

    @property
    def relays(self) -> bool:
        """Whether arrays outside the arena are relayed, unless they are small."""
        return False

    def _location_of(self, x: np.ndarray, in_place: bool) -> tuple[int, int]:
        """Offset in this process's segment at which others can read ``x`` or a copy of it (else -1), and flags."""
        # Lines that a far processor has written are slower to read than a copy past the caches.
        copies = self.is_far and x.nbytes <= COPIED_IF_RELAYED and not in_place
        if x.flags.c_contiguous and not copies:
            offset = self._arena.offset_of(kernels.address_of(x), x.nbytes)
            if offset >= 0:
                return offset, at.LENT
        elif x.ndim <= _MOST_STRIDES and not copies and min(x.strides) >= 0:
            offset = self._arena.offset_of(kernels.address_of(x), _span(x.shape, x.strides, x.itemsize))
            if offset >= 0:
                self._strides[: x.ndim] = x.strides
                self._strides[x.ndim :] = 0
                return offset, at.LENT | at.STRIDED
        if x.nbytes > (COPIED_IF_RELAYED if self.relays else self.copied_bytes):
            return -1, 0
        return self._copies.copy(x, int(self._state[at.EPOCH]), self.is_far), 0

    def _array_at(self, member: int, fact: Facts, location: Sequence[int]) -> np.ndarray:
        """The array of a member of the node."""
        shape, dtype = fact.array()
        offset, flags, *words = location
        strides = words[: len(shape)] if flags & at.STRIDED else None
        n_bytes = _span(shape, strides, dtype.itemsize) if strides else fact.nbytes
        base = cast(int, self._arena.base_of(self.comm.processes[member]))  # which a member of the node has
        memory = kernels.bytes_at(base + offset, n_bytes)
        return np.ndarray(shape, dtype, memory, 0, strides)

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
        self._state[at.STREAMS] = self.is_far
        return seconds

    def together(self) -> None:
        """Waits until all members of the node have come.  Collective over these."""
        self._call_roll(1)

    def _call_roll(self, rounds: int, value: int = 0) -> int:
        """The largest ``value`` of the members of the node, found in ``rounds`` exchanges of words."""
        found = kernels.call_roll(self._address, rounds, value)
        if found < 0:
            self._raise_ended()
        return found

    def _raise_ended(self) -> NoReturn:
        self._wire.raise_error()
        self.comm.process.gate.check()
        error = TransportError("a meeting in the node's memory was interrupted")
        error.cuts_off = True
        raise error


class MemoryMeeting(NodeMeeting):
    """Meetings in the memory of the node, of members that all see it."""

    posted_bytes = at.LINE_ARRAY_BYTES

    def __init__(self, comm: Communicator, members: Sequence[int], block: np.ndarray, addresses: Sequence[int]):
        super().__init__(comm, members, block, addresses)
        self._frames = [Frames(b"", each.data, None) for each in self._data]  # of even and odd meetings
        state = self._state
        state[at.ASKS] = _ASKED_EVERY if comm.times_well else 0
        self._loop_activity: Activity | None = None
        self._ring: np.ndarray | None = None
        self._rings: Rings | None = None
        self._numbers = count()
        self._ways = QuickerWays()
        self._wire.find_activity = self._purpose

    def swap(self, x: np.ndarray | None = None, in_place: bool = False) -> Frames:
        address, n_bytes, offset, flags = 0, 0, -1, 0
        if x is not None:
            if x.nbytes > at.LINE_ARRAY_BYTES:
                offset, flags = self._location_of(x, in_place)
            elif x.nbytes:
                if not x.flags.c_contiguous:
                    x = x.copy("C")
                address, n_bytes = kernels.address_of(x), x.nbytes
        seen = kernels.meet(self._address, address, n_bytes, offset, flags)
        frames = self._frames[1 if seen & at.ODD else 0]
        if seen & _RARE:
            self._renew(frames, seen)
        frames.lent, frames.lends = seen & at.ANY_LENT, flags & at.LENT
        return frames

    def _renew(self, frames: Frames, seen: int) -> None:
        """Note what has changed since the last meeting but one."""
        if seen < 0:
            if self._state[at.IN_USE]:
                what = self.comm.process.activity
                where = "while a compiled loop of this process runs an operation of the same group"
                raise self.comm.process.gate.refusal("an operation" if what is None else what, where)
            self._raise_ended()
        if seen & at.RENEWED:
            # The same objects until something changes: bytes keep their hash, and calls are looked up by it.
            turn = 1 if seen & at.ODD else 0
            frames.headers, frames.locations = self._headers[turn].tobytes(), self._locations[turn].tobytes()
        if seen & at.ASK:
            self.ask_distance()

    # -- for compiled loops --------------------------------------------------------------------------------------

    @property
    def address(self) -> int:
        """The address of the state, for compiled loops that meet by themselves (kernels/protocol/loop_run.py)."""
        return self._address

    @property
    def last(self) -> Frames:
        """The frames of the last meeting that Python has made, which nothing has followed.  Local."""
        return self._frames[int(self._state[at.EPOCH]) & 1]

    def go_on(self) -> Frames:
        """The frames of the meeting that a compiled loop has begun and left to Python.  Collective, as that is."""
        self.leave_loop()
        seen = kernels.collect(self._address)
        frames = self._frames[1 if seen & at.ODD else 0]
        if seen & _RARE:
            self._renew(frames, seen)
        frames.lent, frames.lends = seen & at.ANY_LENT, 0
        return frames

    def leave_loop(self) -> None:
        """Takes the meeting back from a compiled loop.  Local."""
        self._state[at.IN_USE] = 0

    def end_loop(self) -> NoReturn:
        """Raises the error for which a compiled loop has given up its wait."""
        self.leave_loop()
        self._raise_ended()

    def let_loop_in(self, activity: Activity) -> None:
        """Lets reports name ``activity`` while a compiled loop waits in a meeting.  Local."""
        self._loop_activity = activity

    def _purpose(self) -> Activity | None:
        return self._loop_activity if self._state[at.IN_USE] else None

    def arrays(self, frames: Frames, facts: Sequence[Facts]) -> list[np.ndarray | None] | None:
        """As of any meeting; None, on all members alike, where one of the arrays cannot be read."""
        found: list[np.ndarray | None] = []
        for member, (fact, location) in enumerate(zip(facts, read_locations(frames.locations), strict=True)):
            if fact.shape is None:
                found.append(None)
            elif not fact.nbytes:
                found.append(np.empty(*fact.array()))
            elif location[at.LOCATION_OFFSET] < 0:
                return None
            else:
                found.append(self._array_at(member, fact, location))
        return found

    def most(self, value: int) -> int:
        return self._call_roll(1, value)

    def next_number(self) -> int:
        """The number of the next object that the members make together; the same on all.  Collective."""
        return next(self._numbers)

    # -- relays --------------------------------------------------------------------------------------------------

    def rings(self) -> Rings | None:
        """The members' rings for relays; None if some member has no space, alike on all.

        Collective when first called.
        """
        if self._rings is None:
            self._ring = self._arena.allocate(RING_BYTES)
            frames = self.swap(self._ring, in_place=True)
            offsets = [location[at.LOCATION_OFFSET] for location in read_locations(frames.locations)]
            bases = [cast(int, self._arena.base_of(process)) for process in self.comm.processes]
            found = [] if min(offsets) < 0 else [base + offset for base, offset in zip(bases, offsets, strict=True)]
            self._rings = Rings(self._address, np.array(found, np.int64))
        return self._rings if len(self._rings.addresses) else None

    def better_relayed(self, n_bytes: int, readable: bool, most_if_near: int, key: Hashable) -> bool:
        """Whether arrays, of which the largest has ``n_bytes``, are better relayed than read or sent.

        Collective; the same on all members.  ``readable``: whether all of them can be read where they lie;
        ``most_if_near``: the largest size that is better relayed between near processors.  For large arrays between
        far ones it depends on the machine: runs with the same ``key``, the same on all members, try both ways.
        """
        if n_bytes <= RELAYED_FROM:
            return False
        self.count_relay()
        if not readable or n_bytes <= most_if_near:
            return self.relays and self.rings() is not None
        if not self.is_far or n_bytes > _LEFT_CACHES or self.rings() is None:  # read where they lie
            return False
        return n_bytes <= _RELAYED_IF_FAR or self._ways.begin(key, self.most) == 0

    def known_rings(self, n_bytes: int, most_if_near: int) -> Rings | None:
        """The rings, where arrays of ``n_bytes`` are relayed at any distance and were before; else None.  Local."""
        is_relayed = RELAYED_FROM < n_bytes <= most_if_near and self.relays
        return self.rings() if is_relayed and self._rings is not None else None

    def note_end(self) -> None:
        self._ways.end()

    def count_relay(self) -> None:
        """Counts a relay that members consider; they measure how far apart they are now and then.  Collective."""
        state = self._state
        state[at.RELAYS] += 1
        if state[at.RELAYS] % at.RELAYS_ASK == 0 and state[at.ASKS]:
            self.ask_distance()

    def relay(self, program: RelayProgram, x: np.ndarray | None, result: np.ndarray | None) -> None:
        """Run a relay on which the members have agreed in the last meeting.  Collective."""
        if not program.run(x, result):
            self._raise_ended()

    @property
    def relays(self) -> bool:
        return self.copied_bytes >= _LEAST_STAGED

    def describe(self) -> str:
        timed = "" if self.model is None else f" (timed here: {self.model})"
        others = "pass through it" if self.relays else f"of up to {self.copied_bytes} bytes are copied into it"
        rest = "" if self.relays else "; larger ones go in messages"
        return f"direct: arrays in the node's memory are read where they lie; others {others}{timed}{rest}"

    def reads_in_place(self, x: np.ndarray) -> bool:
        in_line = x.nbytes <= at.LINE_ARRAY_BYTES
        return not in_line and self._arena.offset_of(kernels.address_of(x), x.nbytes) >= 0


def read_locations(locations: bytes | None) -> list[list[int]]:
    """The words of each member's location."""
    if locations is None:
        return []
    return np.frombuffer(locations, np.int64).reshape(-1, at.LOCATION_WORDS).tolist()


def _span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Number of bytes from the first to the last cell; strides are not negative."""
    return sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)) + itemsize
