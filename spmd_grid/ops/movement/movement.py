"""The work of a member in operations that move boxes, once all facts are known."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.agreement.memory_meeting import STAGED_BYTES
from spmd_grid.exchange.agreement.node_meeting import MEETING_LINE_BYTES
from spmd_grid.exchange.agreement.relay import RELAYED_FROM
from spmd_grid.exchange.channel.copy_table import c_strides
from spmd_grid.exchange.nodes.direct import goes_direct
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.exchange.paths import DIRECT, INLINE, MIXED
from spmd_grid.exchange.transfer.execute import FEW_MEMBERS, next_tag, run_message, send_and_receive
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.exchange.transfer.traffic import traffic_of
from spmd_grid.exchange.transfer.transfer import Transfer
from spmd_grid.grid.box import Box
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.calls.bounded_cache import keep
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.loops.work import LoopWork, copies_of, copies_of_transfer, is_short
from spmd_grid.ops.movement.ahead import (
    AheadWork,
    ahead_messages,
    ahead_work,
    direct_messages,
)
from spmd_grid.ops.movement.crossing import CrossingCopies
from spmd_grid.ops.movement.crossing_pieces import pieces_of_movement
from spmd_grid.ops.movement.fetched_copies import FetchedCopies
from spmd_grid.ops.movement.items import decode_receives, encode_receives
from spmd_grid.ops.movement.member_arrays import DirectCopies, MemberArrays, fresh
from spmd_grid.ops.movement.posted import fit_lines
from spmd_grid.ops.movement.relayed_copies import RelayedCopies
from spmd_grid.transport.communicator import Frames, tag_of
from spmd_grid.typing import Shape
from spmd_grid.watch.traffic import Traffic

__all__ = ["Movement"]

# The patterns in which not all members need something of all others, and those in which all do.
_ONE_WAY = "broadcast", "scatter", "gather", "pairwise"
_BOTH_WAYS = "all_to_all", "all_gather"
_IN_PARTS = "scatter", "all_to_all"  # in which each member needs another part of an array

# Bytes of the largest arrays for which the time of a meeting counts, by pattern; a root's array is that of all members.
_MOST_AHEAD = dict.fromkeys(_ONE_WAY, 1 << 25) | dict.fromkeys(_BOTH_WAYS, 1 << 23)


class Movement:
    """Moves boxes of the members' arrays into a result of ``shape`` (None: this member has no result).

    ``fill``: the value of cells that no member sends.

    A run copies from the other members' arrays if they can be read (`MemberArrays`); if not, it relays them, has the
    system copy them, or sends messages; small arrays travel with the frames.
    """

    __slots__ = (
        "_arrays",
        "_copies",
        "_crossing",
        "_far",
        "_fetched",
        "_inline",
        "_relayed",
        "_sent",
        "call",
        "comm",
        "dtype",
        "fill",
        "shape",
        "transfer",
    )

    def __init__(
        self,
        call: CollectiveCall,
        facts: list[Facts],
        transfer: Transfer,
        shape: Shape | None,
        dtype: np.dtype,
        fill: Any = None,
    ):
        self.call = call
        self.comm = call.comm
        self.transfer = transfer
        self.shape = shape
        self.dtype = dtype
        self.fill = fill
        # In large groups MPI's own collectives, which are logarithmic, beat a message to every member on other nodes.
        mixes = transfer.pattern in ("pairwise", "all_to_all") or transfer.size <= FEW_MEMBERS
        crosses = CrossingCopies.suits(call, facts, transfer, dtype)
        self._arrays = MemberArrays(call, facts, mixes or crosses)
        self._crossing = CrossingCopies(call, self._arrays, transfer, dtype) if crosses else None
        self._copies = DirectCopies(transfer)
        self._sent: dict[int, int] | None = None  # in runs without a meeting, in pieces
        self._inline: tuple[list[Any] | None, list[tuple[np.ndarray, tuple[slice, ...]]]] = (None, [])
        self._far: dict[bytes | None, Transfer] = {}
        large = self._arrays.way is DIRECT and max(fact.nbytes for fact in facts) > RELAYED_FROM
        self._relayed = RelayedCopies(call, facts, transfer) if large else None
        self._fetched = FetchedCopies(call, facts, transfer) if large else None

    def run(self, x: np.ndarray | None, out: np.ndarray | None, frames: Frames) -> np.ndarray | None:
        """Move the boxes; ``frames`` are those in which the members agreed.  Collective."""
        target = self._target(out)
        arrays = self._arrays.of(frames)
        if arrays is None and self._fetched is not None and self._fetched.suits(frames):
            self._fetched.run(target, frames)
        elif self._relayed is not None and self._relayed.suits(arrays is not None):
            self._relayed.run(x, target)
        elif arrays is None:
            run_message(self.comm, self.transfer, x, target)
        elif self._arrays.way is INLINE:
            self._copy_inline(arrays, target)
        elif self._arrays.way is MIXED:
            self._run_mixed(x, arrays, target, frames)
        else:
            self._copies.run(frames, arrays, target)
            if frames.lent:
                self.call.meeting.depart(frames, self.transfer.readers)
        if self._relayed is not None:
            self.call.meeting.note_end()
        return target

    def loop_work(self) -> LoopWork | None:
        """This member's part of a run in compiled loops, by one meeting; None where Python must run it."""
        if not is_short(self.facts, self.call.meeting):
            return self._relayed_work()
        return self._all_copies()

    def _all_copies(self) -> LoopWork:
        """Copies from all members' arrays."""
        if self.shape is None:
            return LoopWork()
        copies = copies_of_transfer(self.transfer, [fact.shape for fact in self.facts], self.dtype)
        if self.fill is None:
            return LoopWork(copies)
        whole = Box.from_shape(self.shape)
        constant = np.full(self.shape, self.fill, self.dtype)
        return LoopWork([*copies, copies_of(self.shape, whole, self.shape, whole, self.dtype)], constant)

    def ahead_work(self, nodes: NodeMap, swap: Callable[[bytes], list[bytes]]) -> AheadWork | None:
        """This member's part of a run without a meeting; None where there is none, alike on all members.

        ``swap``: gives the bytes of all members.  Collective.
        """
        dtypes, most = (
            {fact.dtype for fact in self.facts if fact.dtype is not None},
            max(fact.nbytes for fact in self.facts),
        )
        is_large, pattern = not is_short(self.facts, self.call.meeting), self.transfer.pattern
        most *= self.comm.size if pattern == "all_gather" else 1
        if is_large:
            suits = self.comm.size <= FEW_MEMBERS and most <= _MOST_AHEAD.get(pattern, 0)
        else:
            suits = pattern in _ONE_WAY or (
                pattern in _BOTH_WAYS and goes_direct(self.comm, most if pattern in _IN_PARTS else 0)
            )
        if not suits or len(dtypes) > 1:
            return None
        received = [decode_receives(text) for text in swap(encode_receives(self.transfer))]
        shapes, copies = [fact.shape for fact in self.facts], self._all_copies()
        if is_large and not (pattern in _IN_PARTS and fit_lines(shapes, received, self.dtype, nodes)):
            constant = copies.copies[-1] if copies.constant is not None else ()
            pieces, read_bytes = pieces_of_movement(self.transfer, shapes, received, self.dtype, nodes, constant)
            self._sent = pieces.sent
            return AheadWork.by_pieces(pieces, self.comm.rank, read_bytes, copies.constant)
        if pattern in _BOTH_WAYS:
            messages = direct_messages(shapes, received, nodes, self.dtype)
        else:
            messages = ahead_messages(received, nodes, at.LINE_ARRAY_BYTES // max(self.dtype.itemsize, 1))
        if messages is None:
            return None
        return ahead_work(self.transfer, shapes, received, messages, copies, self.dtype, nodes)

    def new_target(self) -> np.ndarray:
        """An array for the result, where this member has one.  Local."""
        assert self.shape is not None  # it has one
        return fresh(self.call.grid, self.shape, self.dtype)

    @property
    def facts(self) -> Sequence[Facts]:
        """The shapes and dtypes of the arrays, by member."""
        return self._arrays.facts

    def _relayed_work(self) -> LoopWork | None:
        if self._relayed is None or self.fill is not None:
            return None
        mine = self._arrays.facts[self.comm.rank]
        given = () if mine.shape is None else c_strides(mine.shape, self.dtype.itemsize)
        into = () if self.shape is None else c_strides(self.shape, self.dtype.itemsize)
        if self._fetched is None:
            return self._relayed.loop_work(given, into, None)
        return self._fetched.loop_work(self._relayed.loop_work(given, into, self._fetched.reading(into)), into)

    @property
    def staging_bytes(self) -> int:
        """Upper bound on the bytes of staging memory that a run by memory holds."""
        return 2 * MEETING_LINE_BYTES + STAGED_BYTES

    def describe(self) -> str:
        """Describe the bytes that this member sends and receives."""
        me, size = self.transfer.rank, self.dtype.itemsize
        out = sum(send.box.size for send in self.transfer.sends if send.peer != me) * size
        into = sum(receive.box.size for receive in self.transfer.receives if receive.peer != me) * size
        text = f"sends {out} bytes to the other members and receives {into}"
        if self._crossing is None:
            return text
        crossing = self._crossing.sent
        return f"{text}; to other nodes, which share them, it sends {sum(crossing.values())}"

    def traffic(self) -> Traffic:
        """The movement's part of a trace, on the path that is taken if arrays can be read."""
        crossing = self._sent if self._crossing is None else self._crossing.sent
        way = self._arrays.way_in_traces
        return traffic_of(self.comm, self.dtype.itemsize, way, self.transfer, crossing=crossing)

    def steps(
        self, x: np.ndarray | None, out: np.ndarray | None, frames: Frames
    ) -> Generator[list, None, np.ndarray | None]:
        """Move the boxes as ``run`` does, in steps that do not wait."""
        if self._arrays.are_posted:
            return self.run(x, out, frames)
        target = self._target(out)
        yield from send_and_receive(self.comm, self.transfer, x, target, next_tag(self.comm))
        return target

    def _run_mixed(self, x: np.ndarray | None, arrays: list[Any], target: np.ndarray | None, frames: Frames) -> None:
        """Copy from arrays that can be read while messages carry the rest."""
        if self._crossing is not None:
            assert target is not None  # all members get what crosses to all
            self._crossing.run(x, arrays, target, frames, lambda: self._copies.run(frames, arrays, target))
            self.call.meeting.depart(frames)
            return
        far = self._far.get(frames.locations)
        if far is None:
            me, transfer = self.transfer.rank, self.transfer
            sends = [s for s in transfer.sends if s.peer == me or not self._arrays.is_read_by(frames, s.peer)]
            receives = [receive for receive in transfer.receives if arrays[receive.peer] is None]
            far = replace(transfer, pattern="pairwise", sends=tuple(sends), receives=tuple(receives))
            keep(self._far, frames.locations, far)
        steps = send_and_receive(self.comm, far, x, target, tag_of("blocking movements"))
        requests = next(steps)
        self._copies.run(frames, arrays, target)
        self.comm.wait_all(requests)
        next(steps, None)
        if not self._arrays.come_with_frames:
            self.call.meeting.depart(frames)

    def _copy_inline(self, arrays: list[Any] | None, target: np.ndarray | None) -> None:
        """Copy the receives from the frames; the views of the frames are made once."""
        if target is None or arrays is None:
            return
        if self._inline[0] is not arrays:
            views = [(view_of(arrays[r.peer], r.source_box), r.box.slices()) for r in self.transfer.receives]
            self._inline = arrays, views
        for view, cells in self._inline[1]:
            target[cells] = view

    def _target(self, out: np.ndarray | None) -> np.ndarray | None:
        if self.shape is None:
            return None
        target = fresh(self.call.grid, self.shape, self.dtype) if out is None else out
        if self.fill is not None:
            target[...] = self.fill
        return target
