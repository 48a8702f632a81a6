"""The tasks of the members that carry a fold over nodes, chunk by chunk, wherever their cells lie.

Each part of the arrays takes its course over the nodes (`exchange/nodes/fold_course.py`).  It is cut into lanes, which
the members of a node carry, and each lane into chunks, so that a chunk is folded while others travel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.ops.reduction.crossing.chunks import Chunk

__all__ = ["FoldTask", "Positions", "tasks_of"]

Cells = TypeVar("Cells")


class Positions(NamedTuple, Generic[Cells]):
    """The positions of a chunk's cells on a member: in an array of its node, of a result, and of what others send."""

    row: Callable[[int, Chunk], Cells]  # of a member's array
    result: Callable[[Chunk], Cells]
    buffer: Callable[[int], Cells]  # new memory for some cells


@dataclass
class FoldTask(Generic[Cells]):
    """A task of a carrier: wait for arrays of other nodes, fold rows into ``into``, send arrays on.

    ``key``: tasks are done in this order, which depends on no process, so messages match in order.  ``receives``: the
    keys of the senders' tasks, the senders, and the cells.  ``rows``: none if nothing is folded.  ``result``: the chunk
    whose result is there after it.
    """

    key: tuple[float, ...]
    n: int  # cells of each of its arrays
    receives: list[tuple[tuple[float, ...], int, Cells]] = field(default_factory=list)
    rows: list[Cells] = field(default_factory=list)
    into: Cells | None = None
    is_last: bool = False
    sends: list[tuple[int, Cells]] = field(default_factory=list)
    result: Chunk | None = None


def tasks_of(chunk: Chunk, nodes: NodeMap, own: int, positions: Positions[Cells]) -> Iterator[FoldTask[Cells]]:
    """The tasks of the member of the node ``own`` that carries the chunk's lane."""
    course = chunk.course
    n, depth = chunk.stop - chunk.start, course.nodes - 1 if course.passes else 0

    def key(crossings: float) -> tuple[float, ...]:
        return crossings, chunk.number, chunk.at

    def carrier(node: int) -> int:
        return nodes.carrier(node, chunk.lane)

    rows = [positions.row(member, chunk) for member in nodes.nodes[own]]
    sums = rows[0] if len(rows) == 1 else positions.buffer(n)
    summing: FoldTask[Cells] = FoldTask(key(own - 0.5 if course.passes else -0.5), n)
    if len(rows) > 1:
        summing.rows, summing.into = rows, sums
    summing.sends = [(carrier(node), sums) for node in course.receivers(own)]
    if summing.rows or summing.sends:
        yield summing
    senders = course.senders(own)
    if senders:
        task: FoldTask[Cells] = FoldTask(key(own if course.passes else 0), n, is_last=own in course.at)
        for node in sorted((own, *senders)):
            task.rows.append(sums if node == own else positions.buffer(n))
            if node != own:
                sent = key(node) if course.passes and node else key(-0.5)
                task.receives.append((sent, carrier(node), task.rows[-1]))
        if task.is_last:
            task.into, task.result = positions.result(chunk), chunk
            task.sends = [(carrier(node), task.into) for node in course.spread if own == course.at[-1]]
        else:
            task.into = positions.buffer(n)
            task.sends = [(carrier(own + 1), task.into)]
        yield task
    if own in course.spread:
        result = positions.result(chunk)
        yield FoldTask(key(depth + 1), n, [(key(depth), carrier(course.at[-1]), result)], result=chunk)
