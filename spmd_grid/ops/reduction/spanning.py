"""Reductions of groups that span nodes: members of a node combine their arrays before these cross to another node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.nodes.direct import goes_direct
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.exchange.nodes.stage import Stage, pays_in_lanes
from spmd_grid.exchange.paths import MIXED
from spmd_grid.exchange.transfer.traffic import traffic_of
from spmd_grid.exchange.transfer.transfer import Transfer
from spmd_grid.grid.box import Box
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.loops.work import Fold, LoopWork, copies_of_transfer, is_short
from spmd_grid.ops.movement.ahead import (
    AheadWork,
    ahead_work,
    direct_messages,
)
from spmd_grid.ops.movement.items import decode_receives, encode_receives
from spmd_grid.ops.movement.member_arrays import fresh
from spmd_grid.ops.movement.posted import fit_lines
from spmd_grid.ops.reduction.crossing.ahead import FoldInPieces
from spmd_grid.ops.reduction.crossing.chunks import FoldedBox
from spmd_grid.ops.reduction.crossing.folding import CrossingFolding
from spmd_grid.ops.reduction.reduction import Reduction
from spmd_grid.ops.reduction.transfers import collect_parts, collect_whole
from spmd_grid.reduction_kind import ReductionKind
from spmd_grid.transport.communicator import Frames
from spmd_grid.typing import Shape
from spmd_grid.watch.traffic import Traffic

__all__ = ["SpanningReduction", "reduction_of"]

# Bytes of the largest arrays for which the time of a meeting counts.
_MOST_AHEAD = 1 << 23


class SpanningReduction(Reduction):
    """A reduction of a group that spans nodes, whose arrays come with the frames, by nodes, or by messages."""

    _mixes = True

    def __init__(
        self,
        call: CollectiveCall,
        facts: list[Facts],
        kind: ReductionKind,
        root: int | None = None,
        blocks: Sequence[Box] | None = None,
    ):
        super().__init__(call, facts, kind, root, blocks)
        self._sent: dict[int, int] | None = None  # in runs without a meeting, in pieces
        self._crossing = self._crossing_folding() if self._arrays.way is MIXED and kind.elementwise else None

    def _crossing_folding(self) -> CrossingFolding | None:
        """The fold over several nodes; None where messages between all members serve as well."""
        stage = self._stage
        if stage is None or not self.call.lets_read:
            return None
        parts, folding = self._parts(stage.nodes), self._folding
        return CrossingFolding(stage, self.source_shape, self.dtype, folding, parts)

    @property
    def _stage(self) -> Stage | None:
        """The memory in which what crosses waits; None where messages between all members serve as well."""
        stage: Stage | None = self.call.meeting.stage
        pays = stage is not None and pays_in_lanes(stage.nodes, self._n * self.dtype.itemsize)
        return stage if pays else None

    def _parts(self, nodes: NodeMap) -> list[FoldedBox]:
        """The boxes that are folded, and who gets them."""
        node_of, whole = nodes.node_of, Box.from_shape(self.source_shape)
        if self._blocks is not None:  # who gets a block folds it
            blocks = [(i, box) for i, box in enumerate(self._blocks) if not box.is_empty]
            return [FoldedBox(box, (node_of[i],), (i,), nodes.lanes_of(i)) for i, box in blocks]
        if self._root is not None:
            return [FoldedBox(whole, (node_of[self._root],), (self._root,), range(nodes.lanes))]
        return [FoldedBox(whole, tuple(range(len(nodes.nodes))), range(self.comm.size), range(nodes.lanes))]

    def ahead_work(self, nodes: NodeMap, swap: Callable[[bytes], list[bytes]]) -> AheadWork | None:
        """This member's part of a run without a meeting; None where there is none, alike on all.  Collective."""
        kind, n_bytes = self.kind.name, self._n * self.dtype.itemsize
        if is_short(self.facts, self.call.meeting):
            in_parts = 0 if self._blocks is None else n_bytes
            return self._gathered_work(nodes, swap) if goes_direct(self.comm, in_parts) else None
        if self._arrays.come_with_frames or not pays_in_lanes(nodes, n_bytes) or n_bytes > _MOST_AHEAD:
            return None
        if not self.kind.elementwise or self.kind.is_average or not kernels.supports(self.dtype, kind):
            return None
        folds = FoldInPieces(self.comm.rank, nodes, self.source_shape, self.dtype, self._parts(nodes))
        pieces = folds.pieces(kind, self.has_result)
        self._sent = pieces.sent
        return AheadWork.by_pieces(pieces, self.comm.rank, folds.read_bytes)

    def _gathered_work(self, nodes: NodeMap, swap: Callable[[bytes], list[bytes]]) -> AheadWork | None:
        """The part of a run in which members send what others fold, in lines and messages; as `ahead_work`."""
        address = kernels.short_fold(self.kind.name, self.dtype) if self.kind.elementwise else 0
        if not address:
            return None
        transfer, work = self._gathering(), LoopWork()
        shapes = [transfer.source_shape] * self.comm.size
        received = [decode_receives(text) for text in swap(encode_receives(transfer))]
        fits = fit_lines(shapes, received, self.dtype, nodes)
        messages = direct_messages(shapes, received, nodes, self.dtype) if fits else None
        if messages is None:
            return None
        if transfer.target_shape is not None:
            scratch = np.empty(transfer.target_shape, self.dtype)
            work = LoopWork(fold=Fold(address, self.cut.size, self._nodes), scratch=scratch)
        work = work._replace(copies=copies_of_transfer(transfer, shapes, self.dtype))
        return ahead_work(transfer, shapes, received, messages, work, self.dtype, nodes)

    def _gathering(self) -> Transfer:
        """The transfer of what each member folds, if it folds what it gets."""
        if self._blocks is None:
            return collect_whole(self.comm, self._n, self._root)
        return collect_parts(self.comm, self.source_shape, self._blocks)

    @property
    def shape(self) -> Shape | None:
        """The shape of this member's result; None where it has none."""
        return self.cut.shape if self.has_result else None

    @property
    def facts(self) -> Sequence[Facts]:
        """The shapes and dtypes of the arrays, by member."""
        return self._arrays.facts

    def new_target(self) -> np.ndarray:
        """An array for the result, where this member has one.  Local."""
        return fresh(self.call.grid, self.cut.shape, self.dtype)

    def run(self, x: Any, out: np.ndarray | None, frames: Frames) -> np.ndarray | None:
        """Combine the arrays; ``frames`` are those in which the members agreed.  Collective."""
        if self._arrays.way is not MIXED:
            return super().run(x, out, frames)
        target, meeting, me = self._target(out), self.call.meeting, self.comm.rank
        if not self._arrays.come_with_frames and self._crossing is None:
            self._run_by_messages(x, target)
            return target
        arrays = list(self._arrays.of(frames) or ())
        arrays[me] = x
        if self._crossing is None or self._arrays.come_with_frames:
            return self._fold_arrays(arrays, target)
        runs = meeting.run_locations(frames)
        reads = all(runs[member] for member in (me, *self.comm.near))
        self._crossing.run(x, arrays if reads else None, target)
        meeting.depart(frames)
        return target

    def describe(self) -> str:
        """Describe which member combines what."""
        if self._crossing is None and self._sent is None:
            return super().describe()
        first = "members of a node combine their arrays, and " if self._nodes else ""
        return f"{first}what each node has is combined where it is needed"

    def traffic(self) -> Traffic:
        """The reduction's part of a trace: the messages between nodes, if there are such."""
        crossing = self._sent if self._crossing is None else self._crossing.sent
        if crossing is None or self._arrays.come_with_frames:
            return super().traffic()
        return traffic_of(self.comm, self.dtype.itemsize, self._arrays.way_in_traces, crossing=crossing)


def reduction_of(
    call: CollectiveCall,
    facts: list[Facts],
    kind: ReductionKind,
    root: int | None = None,
    blocks: Sequence[Box] | None = None,
) -> Reduction:
    """The reduction of the members' arrays; as `Reduction`.  Local."""
    return (SpanningReduction if call.path is MIXED else Reduction)(call, facts, kind, root, blocks)
