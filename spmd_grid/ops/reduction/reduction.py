"""Operations that combine values: collect parts, fold them in group order, spread the result.

The order of combination is the group's, whatever the path, so all members get equal bits, and the meaning is that of
numpy's ufuncs rather than MPI's operators (which lose NaNs, differ between ranks, and lack bool and complex).  A
large array is cut into one slice per member, each folded by its member (``reduction_transfers.py``); a small one, and
one that a callable combines, is collected whole.  How arrays are folded stands in ``folding.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.agreement.memory_meeting import COPIED_BYTES, MEETING_LINE_BYTES
from spmd_grid.exchange.paths import DIRECT, INLINE
from spmd_grid.exchange.transfer.execute import FEW_MEMBERS, next_tag, run_message, send_and_receive
from spmd_grid.exchange.transfer.flat_bytes import copy_views, scratch, view_of
from spmd_grid.exchange.transfer.traffic import TransferTraffic
from spmd_grid.exchange.transfer.transfer import Transfer, run_of
from spmd_grid.grid.blocks import block_interval
from spmd_grid.grid.box import Box, pieces_of
from spmd_grid.ops.calls.bounded_cache import keep
from spmd_grid.ops.movement.member_arrays import DirectCopies, MemberArrays, fresh
from spmd_grid.ops.reduction.folding import Folding
from spmd_grid.ops.reduction.transfers import collect_parts, collect_whole, spread_slices
from spmd_grid.reduction_kind import ReductionKind
from spmd_grid.transport.communicator import Frames
from spmd_grid.watch.traffic import Traffic

__all__ = ["Reduction"]

# Up to this many bytes over all members, one round that collects everything beats two rounds of slices.
_SMALL_BYTES = 1 << 14

# Two members read as much of each other's whether they fold it all or halves, and save a round.  In one cache, halves
# from some size on are faster nevertheless: a fold has a third stream.
_SMALL_FOR_TWO = 1 << 23
_HALVES_FROM = 1 << 18

# More than two members fold arrays outside the arena by pieces only up to this many bytes.
_STAGED_BYTES = 1 << 21

# Blocks that are not contiguous are folded in pieces of so many bytes, over all members.
_PIECE_BYTES = 1 << 19


class Reduction:
    """Folds the members' arrays of one shape and dtype; ``cut`` is the box of the result that this member keeps.

    ``root``: only this member has a result.  ``blocks``: the boxes of all members, where each keeps its own.
    """

    def __init__(
        self,
        call,
        facts: list[Facts],
        kind: ReductionKind,
        root: int | None = None,
        blocks: Sequence[Box] | None = None,
    ):
        comm = call.comm
        shape, dtype = facts[0].shape, facts[0].dtype
        self.call = call
        self.op = call.op.name
        self.comm = comm
        self.kind = kind
        self.dtype = dtype
        self.source_shape = shape
        self.has_result = root is None or root == comm.rank
        self.cut = Box.from_shape(shape) if blocks is None else blocks[comm.rank]
        self._arrays = MemberArrays(call, facts)
        self._rows_at: dict = {}
        self._is_cut = self.cut.shape != shape
        self._folding = Folding(kind, comm.size, self.op)
        self._in_place = comm.size <= FEW_MEMBERS
        self._n = int(np.prod(shape, dtype=np.int64))
        self._root = root
        self._blocks = blocks
        total = self._n * dtype.itemsize * comm.size
        small = blocks is None and total <= (_SMALL_BYTES if comm.size > 2 else _SMALL_FOR_TWO)
        self._whole = small or not kind.elementwise
        self._could_halve = small and kind.elementwise and total >= _HALVES_FROM

    @cached_property
    def collect(self) -> Transfer:
        """What brings this member the parts that it folds, as rows of a stack."""
        if self._whole:
            # A callable may refuse its arguments: everybody calls it, so that all hear of that.
            return collect_whole(self.comm, self._n, self._root if self.kind.elementwise else None)
        if self._blocks is not None:
            return collect_parts(self.comm, self.source_shape, self._blocks)
        return collect_parts(self.comm, (self._n,), self._slices, own=False)

    @cached_property
    def spread(self) -> Transfer | None:
        """What brings everybody's folded slice to its place; None where each folds what it keeps."""
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
        size = self.comm.size
        return [Box((a,), (b,)) for a, b in (block_interval(self._n, (size,), (i,)) for i in range(size))]

    def run(self, x: np.ndarray, out: np.ndarray | None, frames: Frames) -> np.ndarray | None:
        target = self._target(out)
        arrays = self._arrays.of(frames)
        if arrays is None:
            if not (self._is_staged and self._run_staged(x, target)):
                self._run_by_messages(x, target)
            return target
        if self._folds_whole or self._arrays.way is INLINE:  # what can be read where it lies need not be collected
            try:
                return self._fold_arrays(arrays, target)
            finally:
                self._depart(frames)
        if self._blocks is None:
            return self._run_by_memory(frames, arrays, target)
        self._fold_block(frames, arrays, target)
        self._depart(frames)
        return target

    @property
    def _folds_whole(self) -> bool:
        """Whether every member folds whole arrays that it can read; alike on all members."""
        return self._whole and not (self._could_halve and not self.call.meeting.is_far)

    def _fold_block(self, frames: Frames, arrays: list[np.ndarray], target: np.ndarray) -> None:
        """Folds this member's block of everybody's array: where it lies in runs, or piece by piece through a stack."""
        if self._block_run is not None and target.flags.c_contiguous:
            rows, addresses = self._block_rows(frames, arrays)
            flat = target.reshape(-1)
            if len(rows) <= 2 or len(rows) * flat.nbytes <= _SMALL_BYTES:
                self._folding.arrays(rows, flat)
            else:
                self._folding.addresses(addresses, flat)
        else:
            most = max(_PIECE_BYTES // (len(arrays) * self.dtype.itemsize), 1)
            with scratch(self.comm.process, (len(arrays) + 1, min(most, self.cut.size)), self.dtype) as room:
                for piece in pieces_of(self.cut, most):
                    stack = room[:-1, : piece.size].reshape(len(arrays), *piece.shape)
                    copy_views([(view_of(array, piece), row) for array, row in zip(arrays, stack)])
                    folded = room[-1, : piece.size]
                    self._folding.stack(room[:-1, : piece.size], folded)
                    view_of(target, piece.relative_to(self.cut.starts))[...] = folded.reshape(piece.shape)

    @cached_property
    def _block_run(self) -> tuple[int, int] | None:
        """The first cell and the number of cells of this member's block, where they lie in one run."""
        return run_of(self.source_shape, [self.cut])

    def _block_rows(self, frames: Frames, arrays: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        """This member's block of everybody's array, and where each begins."""
        found = None if frames.locations is None else self._rows_at.get(frames.locations)
        if found is None:
            first = self._block_run[0]
            rows = [array.reshape(-1)[first : first + self.cut.size] for array in arrays]
            found = rows, np.array([kernels.address_of(row) for row in rows], np.int64)
            if frames.locations is not None:
                keep(self._rows_at, frames.locations, found)
        return found

    @property
    def _is_staged(self) -> bool:
        """Whether arrays that others cannot read go through shared memory, piece by piece, not in messages."""
        if self.call.path is not DIRECT or not self.call.meeting.stage_bytes or not self.kind.elementwise:
            return False
        few = self.comm.size == 2 or self._n * self.dtype.itemsize <= _STAGED_BYTES
        return few and self._root is None and self._blocks is None

    def _run_staged(self, x: np.ndarray, target: np.ndarray) -> bool:
        """Every member folds all arrays; while it does, others may post the next piece.

        False where a member had no room for a piece, which all members see alike.
        """
        flat, finish = _flat_target(target)
        source, meeting = x.reshape(-1), self.call.meeting
        for piece, arrays in self._pieces:
            frames = meeting.swap(source[piece])
            found = arrays.of(frames)
            if found is None:
                return False
            rows = [kernels.address_of(array) for array in found]
            self._folding.addresses(np.array(rows, np.int64), flat[piece])
            self._depart(frames)
        if finish is not None:
            finish()
        return True

    @cached_property
    def _pieces(self) -> list[tuple[slice, MemberArrays]]:
        step = self.call.meeting.stage_bytes // self.dtype.itemsize
        pieces = [slice(start, min(start + step, self._n)) for start in range(0, self._n, step)]
        facts = [Facts((piece.stop - piece.start,), self.dtype) for piece in pieces]
        return [(p, MemberArrays(self.call, [fact] * self.comm.size)) for p, fact in zip(pieces, facts, strict=True)]

    def _run_by_messages(self, x: np.ndarray, target: np.ndarray | None) -> None:
        with scratch(self.comm.process, self.collect.target_shape, self.dtype) as stack:
            run_message(self.comm, self.collect, x.reshape(self.collect.source_shape), stack)
            if self.spread is None:
                if stack is not None:
                    self._fold_stack(stack, target)
                return
            flat, finish = _flat_target(target)
            part = self._fold_slice(self._rows(x, stack), stack, flat)
            run_message(self.comm, self.spread, part, flat)
        if finish is not None:
            finish()

    def _run_by_memory(self, frames: Frames, arrays: list[np.ndarray], target: np.ndarray | None):
        """Each member folds its slice of everybody's array, and copies the others' slices from where they are."""
        flat, finish = _flat_target(target)
        addresses = self._addresses(frames, arrays)
        if self._root is not None:
            self._fold_at_root(addresses, flat, frames)
        else:
            part = flat[self._own]
            self._folding.addresses(addresses + self._own.start * self.dtype.itemsize, part)
            frames = self.call.meeting.swap(part)
            parts = self._parts.of(frames)
            if parts is None:
                run_message(self.comm, self._spread_by_memory, part, flat)
            else:
                self._spread_copies.run(frames, parts, flat)
                self._depart(frames)
        if finish is not None:
            finish()
        return target

    def _fold_at_root(self, addresses: np.ndarray, flat: np.ndarray | None, frames: Frames) -> None:
        """Every member folds its slice into root's result, where that can be reached; else root folds it all."""
        meeting = self.call.meeting
        reachable = flat is not None and meeting.reads_in_place(flat)
        frames = meeting.swap(flat if reachable else None, in_place=True)
        goals = self._goals.of(frames)
        goal = flat if goals is None else goals[self._root]
        if goal is flat is not None and not reachable:
            self._folding.addresses(addresses, flat)
        elif goal is not None:
            self._folding.addresses(addresses + self._own.start * self.dtype.itemsize, goal[self._own])
        frames.lends = 1  # arrays of the meeting before this one are read after it, so all wait for all
        meeting.depart(frames)

    def _addresses(self, frames: Frames, arrays: list[np.ndarray]) -> np.ndarray:
        """Where everybody's array begins."""
        found = None if frames.locations is None else self._rows_at.get(frames.locations)
        if found is None:
            found = np.array([kernels.address_of(array) for array in arrays], np.int64)
            if frames.locations is not None:
                keep(self._rows_at, frames.locations, found)
        return found

    def _depart(self, frames: Frames) -> None:
        if frames.lent:
            self.call.meeting.depart(frames)

    @cached_property
    def _goals(self) -> MemberArrays:
        """Root's result; None where it cannot be reached."""
        nowhere, there = Facts(None, None), Facts((self._n,), self.dtype)
        return MemberArrays(self.call, [there if i == self._root else nowhere for i in range(self.comm.size)])

    @cached_property
    def _spread_by_memory(self) -> Transfer:
        return spread_slices(self.comm, self._n, self._slices, self._root, in_place=True)

    @cached_property
    def _spread_copies(self) -> DirectCopies:
        return DirectCopies(self._spread_by_memory)

    @cached_property
    def _parts(self) -> MemberArrays:
        return MemberArrays(self.call, [Facts(box.shape, self.dtype) for box in self._slices])

    @property
    def staging_bytes(self) -> int:
        """The most bytes beside x and the result that a run by memory holds."""
        return 2 * (MEETING_LINE_BYTES + COPIED_BYTES) + (
            0 if self._blocks is None else _PIECE_BYTES + self.dtype.itemsize
        )

    def describe(self) -> str:
        """How values are combined, in words."""
        if not self.kind.elementwise:
            return "every member combines all arrays"
        if self._blocks is not None:
            return "every member combines its block of all arrays"
        if self._folds_whole:
            return "every member combines all arrays" if self._root is None else "root combines all arrays"
        where = "the others copy" if self._root is None else "root gets"
        return f"every member combines 1/{self.comm.size} of all arrays, which {where}"

    def traffic(self) -> Traffic:
        """Its part of a trace; arrays that nobody can read may go another way than is told here."""
        way = self._arrays.way
        transfers = [self.collect, self.spread]
        if way is DIRECT and self._blocks is None and not self._folds_whole:
            transfers = [collect_parts(self.comm, (self._n,), self._slices, own=False), self._spread_by_memory]
        return TransferTraffic(self.comm, self.dtype.itemsize, way, *filter(None, transfers)).traffic()

    def steps(self, x: np.ndarray, out: np.ndarray | None, frames: Frames) -> Iterator[list]:
        """As ``run``, in steps that do not wait."""
        target = self._target(out)
        if self._arrays.way is INLINE:
            return self._fold_arrays(self._arrays.of(frames), target)
        tags = next_tag(self.comm), next_tag(self.comm)
        shape = self.collect.target_shape
        stack = None if shape is None else np.empty(shape, self.dtype)
        source = x.reshape(self.collect.source_shape)
        yield from send_and_receive(self.comm, self.collect, source, stack, tags[0])
        if self.spread is None:
            return None if stack is None else self._fold_stack(stack, target)
        flat, finish = _flat_target(target)
        part = self._fold_slice(self._rows(x, stack), stack, flat)
        yield from send_and_receive(self.comm, self.spread, part, flat, tags[1])
        if finish is not None:
            finish()
        return target

    def _target(self, out: np.ndarray | None) -> np.ndarray | None:
        if not self.has_result:
            return None
        return fresh(self.call.grid, self.cut.shape, self.dtype) if out is None else out

    def _fold_stack(self, stack: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Folds a stack of whole arrays, or of this member's blocks, into the target."""
        if not self.kind.elementwise:
            return self._fold_arrays(stack.reshape(self.comm.size, *self.source_shape), target)
        flat, finish = _flat_target(target)
        self._folding.stack(stack.reshape(self.comm.size, flat.size), flat)
        if finish is not None:
            finish()
        return target

    def _rows(self, x: np.ndarray, stack: np.ndarray) -> list[np.ndarray]:
        """Everybody's part of this member's slice: the others' as collected, the own one where it lies."""
        rows = list(stack)
        rows[self.comm.rank] = x.reshape(-1)[self._own]
        return rows

    def _fold_slice(self, rows: list[np.ndarray], stack: np.ndarray, flat: np.ndarray | None) -> np.ndarray:
        """Folds the rows into this member's slice of the result, or into its free row of the stack."""
        part = stack[self.comm.rank] if flat is None or not self._in_place else flat[self._own]
        addresses = np.array([kernels.address_of(row) for row in rows], np.int64)
        self._folding.addresses(addresses, part)
        return part

    def _fold_arrays(self, arrays: Sequence[np.ndarray], target: np.ndarray | None) -> np.ndarray | None:
        """Folds whole arrays one after the other and keeps this member's cut."""
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


def _flat_target(target: np.ndarray | None):
    """A flat array that becomes ``target``, and what to call once it is filled."""
    if target is None:
        return None, None
    if target.flags.c_contiguous:
        return target.reshape(-1), None
    flat = np.empty(target.size, target.dtype)

    def finish() -> None:
        target[...] = flat.reshape(target.shape)

    return flat, finish
