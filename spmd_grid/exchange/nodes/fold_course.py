"""The course of a fold over nodes: where that is folded which each node has made of its members' arrays.

The members of a node combine their arrays before anything crosses, and what nodes have made is combined in the order of
the nodes.  So each course gives the same bits, and an array crosses where arrays of all members of a node would:

    folded where it is needed        each node sends its sum to all that need the result, which all fold
    folded once, and spread          each node sends its sum to one node, which sends the result to the others
    passed on                        each node folds its own sum into that of the nodes before, and passes it on
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

__all__ = ["FoldCourse", "busiest", "cheapest_courses", "fold_courses"]


class FoldCourse(NamedTuple):
    """A fold of what ``nodes`` nodes have made.

    ``at``: the nodes that fold all of it; ``spread``: those that get the result from the last of them.  ``passes``:
    whether the only one of ``at`` folds just its own into what comes from the node before, as that has done.
    """

    nodes: int
    at: tuple[int, ...]
    spread: tuple[int, ...] = ()
    passes: bool = False

    @property
    def depth(self) -> int:
        """Number of crossings one after the other."""
        return (self.nodes - 1 if self.passes else 1) + bool(self.spread)

    def senders(self, node: int) -> tuple[int, ...]:
        """The nodes from which ``node`` gets what it folds with its own sum."""
        if self.passes:
            return (node - 1,) if node else ()
        return tuple(other for other in range(self.nodes) if other != node) if node in self.at else ()

    def receivers(self, node: int) -> tuple[int, ...]:
        """The nodes to which ``node`` sends the sum of its members' arrays alone."""
        if self.passes:
            return () if node else (1,)
        return tuple(other for other in self.at if other != node)

    @property
    def ways(self) -> list[tuple[int, int]]:
        """The ways that an array takes from one node to another."""
        found = [(sender, node) for node in range(self.nodes) for sender in self.senders(node)]
        return found + [(self.at[-1], other) for other in self.spread]


def fold_courses(nodes: int, needed: tuple[int, ...], lanes: Sequence[int]) -> Iterator[list[tuple[int, FoldCourse]]]:
    """The ways to fold over ``nodes`` nodes what the nodes ``needed`` get: lanes, and the course of each.  Local.

    >>> for courses in fold_courses(2, (0, 1), [0]):
    ...     print([(lane, course.at, course.spread) for lane, course in courses])
    [(0, (0, 1), ())]
    [(0, (0,), (1,)), (0, (1,), (0,))]
    """
    yield [(lane, FoldCourse(nodes, needed)) for lane in lanes]
    if len(needed) > 1:
        others = {node: tuple(other for other in needed if other != node) for node in needed}
        yield [(lane, FoldCourse(nodes, (node,), others[node])) for lane in lanes for node in needed]
    elif nodes > 2:
        last = nodes - 1
        yield [(lane, FoldCourse(nodes, (last,), tuple({*needed} - {last}), passes=True)) for lane in lanes]


def busiest(loads: Mapping[tuple[int, int], float]) -> float:
    """The load that enters or leaves the busiest node; ``loads``: of the ways between nodes.  Local."""
    ends: dict[tuple[int, bool], float] = defaultdict(float)
    for (one, other), n in loads.items():
        ends[one, False] += n
        ends[other, True] += n
    return max(ends.values(), default=0)


def cheapest_courses(
    nodes: int, parts: Sequence[tuple[tuple[int, ...], int, Sequence[int]]], crossing: int
) -> list[list[tuple[int, FoldCourse]]]:
    """The lanes of each part, and their courses: those that take the busiest node the least time.  Local.

    ``parts``: the nodes that need each, equally many, its size, and the lanes that it may take; ``crossing``: what
    crosses in the time of one more crossing.

    >>> for size in (10, 100):
    ...     print([course.at for lane, course in cheapest_courses(3, [((0, 1, 2), size, [0])], 20)[0]])
    [(0, 1, 2)]
    [(0,), (1,), (2,)]
    """
    found = []
    choices = zip(*[fold_courses(nodes, needed, lanes) for needed, _, lanes in parts], strict=True)
    for number, choice in enumerate(choices):
        loads: dict[tuple[int, int], float] = defaultdict(float)
        for courses, (_, size, _) in zip(choice, parts, strict=True):
            for way in [way for _, course in courses for way in course.ways]:
                loads[way] += size / len(courses)
        depth = max(course.depth for courses in choice for _, course in courses)
        found.append((busiest(loads) + depth * crossing, sum(loads.values()), number, list(choice)))
    return min(found)[-1]
