"""The tasks of the members that carry a fold over nodes, chunk by chunk, wherever their cells lie.

Each part of the arrays takes its course over the nodes (`exchange/nodes/fold_course.py`).  It is cut into lanes, which
the members of a node carry, and each lane into chunks, so that a chunk is folded while others travel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Generic, NamedTuple, TypeVar

from spmd_grid.exchange.nodes.fold_course import FoldCourse
from spmd_grid.exchange.nodes.node_map import NodeMap

__all__ = ["Chunk", "FoldTask", "Positions", "chunks_of", "tasks_of"]

# A carrier waits for a chunk from the next node once it has folded this number of chunks more.
_AHEAD = 2

Cells = TypeVar("Cells")


class Chunk(NamedTuple):
    """Cells ``start`` to ``stop`` of ``part``: chunk ``number`` of its lane, the cells from ``at`` on of all parts.

    ``comes_first``: arrays that are brought to its first visit cross before anything else.
    """

    part: int
    lane: int
    number: int
    start: int
    stop: int
    at: int
    comes_first: bool = False


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


def chunks_of(
    bounds: Iterable[tuple[int, int, int, int]], lanes: int, itemsize: int, shares: Callable[[int, int, int], list[int]]
) -> Iterator[Chunk]:
    """The chunks of parts.

    ``bounds``: each part, its first cell and its end, and how many cells lie before it.  ``shares(part, lane, n)``: of
    the chunks of a lane of at most ``n`` bytes.
    """
    for part, start, stop, at in bounds:
        n = stop - start
        for lane in range(lanes):
            first, last = n * lane // lanes, n * (lane + 1) // lanes
            ends = list(accumulate(shares(part, lane, -(-n // lanes) * itemsize), initial=0))
            for number, (low, high) in enumerate(pairwise(first + (last - first) * end // ends[-1] for end in ends)):
                if low < high:
                    yield Chunk(part, lane, number, start + low, start + high, at + low)


def tasks_of(
    chunk: Chunk, course: FoldCourse, nodes: NodeMap, own: int, positions: Positions[Cells]
) -> Iterator[FoldTask[Cells]]:
    """The tasks of the member of the node ``own`` that carries the chunk's lane."""
    n, n_visits = chunk.stop - chunk.start, len(course.visits)
    stops = [course.visits[-1].node, *course.spread]

    def key(visit: float) -> tuple[float, ...]:
        return chunk.number + _AHEAD * visit, chunk.part, chunk.lane, visit

    def carrier(node: int) -> int:
        return nodes.carrier(node, chunk.lane)

    for number, visit in enumerate(course.visits):
        brought = key(number - 0.5)
        if chunk.comes_first and number == 0:
            brought = (-_AHEAD, *brought[1:])
        if visit.node != own:
            near = [member for member in visit.members if nodes.node_of[member] == own]
            if near:
                yield FoldTask(
                    brought, n, sends=[(carrier(visit.node), positions.row(member, chunk)) for member in near]
                )
            continue
        task: FoldTask[Cells] = FoldTask(key(number), n, is_last=number == n_visits - 1)
        if number:
            before = positions.buffer(n)
            task.receives.append((key(number - 1), carrier(course.visits[number - 1].node), before))
            task.rows.append(before)
        for member in visit.members:
            if nodes.node_of[member] == own:
                row = positions.row(member, chunk)
            else:
                row = positions.buffer(n)
                task.receives.append((brought, carrier(nodes.node_of[member]), row))
            task.rows.append(row)
        if task.is_last:
            task.into, task.result = positions.result(chunk), chunk
            task.sends = [(carrier(node), task.into) for node in stops[1:2]]
        else:
            task.into = positions.buffer(n)
            task.sends = [(carrier(course.visits[number + 1].node), task.into)]
        yield task
    if own in course.spread:
        hop = stops.index(own)
        result = positions.result(chunk)
        last = n_visits - 1
        task = FoldTask(key(last + hop), n, [(key(last + hop - 1), carrier(stops[hop - 1]), result)], result=chunk)
        task.sends = [(carrier(node), result) for node in stops[hop + 1 : hop + 2]]
        yield task
