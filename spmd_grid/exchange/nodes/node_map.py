"""The members of a group by node, and the members that carry each lane of a movement between nodes.

A movement between nodes is cut into *lanes*, equally many on every node, and each member of a node carries its share of
them.  So all members of a node send and receive, and no byte enters a node twice.  Nodes of three and of one member:

    node 0: members 0 1 2      lane 0: 0 <-> 3
    node 1: member  3          lane 1: 1 <-> 3
                               lane 2: 2 <-> 3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import lcm

__all__ = ["NodeMap"]

_MOST_LANES = 16


@dataclass(frozen=True)
class NodeMap:
    """The members of each node, nodes in the order of their first members.

    >>> nodes = NodeMap.from_firsts([0, 0, 0, 3])
    >>> nodes.nodes, nodes.lanes, [nodes.carrier(1, lane) for lane in range(3)]
    (((0, 1, 2), (3,)), 3, [3, 3, 3])
    """

    nodes: tuple[tuple[int, ...], ...]

    @staticmethod
    def from_firsts(firsts: Sequence[int]) -> NodeMap:
        """The map of a group of which member i shares its node with ``firsts[i]``, the first member there."""
        found: dict[int, list[int]] = {}
        for member, first in enumerate(firsts):
            found.setdefault(first, []).append(member)
        return NodeMap(tuple(tuple(members) for members in found.values()))

    @cached_property
    def node_of(self) -> tuple[int, ...]:
        """The node of every member."""
        found = {member: node for node, members in enumerate(self.nodes) for member in members}
        return tuple(found[member] for member in range(len(found)))

    @cached_property
    def is_shared(self) -> bool:
        """Whether there are several nodes, and one of them has several members."""
        return 1 < len(self.nodes) < len(self.node_of)

    @cached_property
    def lanes(self) -> int:
        """Number of lanes: a multiple of every node's members if that is not large, else those of the largest node."""
        sizes = list(map(len, self.nodes))
        return lcm(*sizes) if lcm(*sizes) <= _MOST_LANES else max(sizes)

    def carrier(self, node: int, lane: int) -> int:
        """The member of ``node`` that carries ``lane``."""
        members = self.nodes[node]
        return members[lane * len(members) // self.lanes]

    def lanes_of(self, member: int) -> range:
        """The lanes that ``member`` carries: successive ones."""
        node = self.node_of[member]
        carried = [lane for lane in range(self.lanes) if self.carrier(node, lane) == member]
        return range(carried[0], carried[-1] + 1) if carried else range(0)
