"""Reductions of large arrays over several nodes: what crosses between nodes is folded first.

The carriers of each node do their tasks chunk by chunk (``fold_tasks.py``).  Results wait in the carriers' stages, from
where the members of a node copy them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.nodes.stage import Stage
from spmd_grid.exchange.transfer.flat_bytes import buffer_pool_of, copy_views, view_of
from spmd_grid.exchange.transfer.transfer import run_of
from spmd_grid.grid.box import run_boxes
from spmd_grid.links.sizes import chunks_of_calls
from spmd_grid.ops.calls.bounded_cache import keep
from spmd_grid.ops.reduction.crossing.chunks import Chunk, FoldedBox, chunks_of, courses_of
from spmd_grid.ops.reduction.crossing.fold_schedule import FoldSchedule, Parts
from spmd_grid.ops.reduction.crossing.fold_tasks import FoldTask, Positions, tasks_of
from spmd_grid.ops.reduction.folding import Folding, flat_target
from spmd_grid.typing import Shape

__all__ = ["CrossingFolding"]

# Arrays of at most this many pieces keep their schedules, this many of them.  Buffers are at least this large: smaller
# ones are not kept, and a schedule is bound to its buffer.
_KEPT_PIECES, _MOST_SCHEDULES, _LEAST_BUFFER = 4, 16, 1 << 16


class CrossingFolding:
    """Folds ``parts`` of the members' arrays of ``shape`` and ``dtype``, which together are all of them."""

    def __init__(self, stage: Stage, shape: Shape, dtype: np.dtype, folding: Folding, parts: Sequence[FoldedBox]):
        self._stage, self._shape, self._dtype, self._folding, self._parts = stage, shape, dtype, folding, parts
        self._courses = courses_of(parts, stage.nodes, dtype.itemsize)
        self._runs = [run_of(shape, [part.box]) for part in parts]
        self._area = stage.n_bytes // 2 // dtype.itemsize  # cells of each half of a stage: arrays, and results
        total = sum(part.box.size for part in parts)
        self._pieces = max(1, -(-total // max(1, self._area - len(parts))))
        self._kept_chunks: dict[int, list[Chunk]] = {}
        self._schedules: dict[Hashable, FoldSchedule] = {}
        self._needed: dict[int, int] = {}  # bytes of buffers, by piece

    def run(self, x: np.ndarray, arrays: Sequence[Any] | None, target: np.ndarray | None) -> None:
        """Fold all parts; those of this member into ``target``.  Collective.

        ``arrays``: those of all members of the node, if all can be read where they lie, contiguous.
        """
        flat, finish = flat_target(target)
        reads = arrays is not None and None not in self._runs
        for piece in range(self._pieces):
            chunks = self._chunks_of(piece)
            if not reads:
                self._put(x, piece)
                self._stage.together()
            self._run_tasks(piece, chunks, arrays if reads else None)
            self._stage.together()
            if flat is not None:
                self._take(chunks, flat)
            self._stage.together()
        if finish is not None:
            finish()

    def _bounds(self, piece: int) -> Iterator[tuple[int, int, int]]:
        """By part, its first cell and its end in a piece, and where they begin in areas of a stage."""
        at = 0
        for part in self._parts:
            n = part.box.size
            start, stop = n * piece // self._pieces, n * (piece + 1) // self._pieces
            yield start, stop, at
            at += stop - start

    def _chunks(self, piece: int) -> Iterator[Chunk]:
        return chunks_of(self._bounds(piece), self._courses, self._dtype.itemsize, chunks_of_calls)

    def _put(self, x: np.ndarray, piece: int) -> None:
        """Copy this member's cells of a piece to its stage."""
        pairs = []
        for number, (start, stop, at) in enumerate(self._bounds(piece)):
            run, box = self._runs[number], self._parts[number].box
            if run is not None:
                pairs.append((x.reshape(-1)[run[0] + start : run[0] + stop], self._cells(None, at, stop - start)))
                continue
            cells = view_of(x, box)
            for inner in run_boxes(box.shape, start, stop):
                pairs.append((view_of(cells, inner), self._cells(None, at, inner.size).reshape(inner.shape)))
                at += inner.size
        copy_views(pairs)

    def _cells(self, member: int | None, at: int, n: int, area: int = 0) -> np.ndarray:
        """Cells of a stage of this node: in the area of arrays (0) or of results (1)."""
        member = self._stage.comm.rank if member is None else member
        return self._stage.cells(member, (area * self._area + at) * self._dtype.itemsize, n, self._dtype)

    def _take(self, chunks: Sequence[Chunk], flat: np.ndarray) -> None:
        """Copy results from the stages of this node's carriers."""
        nodes, own, me = self._stage.nodes, self._stage.node, self._stage.comm.rank
        pairs = []
        for chunk in chunks:
            if me in self._parts[chunk.part].members:
                found = self._cells(nodes.carrier(own, chunk.lane), chunk.at, chunk.stop - chunk.start, area=1)
                pairs.append((found, flat[chunk.start : chunk.stop]))
        copy_views(pairs)

    def _chunks_of(self, piece: int) -> list[Chunk]:
        """The chunks of a piece, kept for the next run if there are few pieces."""
        found = self._kept_chunks.get(piece)
        if found is None:
            found = list(self._chunks(piece))
            if self._pieces <= _KEPT_PIECES:
                self._kept_chunks[piece] = found
        return found

    def _run_tasks(self, piece: int, chunks: Sequence[Chunk], arrays: Sequence[Any] | None) -> None:
        """Do this member's tasks of a piece; those of arrays that lie where they lay before are known."""
        comm = self._stage.comm
        pool, read = buffer_pool_of(comm.process), None
        if arrays is not None:
            read = {member: kernels.address_of(arrays[member]) for member in (comm.rank, *comm.near)}
        counted = Parts()
        for _ in self._own_tasks(chunks, None, counted) if piece not in self._needed else ():
            pass
        n_bytes = self._needed.setdefault(piece, max(counted.n_bytes, _LEAST_BUFFER))
        memory = pool.take(n_bytes)
        key = piece, kernels.address_of(memory), None if read is None else tuple(read.values())
        schedule = self._schedules.get(key)
        if schedule is None:
            schedule = FoldSchedule(list(self._own_tasks(chunks, read, Parts(memory))), self._folding)
            if self._pieces <= _KEPT_PIECES:
                keep(self._schedules, key, schedule, _MOST_SCHEDULES)
        schedule.run(comm)
        pool.give_back([memory])

    def _own_tasks(
        self, chunks: Sequence[Chunk], read: Mapping[int, int] | None, parts: Parts
    ) -> Iterator[FoldTask[np.ndarray]]:
        """The tasks of this member: those of the lanes that it carries.  ``read``: addresses of arrays, by member."""
        lanes = self._stage.nodes.lanes_of(self._stage.comm.rank)
        positions = Positions(
            lambda member, chunk: self._row(member, chunk, read), self._result, partial(self._buffer, parts)
        )
        for chunk in chunks:
            if chunk.lane in lanes:
                yield from tasks_of(chunk, self._stage.nodes, self._stage.node, positions)

    def _row(self, member: int, chunk: Chunk, read: Mapping[int, int] | None) -> np.ndarray:
        """The cells of a chunk of a member of this node: in its array, if these are read there, or in its stage.

        The array is not kept alive by its cells.
        """
        n = chunk.stop - chunk.start
        if read is None:
            return self._cells(member, chunk.at, n)
        run, item = self._runs[chunk.part], self._dtype.itemsize
        assert run is not None  # `run` reads arrays in place only then
        return kernels.bytes_at(read[member] + (run[0] + chunk.start) * item, n * item).view(self._dtype)

    def _result(self, chunk: Chunk) -> np.ndarray:
        """The cells of this member's stage for a chunk's result."""
        return self._cells(None, chunk.at, chunk.stop - chunk.start, area=1)

    def _buffer(self, parts: Parts, n: int) -> np.ndarray:
        """Memory for cells of a message."""
        return parts.take(n * self._dtype.itemsize).view(self._dtype)

    @property
    def sent(self) -> dict[int, int]:
        """Bytes that this member sends to each member.  Local."""
        found: dict[int, int] = {}
        for piece in range(self._pieces):
            for task in self._own_tasks(self._chunks_of(piece), None, Parts()):
                for member, cells in task.sends:
                    found[member] = found.get(member, 0) + cells.nbytes
        return found
