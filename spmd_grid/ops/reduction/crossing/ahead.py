"""Reductions over several nodes without a meeting: the fold of each chunk, as compiled code needs it.

The members of a node carry lanes as in plain calls (``folding.py``), do the same tasks in the same order, and
so get the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.exchange.transfer.transfer import run_of
from spmd_grid.grid.box import Box
from spmd_grid.kernels import BoxRow
from spmd_grid.kernels.ahead.slots import IN_MEMORY
from spmd_grid.links.sizes import chunks_of_lane
from spmd_grid.ops.loops.work import copies_of
from spmd_grid.ops.movement.pieces import (
    Arrival,
    Leave,
    Memory,
    Pieces,
    Position,
    Step,
    Take,
    opened_by,
)
from spmd_grid.ops.reduction.crossing.chunks import Chunk, FoldedBox, chunks_of, courses_of
from spmd_grid.ops.reduction.crossing.fold_tasks import FoldTask, Positions, tasks_of
from spmd_grid.typing import Shape

__all__ = ["FoldInPieces"]


class FoldInPieces:
    """The fold of ``parts`` of arrays of ``shape`` and ``dtype``, which together are all of them, on member ``me``."""

    def __init__(
        self,
        me: int,
        nodes: NodeMap,
        shape: Shape,
        dtype: np.dtype,
        parts: Sequence[FoldedBox],
    ):
        self._me, self._nodes, self._shape, self._dtype, self._parts = me, nodes, shape, dtype, parts
        self._node = nodes.node_of[me]
        self._near = nodes.nodes[self._node]
        sizes = [part.box.size for part in parts]
        starts = [sum(sizes[:i]) for i in range(len(parts))]
        bounds = [(0, size, start) for size, start in zip(sizes, starts)]
        self._chunks = list(chunks_of(bounds, courses_of(parts, nodes, dtype.itemsize), dtype.itemsize, chunks_of_lane))
        runs = [run_of(shape, [part.box]) for part in parts]
        self._is_prepared = None in runs  # then each part is copied to where it is one run
        self._starts = starts if self._is_prepared else [run[0] for run in runs if run is not None]
        self.array_bytes = sum(sizes) * dtype.itemsize
        self._reads = len(self._near) > 1 or self._is_prepared

    def _tasks(self, member: int) -> tuple[list[FoldTask[Position]], Mapping[Chunk, int], Memory]:
        """The tasks of a member in order, where results lie in its memory, and this.

        Of members of other nodes the order is that of their tasks, but positions are not theirs.
        """
        node, memory = self._nodes.node_of[member], Memory()
        if self._reads:
            memory.take(self.array_bytes)
        results: dict[Chunk, int] = {}
        itemsize = self._dtype.itemsize

        def row(source: int, chunk: Chunk) -> Position:
            at = (self._starts[chunk.part] + chunk.start) * itemsize
            return Position(IN_MEMORY if self._is_prepared and source == member else source, at)

        def result(chunk: Chunk) -> Position:
            if chunk not in results:
                results[chunk] = memory.take((chunk.stop - chunk.start) * itemsize)
            return Position(IN_MEMORY, results[chunk])

        def buffer(n: int) -> Position:
            return Position(IN_MEMORY, memory.take(n * itemsize))

        positions = Positions(row, result, buffer)
        tasks: list[FoldTask[Position]] = []
        for chunk in self._chunks:
            if self._nodes.carrier(node, chunk.lane) == member:
                tasks += tasks_of(chunk, self._nodes, node, positions)
        return sorted(tasks, key=lambda task: task.key), results, memory

    def pieces(self, kind: str, has_result: bool) -> Pieces:
        """This member's part.  Local."""
        steps, memory = self._steps(self._me)
        takes = self._takes() if has_result else []
        fold, lends = kernels.fold_address(kind, self._dtype), len(self._near) > 1
        senders = {arrival.peer for step in steps for arrival in step.arrivals}
        openers = [peer for peer in sorted(senders) if self._me in opened_by(self._steps(peer)[0])]
        return Pieces(
            steps,
            takes,
            memory.n_bytes,
            0,
            fold,
            self._prepared(),
            lends,
            opens=opened_by(steps),
            opened_by=openers,
        )

    def _steps(self, member: int) -> tuple[list[Step], Memory]:
        """The steps of a member, and its memory."""
        tasks, _, memory = self._tasks(member)
        steps, made, itemsize = [], 0, self._dtype.itemsize
        for task in tasks:
            n_bytes = task.n * itemsize
            made += task.result is not None
            steps.append(
                Step(
                    arrivals=[Arrival(order, peer, position.at, n_bytes) for order, peer, position in task.receives],
                    inputs=task.rows,
                    into=0 if task.into is None else task.into.at,
                    elements=task.n,
                    leaves=[Leave(peer, position, n_bytes) for peer, position in task.sends],
                    made=made if task.result is not None else 0,
                )
            )
        return steps, memory

    def _takes(self) -> list[Take]:
        """The takes of results from the members of this node that make or receive them."""
        takes = []
        for member in self._near:
            tasks, positions, _ = self._tasks(member)
            made = [(task.key, task.result) for task in tasks if task.result is not None]
            for number, (key, chunk) in enumerate(made, 1):
                part = self._parts[chunk.part]
                if self._me in part.members:
                    n, whole = chunk.stop - chunk.start, (part.box.size,)
                    cells = Box((chunk.start,), (chunk.stop,))
                    rows = copies_of((n,), Box.from_shape((n,)), whole, cells, self._dtype)
                    takes.append((key, Take(member, number, Position(IN_MEMORY, positions[chunk]), rows)))
        return [take for _, take in sorted(takes, key=lambda each: each[0])]

    def _prepared(self) -> list[BoxRow]:
        """The rows that copy the parts one after the other, where not each of them is a run of the array."""
        rows: list[BoxRow] = []
        for part, start in zip(self._parts, self._starts):
            if self._is_prepared and part.box.size:
                whole = Box.from_shape(part.box.shape)
                at = start * self._dtype.itemsize
                rows += copies_of(self._shape, part.box, part.box.shape, whole, self._dtype, at)
        return rows

    @property
    def read_bytes(self) -> int:
        """The bytes of this member's array that others of its node read, or this one in its memory."""
        return self.array_bytes if self._reads else 0
