"""Reductions of large arrays over several nodes: what crosses between nodes is folded first, and crosses once.

Each part of the arrays takes its course over the nodes (`exchange/nodes/fold_course.py`).  It is cut into lanes, which
the members of a node carry, and each lane into chunks, so that a chunk is folded while others travel.  Results wait in
the carriers' stages, from where the members of a node copy them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.nodes.fold_course import FoldCourse, fold_course
from spmd_grid.exchange.nodes.stage import Stage
from spmd_grid.exchange.transfer.flat_bytes import buffer_pool_of, copy_views, flat_bytes, view_of
from spmd_grid.exchange.transfer.transfer import run_of
from spmd_grid.grid.box import Box, run_boxes
from spmd_grid.ops.reduction.folding import Folding, flat_target
from spmd_grid.transport.communicator import tag_of
from spmd_grid.typing import Shape

__all__ = ["CrossingFolding", "Part"]

# Chunks are as small as pays: a message of the least size takes as long to begin as to send.
_LEAST_CHUNK, _MOST_CHUNK, _CHUNKS = 1 << 14, 1 << 18, 8

# A carrier waits for a chunk from the next node once it has folded this number of chunks more.
_AHEAD = 2

_TAG = tag_of("blocking movements")


class Part(NamedTuple):
    """A box of the members' arrays, the nodes that need its fold, and the members that get it."""

    box: Box
    nodes: tuple[int, ...]
    members: Sequence[int]


class _Chunk(NamedTuple):
    """Cells ``start`` to ``stop`` of ``part``: chunk ``number`` of its lane, at the cell ``at`` of areas of a stage."""

    part: int
    lane: int
    number: int
    start: int
    stop: int
    at: int


@dataclass
class _Task:
    """A task of a carrier: wait for arrays of other nodes, fold rows into ``into``, send arrays on.

    ``key``: tasks are done in this order, which depends on no process, so messages match in order.  ``receives``: the
    keys of the senders' tasks, the senders, and the cells.  ``rows``: addresses; none if nothing is folded.
    """

    key: tuple[float, ...]
    receives: list[tuple[tuple[float, ...], int, np.ndarray]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    into: np.ndarray | None = None
    is_last: bool = False
    sends: list[tuple[int, np.ndarray]] = field(default_factory=list)


class CrossingFolding:
    """Folds ``parts`` of the members' arrays of ``shape`` and ``dtype``, which together are all of them."""

    def __init__(
        self, stage: Stage, shape: Shape, dtype: np.dtype, folding: Folding, parts: Sequence[Part], any_order: bool
    ):
        self._stage, self._shape, self._dtype, self._folding, self._parts = stage, shape, dtype, folding, parts
        self._any_order = any_order
        self._runs = [run_of(shape, [part.box]) for part in parts]
        self._area = stage.n_bytes // 2 // dtype.itemsize  # cells of each half of a stage: arrays, and results
        total = sum(part.box.size for part in parts)
        self._pieces = max(1, -(-total // max(1, self._area - len(parts))))

    def run(self, x: np.ndarray, arrays: Sequence[Any] | None, target: np.ndarray | None) -> None:
        """Fold all parts; those of this member into ``target``.  Collective.

        ``arrays``: those of all members of the node, if all can be read where they lie, contiguous.
        """
        flat, finish = flat_target(target)
        reads = arrays is not None and None not in self._runs
        for piece in range(self._pieces):
            chunks = list(self._chunks(piece))
            if not reads:
                self._put(x, piece)
                self._stage.together()
            self._run_tasks(chunks, arrays if reads else None)
            self._stage.together()
            if flat is not None:
                self._take(chunks, flat)
            self._stage.together()
        if finish is not None:
            finish()

    def _course(self, part: int, lane: int) -> FoldCourse:
        return fold_course(self._stage.nodes.node_of, self._parts[part].nodes, self._any_order, lane)

    def _bounds(self, piece: int) -> Iterator[tuple[int, int, int, int]]:
        """Each part, its first cell and its end in a piece, and where they begin in areas of a stage."""
        at = 0
        for number, part in enumerate(self._parts):
            n = part.box.size
            start, stop = n * piece // self._pieces, n * (piece + 1) // self._pieces
            yield number, start, stop, at
            at += stop - start

    def _chunks(self, piece: int) -> Iterator[_Chunk]:
        lanes = self._stage.nodes.lanes
        for part, start, stop, at in self._bounds(piece):
            n = stop - start
            lane_bytes = -(-n // lanes) * self._dtype.itemsize
            most = min(max(lane_bytes // _CHUNKS, _LEAST_CHUNK), _MOST_CHUNK)
            count = -(-lane_bytes // most)
            for lane in range(lanes):
                first, last = n * lane // lanes, n * (lane + 1) // lanes
                for number in range(count):
                    low = first + (last - first) * number // count
                    high = first + (last - first) * (number + 1) // count
                    if low < high:
                        yield _Chunk(part, lane, number, start + low, start + high, at + low)

    def _put(self, x: np.ndarray, piece: int) -> None:
        """Copy this member's cells of a piece to its stage."""
        pairs = []
        for number, start, stop, at in self._bounds(piece):
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

    def _take(self, chunks: Sequence[_Chunk], flat: np.ndarray) -> None:
        """Copy results from the stages of this node's carriers."""
        nodes, own, me = self._stage.nodes, self._stage.node, self._stage.comm.rank
        pairs = []
        for chunk in chunks:
            if me in self._parts[chunk.part].members:
                found = self._cells(nodes.carrier(own, chunk.lane), chunk.at, chunk.stop - chunk.start, area=1)
                pairs.append((found, flat[chunk.start : chunk.stop]))
        copy_views(pairs)

    def _run_tasks(self, chunks: Sequence[_Chunk], arrays: Sequence[Any] | None) -> None:
        comm, pool = self._stage.comm, buffer_pool_of(self._stage.comm.process)
        taken: list[np.ndarray] = []
        tasks: list[_Task] = []
        lanes = self._stage.nodes.lanes_of(comm.rank)
        for chunk in chunks:
            if chunk.lane in lanes:
                tasks += self._tasks(chunk, arrays, taken)
        tasks.sort(key=lambda task: task.key)
        receives = [(sent, sender, id(task), cells) for task in tasks for sent, sender, cells in task.receives]
        waits: dict[int, list[Any]] = {}
        for _, sender, task_id, cells in sorted(receives, key=lambda receive: receive[0]):
            waits.setdefault(task_id, []).extend(comm.irecv(flat_bytes(cells), sender, _TAG))
        sends: list[Any] = []
        for task in tasks:
            comm.wait_all(waits.get(id(task), ()))
            if task.rows and task.into is not None:
                fold = self._folding.addresses if task.is_last else self._folding.partly
                fold(np.array(task.rows, np.int64), task.into)
            for member, cells in task.sends:
                sends += comm.isend(flat_bytes(cells), member, _TAG)
        comm.wait_all(sends)
        pool.give_back(taken)

    def _tasks(self, chunk: _Chunk, arrays: Sequence[Any] | None, taken: list[np.ndarray]) -> Iterator[_Task]:
        """The tasks of this member, a carrier of the chunk's lane on its node."""
        nodes, own, n = self._stage.nodes, self._stage.node, chunk.stop - chunk.start
        course = self._course(chunk.part, chunk.lane)
        n_visits = len(course.visits)
        stops = [course.visits[-1].node, *course.spread]

        def key(visit: float) -> tuple[float, ...]:
            return chunk.number + _AHEAD * visit, chunk.part, chunk.lane, visit

        def carrier(node: int) -> int:
            return nodes.carrier(node, chunk.lane)

        for number, visit in enumerate(course.visits):
            brought = key(number - 0.5)
            if visit.node != own:
                near = [member for member in visit.members if nodes.node_of[member] == own]
                if near:
                    sent = [(carrier(visit.node), self._row(member, chunk, arrays)) for member in near]
                    yield _Task(brought, sends=sent)
                continue
            task = _Task(key(number), is_last=number == n_visits - 1)
            if number:
                before = self._buffer(n, taken)
                task.receives.append((key(number - 1), carrier(course.visits[number - 1].node), before))
                task.rows.append(kernels.address_of(before))
            for member in visit.members:
                if nodes.node_of[member] == own:
                    row = self._row(member, chunk, arrays)
                else:
                    row = self._buffer(n, taken)
                    task.receives.append((brought, carrier(nodes.node_of[member]), row))
                task.rows.append(kernels.address_of(row))
            if task.is_last:
                task.into = self._cells(None, chunk.at, n, area=1)
                task.sends = [(carrier(node), task.into) for node in stops[1:2]]
            else:
                task.into = self._buffer(n, taken)
                task.sends = [(carrier(course.visits[number + 1].node), task.into)]
            yield task
        if own in course.spread:
            hop = stops.index(own)
            result = self._cells(None, chunk.at, n, area=1)
            last = n_visits - 1
            task = _Task(key(last + hop), [(key(last + hop - 1), carrier(stops[hop - 1]), result)])
            task.sends = [(carrier(node), result) for node in stops[hop + 1 : hop + 2]]
            yield task

    def _row(self, member: int, chunk: _Chunk, arrays: Sequence[Any] | None) -> np.ndarray:
        """The cells of a chunk of a member of this node: in its array, if these are read there, or in its stage."""
        if arrays is None:
            return self._cells(member, chunk.at, chunk.stop - chunk.start)
        run = self._runs[chunk.part]
        assert run is not None  # `run` reads arrays in place only then
        return arrays[member].reshape(-1)[run[0] + chunk.start : run[0] + chunk.stop]

    def _buffer(self, n: int, taken: list[np.ndarray]) -> np.ndarray:
        """Memory for cells of a message; several small ones share a buffer."""
        n_bytes = n * self._dtype.itemsize
        taken.append(buffer_pool_of(self._stage.comm.process).take(n_bytes))
        return taken[-1][:n_bytes].view(self._dtype)

    @property
    def sent(self) -> dict[int, int]:
        """Bytes that this member sends to each member.  Local."""
        found: dict[int, int] = {}
        lanes = self._stage.nodes.lanes_of(self._stage.comm.rank)
        for piece in range(self._pieces):
            for chunk in self._chunks(piece):
                if chunk.lane in lanes:
                    for task in self._tasks(chunk, None, []):
                        for member, cells in task.sends:
                            found[member] = found.get(member, 0) + cells.nbytes
        return found
