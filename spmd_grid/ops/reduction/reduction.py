"""Operations that combine values: collect parts, fold them in order, spread the result.

The order of combination is the same on every path, so all members get equal bits: the group's, and where a group spans
nodes of several members, first that of each node's members, then that of the nodes.  The meaning is that of numpy's
ufuncs rather than MPI's operators (which lose NaNs, differ between ranks, and lack bool and complex).  A large array
is cut into one slice per member, each folded by its member; a small one, and one that a callable combines, is
collected whole.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.agreement.memory_meeting import STAGED_BYTES
from spmd_grid.exchange.agreement.node_meeting import MEETING_LINE_BYTES
from spmd_grid.exchange.agreement.relay import RELAYED_FROM
from spmd_grid.exchange.paths import DIRECT, INLINE
from spmd_grid.exchange.transfer.execute import FEW_MEMBERS, next_tag, run_message, send_and_receive
from spmd_grid.exchange.transfer.flat_bytes import scratch, view_of
from spmd_grid.exchange.transfer.traffic import traffic_of
from spmd_grid.exchange.transfer.transfer import Transfer
from spmd_grid.grid.box import Box
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.calls.shape_rules import dtype_of, shape_of
from spmd_grid.ops.loops.work import LoopWork, fold_of, is_short
from spmd_grid.ops.movement.member_arrays import MemberArrays, fresh
from spmd_grid.ops.reduction.block_folding import PIECE_BYTES, BlockFolding
from spmd_grid.ops.reduction.folding import Folding, flat_target
from spmd_grid.ops.reduction.relayed_folding import RelayedFolding
from spmd_grid.ops.reduction.slice_folding import SliceFolding, slices_of
from spmd_grid.ops.reduction.transfers import collect_parts, collect_whole, spread_slices
from spmd_grid.reduction_kind import ReductionKind
from spmd_grid.transport.communicator import Frames
from spmd_grid.watch.traffic import Traffic

__all__ = ["Reduction"]

# Up to this many bytes over all members, one round that collects everything beats two rounds of slices: for arrays that
# are still to be collected, and for those that were posted as the members met.
_SMALL_BYTES, _SMALL_IF_POSTED = 1 << 14, 1 << 16

# Two members read as much of each other's arrays whether they fold all of it or halves, and folding all saves a round.
# Within one cache, halves are faster nevertheless from some size on, since folding has a third stream.
_SMALL_FOR_TWO = 1 << 23
_HALVES_FROM = 1 << 20


class Reduction:
    """Folds the members' arrays of one shape and dtype; ``cut`` is the box of the result that this member keeps.

    ``root``: the only member with a result.  ``blocks``: the boxes of all members, if each keeps its own.
    """

    _mixes = False  # whether arrays may be read while messages carry others

    def __init__(
        self,
        call: CollectiveCall,
        facts: list[Facts],
        kind: ReductionKind,
        root: int | None = None,
        blocks: Sequence[Box] | None = None,
    ):
        comm = call.comm
        shape, dtype = shape_of(facts[0]), dtype_of(facts[0])
        self.call = call
        self.op = call.op.name
        self.comm = comm
        self.kind = kind
        self.dtype = dtype
        self.source_shape = shape
        self.has_result = root is None or root == comm.rank
        self.cut = Box.from_shape(shape) if blocks is None else blocks[comm.rank]
        self._arrays = MemberArrays(call, facts, self._mixes)
        self._is_cut = self.cut.shape != shape
        map_of_nodes = call.meeting.nodes
        self._nodes = map_of_nodes.nodes if map_of_nodes is not None and map_of_nodes.is_shared else ()
        self._folding = Folding(kind, comm.size, self.op, self._nodes)
        self._in_place = comm.size <= FEW_MEMBERS
        self._n = int(np.prod(shape, dtype=np.int64))
        self._root = root
        self._blocks = blocks
        self._slice_folding = SliceFolding(call, self._n, dtype, root, self._folding)
        self._relayed: RelayedFolding | None = None
        if kind.elementwise and self._arrays.way is DIRECT and facts[0].nbytes > RELAYED_FROM:
            self._relayed = RelayedFolding(call, shape, dtype, kind, root, blocks, self._folding)
        self._fold_by_memory = (
            self._slice_folding if blocks is None else BlockFolding(call, shape, dtype, self.cut, self._folding)
        ).run
        total = self._n * dtype.itemsize * comm.size
        most = _SMALL_IF_POSTED if self._arrays.are_posted else _SMALL_BYTES
        small = blocks is None and total <= (most if comm.size > 2 else _SMALL_FOR_TWO)
        self._whole = small or not kind.elementwise
        self._could_halve = small and kind.elementwise and total > _HALVES_FROM

    @cached_property
    def collect(self) -> Transfer:
        """The transfer of the parts that this member folds, as rows of a stack."""
        if self._whole:
            # A callable may refuse its arguments: all members call it, so that all raise its error.
            return collect_whole(self.comm, self._n, self._root if self.kind.elementwise else None)
        if self._blocks is not None:
            return collect_parts(self.comm, self.source_shape, self._blocks)
        return collect_parts(self.comm, (self._n,), self._slices, own=False)

    @cached_property
    def spread(self) -> Transfer | None:
        """The transfer of folded slices to the members that need them; None if each member folds what it keeps."""
        if self._whole or self._blocks is not None:
            return None
        return spread_slices(self.comm, self._n, self._slices, self._root, in_place=self._in_place)

    @cached_property
    def _own(self) -> slice:
        """This member's slice of the flat array."""
        box = self._slices[self.comm.rank]
        return slice(box.starts[0], box.stops[0])

    @cached_property
    def _slices(self) -> list[Box]:
        return slices_of(self._n, self.comm.size)

    def run(self, x: Any, out: np.ndarray | None, frames: Frames) -> np.ndarray | None:
        """Combine the arrays; ``frames`` are those in which the members agreed.  Collective."""
        target = self._target(out)
        arrays = self._arrays.of(frames)
        if self._relayed is not None and self._relayed.suits(arrays is not None):
            self._relayed.run(x, target)
        elif arrays is None:
            self._run_by_messages(x, target)
        elif self._folds_whole or self._arrays.way is INLINE:  # arrays that can be read need not be collected
            try:
                target = self._fold_arrays(arrays, target)
            finally:
                if frames.lent:
                    self.call.meeting.depart(frames)
        else:
            self._fold_by_memory(frames, arrays, target)
        if self._relayed is not None:
            self.call.meeting.note_end()
        return target

    @property
    def _folds_whole(self) -> bool:
        """Whether every member folds whole arrays that it can read; equal on all members."""
        return self._whole and not (self._could_halve and not self.call.meeting.is_far)

    def _run_by_messages(self, x: np.ndarray, target: np.ndarray | None) -> None:
        with scratch(self.comm.process, self.collect.target_shape, self.dtype) as stack:
            run_message(self.comm, self.collect, x.reshape(self.collect.source_shape), stack)
            if self.spread is None:
                if stack is not None:
                    self._fold_stack(stack, target)
                return
            flat, finish = flat_target(target)
            assert stack is not None  # only `collect_whole` collects nothing on some members
            part = self._fold_slice(self._rows(x, stack), stack, flat)
            run_message(self.comm, self.spread, part, flat)
        if finish is not None:
            finish()

    def loop_work(self) -> LoopWork | None:
        """This member's part of a run in compiled loops, by one meeting; None where Python must run it."""
        if not is_short(self._arrays.facts, self.call.meeting):
            return None if self._relayed is None else self._relayed.loop_work()
        if not (self.kind.elementwise and (self._whole or self._mixes or self._blocks is not None)):
            return None
        if not self.has_result:
            return LoopWork()
        return fold_of(self.kind.name, self.dtype, self.source_shape, self.cut, self.comm.size, self._nodes)

    @property
    def staging_bytes(self) -> int:
        """Upper bound on the bytes of staging memory that a run by memory holds."""
        pieces = 0 if self._blocks is None else PIECE_BYTES + self.dtype.itemsize
        for_root = 0 if self._root is None else (self._n // self.comm.size + 1) * self.dtype.itemsize
        return 2 * MEETING_LINE_BYTES + STAGED_BYTES + pieces + for_root

    def describe(self) -> str:
        """Describe which member combines what."""
        if not self.kind.elementwise:
            return "every member combines all arrays"
        if self._blocks is not None:
            return "every member combines its block of all arrays"
        if self._folds_whole:
            return "every member combines all arrays" if self._root is None else "root combines all arrays"
        where = "the others copy" if self._root is None else "root gets"
        return f"every member combines 1/{self.comm.size} of all arrays, which {where}"

    def traffic(self) -> Traffic:
        """The reduction's part of a trace, on the path that is taken if arrays can be read."""
        way = self._arrays.way_in_traces
        transfers = [self.collect, self.spread]
        if way is DIRECT and self._blocks is None and not self._folds_whole:
            transfers = [collect_parts(self.comm, (self._n,), self._slices, own=False), self._slice_folding.spread]
        return traffic_of(self.comm, self.dtype.itemsize, way, *filter(None, transfers))

    def steps(self, x: np.ndarray, out: np.ndarray | None, frames: Frames) -> Generator[list, None, np.ndarray | None]:
        """Combine the arrays as ``run`` does, in steps that do not wait."""
        if self._arrays.are_posted:
            return self.run(x, out, frames)
        target = self._target(out)
        tags = next_tag(self.comm), next_tag(self.comm)
        shape = self.collect.target_shape
        stack = None if shape is None else np.empty(shape, self.dtype)
        source = x.reshape(self.collect.source_shape)
        yield from send_and_receive(self.comm, self.collect, source, stack, tags[0])
        if self.spread is None:
            return None if stack is None else self._fold_stack(stack, target)
        flat, finish = flat_target(target)
        assert stack is not None
        part = self._fold_slice(self._rows(x, stack), stack, flat)
        yield from send_and_receive(self.comm, self.spread, part, flat, tags[1])
        if finish is not None:
            finish()
        return target

    def _target(self, out: np.ndarray | None) -> Any:
        """The array for this member's result; None if it has none."""
        if not self.has_result:
            return None
        return fresh(self.call.grid, self.cut.shape, self.dtype) if out is None else out

    def _fold_stack(self, stack: np.ndarray, target: np.ndarray | None) -> np.ndarray | None:
        """Fold a stack of whole arrays, or of this member's blocks, into the target."""
        if not self.kind.elementwise:
            return self._fold_arrays(stack.reshape(self.comm.size, *self.source_shape), target)
        flat, finish = flat_target(target)
        self._folding.stack(stack.reshape(self.comm.size, flat.size), flat)
        if finish is not None:
            finish()
        return target

    def _rows(self, x: np.ndarray, stack: np.ndarray) -> list[np.ndarray]:
        """This member's slice of each array: the others' as collected, its own from ``x``."""
        rows = list(stack)
        rows[self.comm.rank] = x.reshape(-1)[self._own]
        return rows

    def _fold_slice(self, rows: list[np.ndarray], stack: np.ndarray, flat: np.ndarray | None) -> np.ndarray:
        """Fold the rows into this member's slice of the result, or into its free row of the stack."""
        part = stack[self.comm.rank] if flat is None or not self._in_place else flat[self._own]
        addresses = np.array([kernels.address_of(row) for row in rows], np.int64)
        self._folding.addresses(addresses, part)
        return part

    def _fold_arrays(self, arrays: Any, target: np.ndarray | None) -> np.ndarray | None:
        """Fold whole arrays one after the other and keep this member's cut."""
        if not self.kind.elementwise:
            # All members have all arrays, and get the same error.
            result = self.comm.process.gate.call_user(self._folding.by_callable, arrays)
            if target is not None:
                target[...] = view_of(result, self.cut)
            return target
        if target is None:
            return None
        if self._is_cut:
            arrays = [view_of(array, self.cut) for array in arrays]
        self._folding.arrays(arrays, target)
        return target
