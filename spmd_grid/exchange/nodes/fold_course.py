"""The course of a fold over nodes: where members' arrays are folded, in order, and what crosses between nodes for that.

The order of a fold is the group's, so that bits do not depend on the nodes.  The fold visits nodes: at each it folds
members' arrays into what came from the node before.  An array of a member that is elsewhere may also be sent to the
fold, which then need not go there.  The course with the fewest crossings is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeAlias

__all__ = ["FoldCourse", "Visit", "balanced_courses", "fold_courses"]


class Visit(NamedTuple):
    """A visit of ``node``, where the arrays of ``members``, in this order, are folded into what came so far."""

    node: int
    members: tuple[int, ...]


_Way: TypeAlias = tuple[int, int, tuple[Visit, ...]]  # crossings, minus the number of visits, the visits


class FoldCourse(NamedTuple):
    """The ``visits`` of a fold in order, and the nodes to which the result then goes, one after the other."""

    visits: tuple[Visit, ...]
    spread: tuple[int, ...]

    def crossings(self, node_of: Sequence[int]) -> int:
        """Number of times that an array crosses between nodes."""
        return sum(self.ways(node_of).values())

    @property
    def depth(self) -> int:
        """Number of crossings one after the other, if arrays that come to a visit cross at the begin."""
        return max(len(self.visits) - 1, 1) + len(self.spread)

    def ways(self, node_of: Sequence[int]) -> Counter[tuple[int, int]]:
        """The number of times that an array crosses from one node to another."""
        hops = [(node_of[member], visit.node) for visit in self.visits for member in visit.members]
        stops = [*(visit.node for visit in self.visits), *self.spread]
        return Counter((one, other) for one, other in [*hops, *pairwise(stops)] if one != other)


@lru_cache(256)
def fold_courses(node_of: tuple[int, ...], needed: tuple[int, ...], any_order: bool) -> tuple[FoldCourse, ...]:
    """The courses with the fewest crossings of a fold of all members, whose result the nodes ``needed`` get.  Local.

    ``any_order``: whether the result does not depend on the order.  With equal costs, those of more visits come first:
    each sends one way what another sends the other way.

    >>> for course in fold_courses((0, 0, 1, 1), (0,), False):
    ...     print(course.visits, course.spread)
    (Visit(node=0, members=(0, 1)), Visit(node=1, members=(2, 3))) (0,)
    (Visit(node=0, members=(0, 1, 2, 3)),) ()
    >>> fold_courses((0, 0, 1, 1), (0, 1), False)
    (FoldCourse(visits=(Visit(node=0, members=(0, 1)), Visit(node=1, members=(2, 3))), spread=(0,)),)
    """
    if any_order:
        orders = [
            sorted(range(len(node_of)), key=lambda member: (node_of[member] == last, node_of[member]))
            for last in needed
        ]
    else:
        orders = [list(range(len(node_of)))]
    ends = sorted({end for order in orders for end in _ends(node_of, needed, order)})
    return tuple(FoldCourse(visits, spread) for cost, _, visits, spread in ends if cost == ends[0][0])


def _ends(
    node_of: tuple[int, ...], needed: tuple[int, ...], members: Sequence[int]
) -> list[tuple[int, int, tuple[Visit, ...], tuple[int, ...]]]:
    """The best course that ends on each node: its cost, minus the number of visits, the visits, and the spread."""
    runs: list[tuple[int, ...]] = []
    for member in members:
        if runs and node_of[runs[-1][0]] == node_of[member]:
            runs[-1] += (member,)
        else:
            runs.append((member,))
    nodes = sorted(set(node_of))
    best: dict[int, _Way] = {}  # for each node where the fold may be: its cost so far, and its visits
    for run in runs:
        home = node_of[run[0]]
        found: dict[int, _Way] = {}
        for node in nodes:
            brought = 0 if node == home else len(run)
            ways: list[_Way] = [] if best else [(brought, -1, (Visit(node, run),))]
            for before, (cost, _, visits) in best.items():
                if before == node:
                    longer = (*visits[:-1], Visit(node, visits[-1].members + run))
                    ways.append((cost + brought, -len(longer), longer))
                else:
                    longer = (*visits, Visit(node, run))
                    ways.append((cost + 1 + brought, -len(longer), longer))
            found[node] = min(ways)
        best = found
    ends = []
    for node, (cost, order, visits) in best.items():
        spread = _spread(node, needed)
        ends.append((cost + len(spread), order, visits, spread))
    return ends


def balanced_courses(
    node_of: tuple[int, ...], parts: Sequence[tuple[tuple[int, ...], int]], any_order: bool, lanes: int
) -> list[list[FoldCourse]]:
    """A course for each lane of each part, so that all ways between nodes carry alike.  Local.

    ``parts``: the nodes that need each, and its size.  Parts with one course are counted first; of courses that
    lengthen the fullest way alike, lanes take different ones.

    >>> halves = balanced_courses((0, 0, 1, 1), [((0,), 1), ((1,), 1)], False, 2)
    >>> [[len(course.visits) for course in lanes] for lanes in halves]
    [[1, 2], [2, 2]]
    """
    loads: Counter[tuple[int, int]] = Counter()
    found: list[list[FoldCourse]] = [[] for _ in parts]
    choices = [fold_courses(node_of, needed, any_order) for needed, _ in parts]
    for number in sorted(range(len(parts)), key=lambda number: len(choices[number])):
        for lane in range(lanes):
            turned = choices[number][lane % len(choices[number]) :] + choices[number][: lane % len(choices[number])]
            size = parts[number][1]
            fullest = [
                max((loads[way] + size * n for way, n in each.ways(node_of).items()), default=0) for each in turned
            ]
            course = turned[fullest.index(min(fullest))]
            for way, n in course.ways(node_of).items():
                loads[way] += size * n
            found[number].append(course)
    return found


def _spread(node: int, needed: Collection[int]) -> tuple[int, ...]:
    """The nodes other than ``node`` that need the result: those nearest before it first, as the fold came."""
    return tuple(sorted(set(needed) - {node}, reverse=True))
