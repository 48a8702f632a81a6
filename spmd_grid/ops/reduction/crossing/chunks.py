"""The parts of a fold over nodes, cut into lanes, which the members of a node carry, and lanes cut into chunks.

While one chunk crosses, others are folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from spmd_grid.exchange.nodes.fold_course import FoldCourse, balanced_courses
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.grid.box import Box
from spmd_grid.links.sizes import chunks_of_lane

__all__ = ["Chunk", "FoldedBox", "chunks_of", "courses_of"]

# Bytes that cross in the time of one more crossing, with its messages.  Measured at "100us 1gbit".
_CROSSING_BYTES = 7 << 13


class FoldedBox(NamedTuple):
    """A box of the members' arrays, the nodes that need its fold, the members that get it, and the lanes it takes."""

    box: Box
    nodes: tuple[int, ...]
    members: Sequence[int]
    lanes: Sequence[int]


class Chunk(NamedTuple):
    """Cells ``start`` to ``stop`` of ``part``: chunk ``number`` of its lane, the cells from ``at`` on of all parts."""

    part: int
    lane: int
    number: int
    start: int
    stop: int
    at: int
    course: FoldCourse


def courses_of(parts: Sequence[FoldedBox], nodes: NodeMap, itemsize: int) -> list[list[FoldCourse]]:
    """The courses of each lane of each part."""
    needed = [(part.nodes, part.box.size, len(part.lanes)) for part in parts]
    return balanced_courses(len(nodes.nodes), needed, _CROSSING_BYTES // itemsize)


def chunks_of(
    bounds: Sequence[tuple[int, int, int]],
    parts: Sequence[FoldedBox],
    courses: Sequence[Sequence[FoldCourse]],
    itemsize: int,
) -> Iterator[Chunk]:
    """The chunks of parts; ``bounds``: by part, its first cell and its end, and how many cells lie before it."""
    for number, ((start, stop, at), part) in enumerate(zip(bounds, parts, strict=True)):
        n, lanes = stop - start, len(part.lanes)
        ends = list(accumulate(chunks_of_lane(-(-n // lanes) * itemsize), initial=0))
        for i, (lane, course) in enumerate(zip(part.lanes, courses[number], strict=True)):
            first, last = n * i // lanes, n * (i + 1) // lanes
            cuts = [first + (last - first) * end // ends[-1] for end in ends]
            for k, (low, high) in enumerate(pairwise(cuts)):
                if low < high:
                    yield Chunk(number, lane, k, start + low, start + high, at + low, course)
