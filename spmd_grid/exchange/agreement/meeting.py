"""Meetings: the members of a group swap frames at the opening of an operation, and read one another's arrays.

Here the transport does both; `MemoryMeeting` and `MixedMeeting` use the memory of the node.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from spmd_grid.exchange.agreement.frame_swap import swap_in_frame
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.exchange.nodes.stage import Stage
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, INLINE_BYTES, Communicator, Frames

__all__ = ["Meeting", "array_in_frame"]


class Meeting:
    """Meetings by means of the transport alone."""

    posted_bytes = 0  # the size of the largest arrays that members post beside their frames, in memory that they share
    is_far = is_late = streams = False  # what members have found out about their distance: see `Distance`
    nodes: NodeMap | None = None  # of groups that span nodes
    stage: Stage | None = (
        None  # where members of one node pass on what has crossed from others, in groups that span nodes
    )

    def __init__(self, comm: Communicator):
        self.comm = comm

    def swap(self, x: np.ndarray | None = None, in_place: bool = False) -> Frames:
        """Posts this member's frame and lets the others read ``x``; the frames of all members.

        Collective.  ``in_place``: the others access ``x`` itself, which `reads_in_place`, and may write to it.
        """
        return self.comm.swap_frames(x)

    def arrays(self, frames: Frames, facts: Sequence[Facts]) -> list[np.ndarray | None] | None:
        """The arrays that members let others read in the last meeting; None where messages have to carry them.

        Local.  None also stands for a member that has no array, or whose array this process cannot read.
        """
        return frames.exposed

    def reads_in_place(self, x: np.ndarray) -> bool:
        """Whether the others read ``x``, which is contiguous, where it lies (and could write to it).  Local."""
        return self.comm.shares_objects

    def better_relayed(
        self, n_bytes: int, readable: bool, most_if_near: int, key: Hashable, most_if_late: int | None = None
    ) -> bool:
        """Whether arrays are better relayed (see ``relay.py``) than read or sent; the same on all members.

        `note_end` follows the run.
        """
        return False

    def note_end(self) -> None:
        """Note the end of a run whose way `better_relayed` chose.  Local."""

    def describe(self) -> str:
        """Text for users: the way of arrays to the other members.  Local."""
        return "direct: arrays are read where they lie" if self.comm.shares_objects else "by messages"

    @property
    def carried_bytes(self) -> int:
        """The size of the largest arrays that frames in messages contain.  Local; the same on all members."""
        return INLINE_BYTES

    def run_locations(self, frames: Frames) -> list[bool]:
        """Whether the array of each member lies as one run where members of its node can read it.  Local."""
        return [frames.exposed is not None] * self.comm.size

    def most(self, value: int) -> int:
        """The largest ``value``, at least 0, of all members.  Collective."""
        return max(int.from_bytes(each, "little") for each in swap_in_frame(self.comm, value.to_bytes(8, "little")))

    def ask_distance(self) -> float | None:
        """Seconds that a word takes from one member to the others; None where that is unknown.  Collective."""
        return None

    def depart(self, frames: Frames, readers: np.ndarray | None = None) -> None:
        """Tells the others that this member has read their arrays; returns once its own has been read.

        Collective, after a meeting with arrays ``lent``.  ``readers``: a word for each member, not 0 if it reads this
        member's array; by default all may.
        """
        self.comm.barrier()


def array_in_frame(data: bytes | bytearray | memoryview, member: int, fact: Facts) -> np.ndarray:
    """The small array of a member as it lies in its frame.  Local."""
    shape, dtype = fact.array()
    if fact.nbytes == 0:
        return np.empty(shape, dtype)
    raw = np.frombuffer(data, np.uint8, fact.nbytes, member * FRAME_BYTES + HEADER_BYTES)
    return raw.view(dtype).reshape(shape)
