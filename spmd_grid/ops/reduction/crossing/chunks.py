"""The parts of a fold over nodes, cut into lanes, which the members of a node carry, and lanes cut into chunks.

While one chunk crosses, others are folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from spmd_grid.exchange.nodes.fold_course import FoldCourse, cheapest_courses
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.grid.box import Box

__all__ = ["Chunk", "FoldedBox", "chunks_of", "courses_of"]

# Bytes that cross in the time of one more crossing, with its messages.  Measured at "100us 1gbit".
_CROSSING_BYTES = 7 << 13


class FoldedBox(NamedTuple):
    """A box of the members' arrays, the nodes that need its fold, the members that get it, and lanes that it takes."""

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


def courses_of(parts: Sequence[FoldedBox], nodes: NodeMap, itemsize: int) -> list[list[tuple[int, FoldCourse]]]:
    """The lanes of each part, and their courses."""
    needed = [(part.nodes, part.box.size, part.lanes) for part in parts]
    return cheapest_courses(len(nodes.nodes), needed, _CROSSING_BYTES // itemsize)


def chunks_of(
    bounds: Iterable[tuple[int, int, int]],
    courses: Iterable[Sequence[tuple[int, FoldCourse]]],
    itemsize: int,
    sizes: Callable[[int], list[int]],
) -> Iterator[Chunk]:
    """The chunks of parts.

    ``bounds``: by part, its first cell and its end, and how many cells lie before it; ``courses``: its lanes, and
    their courses; ``sizes(n)``: the bytes of the chunks of a lane of ``n`` bytes.
    """
    for part, ((start, stop, at), lanes) in enumerate(zip(bounds, courses, strict=True)):
        n = stop - start
        ends = list(accumulate(sizes(-(-n // len(lanes)) * itemsize), initial=0)) if n else []
        for i, (lane, course) in enumerate(lanes):
            first, last = n * i // len(lanes), n * (i + 1) // len(lanes)
            cuts = [first + (last - first) * end // ends[-1] for end in ends]
            for number, (low, high) in enumerate(pairwise(cuts)):
                if low < high:
                    yield Chunk(part, lane, number, start + low, start + high, at + low, course)
