"""Meetings of groups that span nodes: frames carry the locations of arrays.

Members of one node read one another's arrays; messages carry them to the others.  Frames go from each member to each by
the transport; or members of a node meet in its memory, and their frames cross once to each other node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.frame_crossing import FrameCrossing
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.agreement.meeting import array_in_frame
from spmd_grid.exchange.agreement.memory_meeting import LOCATION_BYTES, MEETING_LINE_BYTES, NodeMeeting, read_locations
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.exchange.transfer.flat_bytes import flat_bytes
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, INLINE_BYTES, Communicator, Frames

__all__ = ["MixedMeeting"]

# Waits in a node's memory are as long as messages between nodes here.  More yields would burn the time of a core that
# several ranks share: with 200 of them a meeting took twice as long.
_YIELDS = 4


class MixedMeeting(NodeMeeting):
    """A meeting of a group in which only some members see one another's memory."""

    def __init__(self, comm: Communicator, members: Sequence[int], block: np.ndarray, addresses: Sequence[int]):
        super().__init__(comm, members, block, addresses)
        if not comm.times_well:
            self._state[at.YIELDS] = _YIELDS
        self._members = list(members)
        self._crossing: FrameCrossing | None = None
        self._whole = np.zeros((comm.size, FRAME_BYTES), np.uint8)
        self._swapped = Frames(b"", self._whole.reshape(-1).data, None)
        # Bodies are copied to where they always lie, since what reads them is kept by their addresses.
        self._bodies = self._swapped.bodies = list(np.zeros((comm.size, self.carried_bytes), np.uint8))
        turns = range(at.LINE_ARRAY, 2 * MEETING_LINE_BYTES, MEETING_LINE_BYTES)
        self._posted = [[kernels.bytes_at(line + turn, at.LINE_ARRAY_BYTES) for line in addresses] for turn in turns]

    def cross_once(self, nodes: NodeMap, inbox: np.ndarray, inboxes: Mapping[int, int]) -> None:
        """Lets frames cross once to each node from now on.  Collective.

        ``inbox``: this member's memory for what it receives; ``inboxes``: the addresses of those of the node's members.
        """
        self._inbox = inbox  # kept: the crossing has addresses only
        self._crossing = FrameCrossing(self.comm, nodes, inboxes, self.comm.largest_body)

    @property
    def carried_bytes(self) -> int:
        return max(INLINE_BYTES, self.comm.largest_body)

    def swap(self, x: np.ndarray | None = None, in_place: bool = False) -> Frames:
        flags, body = 0, None
        if self._crossing is None:
            self._state[at.EPOCH] += 1
        if x is not None and x.nbytes > INLINE_BYTES:  # a smaller one is in the frame itself
            if x.nbytes <= self.carried_bytes:
                offset, body = -1, flat_bytes(np.ascontiguousarray(x))
            else:
                offset, flags = self._location_of(x, in_place)
            location = np.zeros(at.LOCATION_WORDS, np.int64)
            location[at.LOCATION_OFFSET], location[at.LOCATION_FLAGS] = offset, flags
            if flags & at.STRIDED:
                location[at.LOCATION_STRIDES :] = self._strides
            self.comm.frame[HEADER_BYTES:] = location.tobytes()
        frames = self.comm.swap_frames(body=body) if self._crossing is None else self._cross(self._crossing, body)
        starts = range(HEADER_BYTES, len(frames.data), FRAME_BYTES)
        frames.locations = b"".join([frames.data[start : start + LOCATION_BYTES] for start in starts])
        frames.lent, frames.lends = True, flags & at.LENT
        return frames

    def _cross(self, crossing: FrameCrossing, body: np.ndarray | None) -> Frames:
        """The frames of all members, of which those of the node meet in its memory."""
        address, n_bytes = (0, 0) if body is None else (kernels.address_of(body), body.nbytes)
        seen = kernels.meet(self._address, address, n_bytes, -1, n_bytes * at.BODY_BYTES)
        if seen < 0:
            self._raise_ended()
        turn = 1 if seen & at.ODD else 0
        near = self._data[turn].reshape(-1, FRAME_BYTES)
        sizes = self._locations[turn].view(np.int64)[at.LOCATION_FLAGS :: at.LOCATION_WORDS] // at.BODY_BYTES
        bodies = [line[:n] for line, n in zip(self._posted[turn], sizes.tolist(), strict=True)]
        crossing.carry(near, bodies)
        self._wire.meets = True
        self._call_roll(1)  # what other members of the node carry has come as well
        self._wire.meets = False
        frames = self._swapped
        self._whole[self._members] = near
        for member, mine in zip(self._members, bodies, strict=True):
            if len(mine):
                self._bodies[member][: len(mine)] = mine
        crossing.take(self._whole, self._bodies)
        frames.headers = self._whole[:, :HEADER_BYTES].tobytes()
        return frames

    def arrays(self, frames: Frames, facts: Sequence[Facts]) -> list[np.ndarray | None] | None:
        """As of any meeting: arrays in frames, and those that near members let others read; None for this member."""
        found: list[np.ndarray | None] = []
        for member, (fact, location) in enumerate(zip(facts, read_locations(frames.locations), strict=True)):
            if fact.shape is None or member == self.comm.rank:
                found.append(None)
            elif fact.fits_inline:
                found.append(array_in_frame(frames.data, member, fact))
            elif fact.nbytes <= self.carried_bytes:
                shape, dtype = fact.array()
                found.append(frames.bodies[member][: fact.nbytes].view(dtype).reshape(shape))
            elif location[at.LOCATION_OFFSET] < 0 or member not in self.comm.near:
                found.append(None)
            else:
                found.append(self._array_at(member, fact, location))
        return found

    def describe(self) -> str:
        return (
            f"mixed: arrays of up to {self.carried_bytes} bytes come with the header;"
            f" {len(self.comm.near) + 1} members on this node read one another's arrays; those outside its memory"
            f" are copied into it if of up to {self.copied_bytes} bytes; messages carry the rest"
        )

    def run_locations(self, frames: Frames) -> list[bool]:
        return [
            location[at.LOCATION_OFFSET] >= 0 and not location[at.LOCATION_FLAGS] & at.STRIDED
            for location in read_locations(frames.locations)
        ]

    def is_read_by(self, frames: Frames, facts: Sequence[Facts], member: int) -> bool:
        """Whether ``member`` can read this member's array without a message.  Local."""
        me = self.comm.rank
        if facts[me].nbytes <= self.carried_bytes:
            return True
        return member in self.comm.near and read_locations(frames.locations)[me][at.LOCATION_OFFSET] >= 0
