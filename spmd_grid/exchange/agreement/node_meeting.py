"""Meetings whose members on one node tell one another where arrays lie in its memory, and when they have read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, cast

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import TransportError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.agreement.meeting import Meeting
from spmd_grid.exchange.agreement.relay import COPIED_IF_RELAYED
from spmd_grid.exchange.agreement.staging_ring import MOST_STAGED, StagingRing
from spmd_grid.exchange.transfer.distance import Distance
from spmd_grid.exchange.transfer.machine_model import MachineModel
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, Communicator, Frames
from spmd_grid.transport.wire import Messages

__all__ = [
    "COPIED_BYTES",
    "LOCATION_BYTES",
    "MEETING_BLOCK_BYTES",
    "MEETING_LINE_BYTES",
    "NodeMeeting",
    "read_locations",
]

# Arrays of at most this many bytes outside the arena are copied into it to be read, where they cannot be relayed.
COPIED_BYTES = MOST_STAGED

MEETING_LINE_BYTES = at.LINE_ARRAY + at.LINE_ARRAY_BYTES
MEETING_BLOCK_BYTES = 2 * MEETING_LINE_BYTES + 256
LOCATION_BYTES = at.LOCATION_WORDS * 8  # a frame carries as many beside its header
# A process that shares its core sleeps for at most this time between looks at signals and at other processes' ends.
_SLEEP_NANOSECONDS = 400_000
_MOST_STRIDES = at.LOCATION_WORDS - at.LOCATION_STRIDES


class NodeMeeting(Meeting):
    """The part of meetings by which members see one another's blocks of memory.

    ``members``: those of the node, this one included; ``block``: this member's part of their common memory;
    ``addresses``: the members' blocks, as seen by this process.  ``number`` tells several meetings of a group apart.
    """

    def __init__(
        self,
        comm: Communicator,
        members: Sequence[int],
        block: np.ndarray,
        addresses: Sequence[int],
        number: int = 0,
    ):
        super().__init__(comm)
        self.block, self._arena = block, comm.process.arena
        self._copies = StagingRing(self._arena)
        self.state = state = np.zeros(at.BLOCKS + len(members), np.int64)
        self._wire = wire = comm.wire(
            Messages([], [], []), members, members, number, lambda: int(self.state[at.EPOCH]), None
        )
        self._strides = state[at.LOCATION + at.LOCATION_STRIDES : at.LOCATION + at.LOCATION_WORDS]
        state[at.MEMBERS], state[at.MEMBER] = len(members), members.index(comm.rank)
        state[at.LINE_BYTES] = MEETING_LINE_BYTES
        state[at.BLOCKS :] = addresses
        state[at.BLOCK_OFFSET] = self._arena.offset_of(kernels.address_of(block), block.nbytes)
        state[at.POLLS], state[at.YIELDS], state[at.YIELDS_AGAIN] = wire.polls, wire.yields, wire.yields_again
        state[at.ON_WAIT] = wire.on_wait
        state[at.WENT_ON], state[at.ON_POST] = kernels.address_of(wire.went_on), wire.on_post
        self._headers = np.zeros((2, len(members) * HEADER_BYTES), np.uint8)
        self._locations = np.zeros((2, len(members) * LOCATION_BYTES), np.uint8)
        self._data = np.zeros((2, len(members) * FRAME_BYTES), np.uint8)
        state[at.FRAME] = kernels.address_of(np.frombuffer(comm.frame, np.uint8))
        state[at.FRAMES_SEEN] = kernels.address_of(self._data)
        state[at.HEADERS_SEEN] = kernels.address_of(self._headers)
        state[at.LOCATIONS_SEEN] = kernels.address_of(self._locations)
        self._address, self._all = kernels.address_of(state), np.ones(len(members), np.int64)
        self._distance = Distance(self._call_roll, len(members))

    copied_bytes = COPIED_BYTES
    model: MachineModel | None = None

    def sleep_after(self, polls: int, yields: int) -> None:
        """Lets waits sleep after some polls, and after giving way some times, where the system has such sleeps.  Local.

        All members of the node do so, or none.
        """
        if at.FUTEX:
            self._pause = np.array([0, _SLEEP_NANOSECONDS], np.int64)
            state = self.state
            state[at.POLLS], state[at.YIELDS], state[at.SLEEPS] = polls, yields, kernels.address_of(self._pause)

    @property
    def relays(self) -> bool:
        """Whether arrays outside the arena are relayed, unless they are small."""
        return False

    def _location_of(self, x: np.ndarray, in_place: bool) -> tuple[int, int]:
        """Offset in this process's segment at which others can read ``x`` or a copy of it (else -1), and flags."""
        # Lines that a far processor has read are slower to write to than a copy is made.
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
        return self._copies.copy(x, int(self.state[at.EPOCH]), self.streams), 0

    def _array_at(self, member: int, fact: Facts, location: Sequence[int]) -> np.ndarray:
        """The array of a member of the node."""
        shape, dtype = fact.array()
        offset, flags, *words = location
        strides = words[: len(shape)] if flags & at.STRIDED else None
        n_bytes = _span(shape, strides, dtype.itemsize) if strides else fact.nbytes
        base = cast(int, self._arena.base_of(self.comm.processes[member]))  # which a member of the node has
        memory = kernels.bytes_at(base + offset, n_bytes)
        return np.ndarray(shape, dtype, memory, 0, strides)

    def run_locations(self, frames: Frames) -> list[bool]:
        return [
            location[at.LOCATION_OFFSET] >= 0 and not location[at.LOCATION_FLAGS] & at.STRIDED
            for location in read_locations(frames.locations)
        ]

    def describe(self) -> str:
        return (
            f"mixed: arrays of up to {self.carried_bytes} bytes come with the header;"
            f" {len(self.comm.near) + 1} members on this node read one another's arrays; those outside its memory"
            f" are copied into it if of up to {self.copied_bytes} bytes; messages carry the rest"
        )

    def is_read_by(self, frames: Frames, facts: Sequence[Facts], member: int) -> bool:
        """Whether ``member`` can read this member's array without a message.  Local."""
        me = self.comm.rank
        if facts[me].nbytes <= self.carried_bytes:
            return True
        return member in self.comm.near and read_locations(frames.locations)[me][at.LOCATION_OFFSET] >= 0

    def depart(self, frames: Frames, readers: np.ndarray | None = None) -> None:
        waits_for = kernels.address_of(self._all if readers is None else readers) if frames.lends else 0
        if kernels.depart(self._address, waits_for) != at.FINE:
            self._raise_ended()

    def ask_distance(self) -> float | None:
        if not self.comm.times_well:  # the time would be that of the system's switches from one process to the next
            return None
        seconds = self._distance.ask(*self._free_memory())
        self.is_far, self.streams = self._distance.is_far, self._distance.streams
        self.is_late = self._distance.is_late
        self.state[[at.IS_FAR, at.IS_LATE, at.STREAMS]] = self.is_far, self.is_late, self.streams
        return seconds

    def _free_memory(self) -> tuple[int, int]:
        """The addresses of memory of this member and the next one that is free between operations, or 0."""
        return 0, 0

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


def read_locations(locations: bytes | None) -> list[list[int]]:
    """The words of each member's location."""
    if locations is None:
        return []
    return np.frombuffer(locations, np.int64).reshape(-1, at.LOCATION_WORDS).tolist()


def _span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Number of bytes from the first to the last cell; strides are not negative."""
    return sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)) + itemsize
