"""Reductions of groups that span nodes: members of a node combine their arrays before these cross to another node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.paths import MIXED
from spmd_grid.exchange.transfer.traffic import traffic_of
from spmd_grid.grid.box import Box
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.reduction.crossing_folding import CrossingFolding, FoldedBox
from spmd_grid.ops.reduction.reduction import Reduction
from spmd_grid.reduction_kind import ReductionKind
from spmd_grid.transport.communicator import Frames
from spmd_grid.watch.traffic import Traffic

__all__ = ["SpanningReduction", "reduction_of"]


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
        self._crossing = self._crossing_folding() if self._arrays.way is MIXED and kind.elementwise else None

    def _crossing_folding(self) -> CrossingFolding | None:
        """The fold over several nodes; None where messages between all members serve as well."""
        stage, n_bytes = self.call.meeting.stage, self._n * self.dtype.itemsize
        if stage is None or not self.call.lets_read or not stage.is_worthwhile(n_bytes):
            return None
        node_of, whole = stage.nodes.node_of, Box.from_shape(self.source_shape)
        if self._blocks is not None:
            parts = [FoldedBox(box, (node_of[i],), (i,)) for i, box in enumerate(self._blocks) if not box.is_empty]
        elif self._root is not None:
            parts = [FoldedBox(whole, (node_of[self._root],), (self._root,))]
        else:
            parts = [FoldedBox(whole, tuple(range(len(stage.nodes.nodes))), range(self.comm.size))]
        any_order = self.dtype.kind in "biu"  # others round, or have two zeros
        return CrossingFolding(stage, self.source_shape, self.dtype, self._folding, parts, any_order)

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
        if self._crossing is None:
            return super().describe()
        return "members of a node combine their arrays, and what they have combined crosses to the next node"

    def traffic(self) -> Traffic:
        """The reduction's part of a trace: the messages between nodes, if there are such."""
        if self._crossing is None or self._arrays.come_with_frames:
            return super().traffic()
        return traffic_of(self.comm, self.dtype.itemsize, self._arrays.way_in_traces, crossing=self._crossing.sent)


def reduction_of(
    call: CollectiveCall,
    facts: list[Facts],
    kind: ReductionKind,
    root: int | None = None,
    blocks: Sequence[Box] | None = None,
) -> Reduction:
    """The reduction of the members' arrays; as `Reduction`.  Local."""
    return (SpanningReduction if call.path is MIXED else Reduction)(call, facts, kind, root, blocks)
