"""The costs of reductions between nodes: folds from node to node, or arrays gathered where they are folded.

A fold from node to node takes one crossing after another.  Where each member gathers the arrays that it folds, more
bytes cross, but all at once.  Costs are in bytes: those that enter or leave the busiest node, and those that could do
so in the time of each crossing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from spmd_grid.exchange.nodes.fold_course import FoldCourse
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.ops.reduction.crossing.folding import FoldedBox

__all__ = ["folding_cost", "gathering_cost"]

# Bytes that cross in the time of one more crossing, with its messages and folds.  Measured at "100us 1gbit".
_CROSSING_BYTES = 7 << 13


def _busiest(ways: Mapping[tuple[int, int], int]) -> int:
    """The cells that enter or leave the busiest node; ``ways``: those that cross from one node to another."""
    out, into = Counter[int](), Counter[int]()
    for (one, other), n in ways.items():
        out[one] += n
        into[other] += n
    return max([*out.values(), *into.values()], default=0)


def folding_cost(
    parts: Sequence[FoldedBox], courses: Sequence[Sequence[FoldCourse]], nodes: NodeMap, itemsize: int
) -> int:
    """The cost of a fold of ``parts`` from node to node; ``courses``: of each lane of each part."""
    ways = Counter[tuple[int, int]]()
    for part, lanes in zip(parts, courses, strict=True):
        for course in lanes:
            for way, n in course.ways(nodes.node_of).items():
                ways[way] += part.box.size * n // len(lanes)
    crossings = max((course.depth for lanes in courses for course in lanes), default=0)
    return _busiest(ways) * itemsize + crossings * _CROSSING_BYTES


def gathering_cost(parts: Sequence[FoldedBox], nodes: NodeMap, itemsize: int) -> int:
    """The cost if ``parts`` of all arrays cross once to each node that needs them."""
    ways = Counter[tuple[int, int]]()
    for part in parts:
        for needing in part.nodes:
            for node, members in enumerate(nodes.nodes):
                if node != needing:
                    ways[node, needing] += part.box.size * len(members)
    return _busiest(ways) * itemsize + _CROSSING_BYTES
