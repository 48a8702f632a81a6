"""The course of a fold over nodes: where members' arrays are folded, in order, and what crosses between nodes for that.

The order of a fold is the group's, so that bits do not depend on the nodes.  The fold visits nodes: at each it folds
members' arrays into what came from the node before.  An array of a member that is elsewhere may also be sent to the
fold, which then need not go there.  The course with the fewest crossings is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

__all__ = ["FoldCourse", "Visit", "fold_course"]


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
        brought = sum(node_of[member] != visit.node for visit in self.visits for member in visit.members)
        return len(self.visits) - 1 + brought + len(self.spread)


@lru_cache(256)
def fold_course(node_of: tuple[int, ...], needed: tuple[int, ...], any_order: bool, turn: int = 0) -> FoldCourse:
    """The course of a fold of all members, whose result the nodes ``needed`` get.  Local.

    ``any_order``: whether the result does not depend on the order.  Courses of successive ``turn`` end on different
    nodes where that costs the same, so that together they use all links alike.

    >>> for visit in fold_course((0, 0, 1, 1), (0, 1), False).visits:
    ...     print(visit)
    Visit(node=0, members=(0, 1))
    Visit(node=1, members=(2, 3))
    >>> fold_course((0, 1, 0, 1), (0, 1), False)
    FoldCourse(visits=(Visit(node=0, members=(0,)), Visit(node=1, members=(1, 2, 3))), spread=(0,))
    """
    members: Sequence[int] = range(len(node_of))
    if any_order:
        last = needed[turn % len(needed)]
        members = sorted(members, key=lambda member: (node_of[member] == last, node_of[member]))
    runs: list[tuple[int, ...]] = []
    for member in members:
        if runs and node_of[runs[-1][0]] == node_of[member]:
            runs[-1] += (member,)
        else:
            runs.append((member,))
    # For each node where the fold may be: its cost so far, and its visits.  With equal costs, more visits: each sends
    # one way what another sends the other way.
    nodes = sorted(set(node_of))
    best: dict[int, _Way] = {}
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
    least = [end for end in sorted(ends) if end[:2] == min(ends)[:2]]
    _, _, visits, spread = least[turn % len(least)]
    return FoldCourse(visits, spread)


def _spread(node: int, needed: Collection[int]) -> tuple[int, ...]:
    """The nodes other than ``node`` that need the result: those nearest before it first, as the fold came."""
    return tuple(sorted(set(needed) - {node}, reverse=True))
