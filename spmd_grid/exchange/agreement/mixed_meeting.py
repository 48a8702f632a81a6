"""Meetings of groups that span nodes, whose frames go by the transport: many nodes, or nodes without memory to share.

Members of one node read one another's arrays, of which frames carry the locations; messages carry them to the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.agreement.meeting import array_in_frame
from spmd_grid.exchange.agreement.node_meeting import LOCATION_BYTES, NodeMeeting, read_locations
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, INLINE_BYTES, Frames

__all__ = ["MixedMeeting"]


class MixedMeeting(NodeMeeting):
    """A meeting of a group in which only some members see one another's memory."""

    def swap(self, x: np.ndarray | None = None, in_place: bool = False) -> Frames:
        self.state[at.EPOCH] += 1
        flags = 0
        if x is not None and x.nbytes > INLINE_BYTES:  # a smaller one is in the frame itself
            offset, flags = self._location_of(x, in_place)
            location = np.zeros(at.LOCATION_WORDS, np.int64)
            location[at.LOCATION_OFFSET], location[at.LOCATION_FLAGS] = offset, flags
            if flags & at.STRIDED:
                location[at.LOCATION_STRIDES :] = self._strides
            self.comm.frame[HEADER_BYTES:] = location.tobytes()
        frames = self.comm.swap_frames()
        starts = range(HEADER_BYTES, len(frames.data), FRAME_BYTES)
        frames.locations = b"".join([frames.data[start : start + LOCATION_BYTES] for start in starts])
        frames.lent, frames.lends = True, flags & at.LENT
        return frames

    def arrays(self, frames: Frames, facts: Sequence[Facts]) -> list[np.ndarray | None] | None:
        """As of any meeting: arrays in frames, and those that near members let others read; None for this member."""
        found: list[np.ndarray | None] = []
        for member, (fact, location) in enumerate(zip(facts, read_locations(frames.locations), strict=True)):
            if fact.shape is None or member == self.comm.rank:
                found.append(None)
            elif fact.fits_inline:
                found.append(array_in_frame(frames.data, member, fact))
            elif location[at.LOCATION_OFFSET] < 0 or member not in self.comm.near:
                found.append(None)
            else:
                found.append(self._array_at(member, fact, location))
        return found
