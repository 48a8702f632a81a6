"""Meetings in which every member posts a line, and waits for the lines of all others, in Python or compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.node_meeting import LOCATION_BYTES, NodeMeeting
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import Communicator, Frames
from spmd_grid.watch.traffic import Activity

__all__ = ["LineMeeting"]

# Bits of a meeting's result that are rare: -1 has all bits.
_RARE = at.RENEWED | at.ASK


class LineMeeting(NodeMeeting):
    """Meetings in lines, with which small arrays travel; as `NodeMeeting`, where members may be on several nodes.

    ``line_bytes``: the size of the largest array in a line.
    """

    line_bytes = at.LINE_ARRAY_BYTES

    def __init__(
        self,
        comm: Communicator,
        members: Sequence[int],
        block: np.ndarray,
        addresses: Sequence[int],
        number: int = 0,
    ):
        super().__init__(comm, members, block, addresses, number)
        self._frames = [Frames(b"", each.data, None) for each in self._data]  # of even and odd meetings
        self._loop_activity: Activity | None = None
        self._wire.find_activity = self._purpose

    def swap(self, x: np.ndarray | None = None, in_place: bool = False) -> Frames:
        address, n_bytes, offset, flags = 0, 0, -1, 0
        if x is not None:
            if x.nbytes > self.line_bytes:
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
            if self.state[at.IN_USE]:
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
        return self._frames[int(self.state[at.EPOCH]) & 1]

    def go_on(self) -> Frames:
        """The frames of the meeting that a compiled loop has begun and left to Python.  Collective, as that is."""
        self.leave_loop()
        seen = kernels.collect(self._address)
        frames = self._frames[1 if seen & at.ODD else 0]
        if seen & _RARE:
            self._renew(frames, seen)
        line = (int(self.state[at.LINE_BYTES]) if seen & at.ODD else 0) + at.LINE_LOCATION
        posted = self.block[line : line + LOCATION_BYTES].view(np.int64)
        frames.lent, frames.lends = seen & at.ANY_LENT, int(posted[at.LOCATION_FLAGS]) & at.LENT
        return frames

    def leave_loop(self) -> None:
        """Takes the meeting back from a compiled loop.  Local."""
        self.state[at.IN_USE] = 0

    def end_loop(self) -> NoReturn:
        """Raises the error for which a compiled loop has given up its wait."""
        self.leave_loop()
        self._raise_ended()

    def let_loop_in(self, activity: Activity) -> None:
        """Lets reports name ``activity`` while a compiled loop waits in a meeting.  Local."""
        self._loop_activity = activity

    def _purpose(self) -> Activity | None:
        return self._loop_activity if self.state[at.IN_USE] else None
