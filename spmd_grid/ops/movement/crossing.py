"""Movements in which all members of other nodes need the same boxes: each byte crosses to a node once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.nodes.crossing import Crossing
from spmd_grid.exchange.nodes.stage import pays_in_lanes
from spmd_grid.exchange.paths import MIXED
from spmd_grid.exchange.transfer.execute import send_and_receive
from spmd_grid.exchange.transfer.flat_bytes import copy_views, view_of
from spmd_grid.exchange.transfer.transfer import Transfer, run_of
from spmd_grid.grid.box import Box, run_boxes
from spmd_grid.ops.calls.bounded_cache import keep
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.movement.member_arrays import MemberArrays
from spmd_grid.transport.communicator import Frames, tag_of

__all__ = ["CrossingCopies"]


class CrossingCopies:
    """An all_gather or a broadcast of whole arrays, in a group that spans nodes.

    Members of one node read one another's arrays where they can, or send messages; small arrays lie in the frames.
    """

    def __init__(self, call: CollectiveCall, arrays: MemberArrays, transfer: Transfer, dtype: np.dtype):
        self._call, self._arrays, self._transfer, self._dtype = call, arrays, transfer, dtype
        self._known: dict[bytes | None, tuple[Crossing, Transfer]] = {}
        self._targets = {receive.peer: receive.box for receive in transfer.receives}

    @staticmethod
    def suits(call: CollectiveCall, facts: Sequence[Facts], transfer: Transfer, dtype: np.dtype) -> bool:
        """Whether what ``transfer`` sends to other nodes should cross once.  Local; the same on all members."""
        stage = call.meeting.stage
        if stage is None or not call.lets_read or call.path is not MIXED or not dtype.itemsize:
            return False
        if transfer.pattern not in ("all_gather", "broadcast"):
            return False
        if transfer.pattern == "all_gather" and len(transfer.receives) < sum([fact.nbytes > 0 for fact in facts]):
            return False  # of equal arrays each member needs one
        return pays_in_lanes(stage.nodes, sum(_counts(call, facts)) * dtype.itemsize)

    def run(
        self, x: np.ndarray | None, arrays: list[Any], target: np.ndarray, frames: Frames, copy: Callable[[], None]
    ) -> None:
        """Move all boxes; ``copy()`` copies from the ``arrays`` that can be read.  Collective."""
        found = self._known.get(frames.locations)
        if found is None:
            found = self._crossing(frames), self._near(arrays, frames)
            keep(self._known, frames.locations, found)
        crossing, near = found
        me = self._transfer.rank
        own = np.empty(0, self._dtype) if x is None else np.ascontiguousarray(x).reshape(-1)
        comm = self._call.comm
        steps = send_and_receive(comm, near, x, target, tag_of("blocking movements"))
        requests = next(steps)
        crossing.run(
            lambda member: own if member == me else arrays[member].reshape(-1),
            lambda member, start, cells: _put(target, self._targets[member], start, cells),
            copy,
        )
        comm.wait_all(requests)
        next(steps, None)

    def _crossing(self, frames: Frames | None) -> Crossing:
        """The crossing of the arrays as they lie now; without ``frames``, as if all could be read."""
        stage, facts = self._call.meeting.stage, self._arrays.facts
        assert stage is not None  # else nothing is crossed
        readable = [True] * len(facts) if frames is None else self._call.meeting.run_locations(frames)
        return Crossing(stage, _counts(self._call, facts), self._dtype, readable)

    def _near(self, arrays: list[Any], frames: Frames) -> Transfer:
        """The messages between members of this node: from arrays that cannot be read, and to this member itself."""
        me, transfer, near = self._transfer.rank, self._transfer, self._call.comm.near
        sends = [
            send
            for send in transfer.sends
            if send.peer == me or (send.peer in near and not self._arrays.is_read_by(frames, send.peer))
        ]
        receives = [
            receive
            for receive in transfer.receives
            if receive.peer == me or (receive.peer in near and arrays[receive.peer] is None)
        ]
        return replace(transfer, pattern="pairwise", sends=tuple(sends), receives=tuple(receives))

    @property
    def sent(self) -> dict[int, int]:
        """Bytes that this member sends to members of other nodes, if its node's arrays can be read.  Local."""
        return self._crossing(None).sent


def _counts(call: CollectiveCall, facts: Sequence[Facts]) -> list[int]:
    """The number of cells of each member that have not come with the frames."""
    found = []
    for fact in facts:
        is_here = fact.shape is None or fact.dtype is None or fact.nbytes <= call.meeting.carried_bytes
        found.append(0 if is_here else fact.nbytes // fact.dtype.itemsize)  # type: ignore[union-attr]  # has one
    return found


def _put(target: np.ndarray, box: Box, start: int, cells: np.ndarray) -> None:
    """Copy ``cells``, from number ``start`` of ``box`` on, to that box of the target."""
    run = run_of(target.shape, [box]) if target.flags.c_contiguous else None
    if run is not None:
        target.reshape(-1)[run[0] + start : run[0] + start + cells.size] = cells
        return
    within, at, pairs = view_of(target, box), 0, []
    for inner in run_boxes(box.shape, start, start + cells.size):
        pairs.append((cells[at : at + inner.size].reshape(inner.shape), view_of(within, inner)))
        at += inner.size
    copy_views(pairs)
