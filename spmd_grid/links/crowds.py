"""The groups of an operation on the nodes of a model: how many members, nodes and groups share a cable."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from spmd_grid.grid.device_grid import Grid
from spmd_grid.links.model import LinkModel
from spmd_grid.links.nodes import node_array

__all__ = ["Crowd", "crowd_of", "crowd_on"]


class Crowd(NamedTuple):
    """A group on its nodes: its members, its nodes, the most members on a node, and the groups that share a node.

    ``entries``: how often the group's order comes to the same node, at most: once where neighbours share nodes.
    """

    members: int
    nodes: int
    on_node: int
    groups: int
    entries: int = 1

    @property
    def processes(self) -> int:
        """The processes of the fullest node, of all groups."""
        return self.on_node * self.groups


@lru_cache(maxsize=512)
def crowd_of(grid: Grid, axes: tuple[int, ...], links: LinkModel) -> Crowd:
    """The first group over ``axes`` on the nodes of ``links``.  Plans only.

    >>> crowd_of(Grid((4, 2, 4)), (0, 2), LinkModel(node_size=8))
    Crowd(members=16, nodes=4, on_node=4, groups=2, entries=1)
    """
    links.check_covers(grid)
    if links.nodes is None and grid.ranks is None:
        nodes, on_node = _counted([(grid.strides[axis], grid.shape[axis]) for axis in axes], links.node_size)
        if nodes == 1 or on_node == 1 or list(axes) == sorted(axes):
            most = min(links.node_size, grid.size)
            return Crowd(prod(grid.shape[axis] for axis in axes), nodes, on_node, max(1, -(-most // on_node)))
    at = node_array(grid, links.node_size, links.nodes)
    most = int(np.unique(at, return_counts=True)[1].max())
    return crowd_on(at.ravel()[_first_group(grid, axes)], most)


def _counted(levels: Sequence[tuple[int, int]], node_size: int) -> tuple[int, int]:
    """The nodes of all sums of multiples of strides, and the most of them on a node; ``levels``: strides and sizes.

    Nodes have ``node_size`` consecutive numbers.  A stride that they divide multiplies the nodes; for the others, the
    sums below the end of each node are counted, digit by digit.

    >>> _counted([(100, 7), (1, 25)], 10), _counted([(3, 4), (1, 2)], 4)
    ((21, 10), (3, 3))
    """
    nodes, rest = 1, []
    for stride, size in sorted(levels, reverse=True):
        if stride % node_size == 0:
            nodes *= size
        else:
            rest.append((stride, size))
    last = sum(stride * (size - 1) for stride, size in rest)
    left = node_size * np.arange(1, last // node_size + 2, dtype=np.int64)
    below, among = np.zeros(len(left), np.int64), np.ones(len(left), bool)
    n_inner = prod(size for _, size in rest)
    for stride, size in rest:
        n_inner //= size
        whole = np.minimum(left // stride, size)
        below += np.where(among, whole * n_inner, 0)
        among &= whole < size
        left = left - whole * stride
    counts = np.diff(below + (among & (left > 0)), prepend=0)
    return nodes * int(np.count_nonzero(counts)), int(counts.max())


def _first_group(grid: Grid, axes: tuple[int, ...]) -> np.ndarray:
    """The devices of the group of device 0, in group order."""
    devices = np.zeros(1, np.int64)
    for axis in axes:
        devices = (devices[:, None] + grid.strides[axis] * np.arange(grid.shape[axis])).ravel()
    return devices


def crowd_on(nodes: np.ndarray, most: int) -> Crowd:
    """The group whose members are on ``nodes``, of which the fullest has ``most`` processes in all.  Plans only."""
    _, numbers, counts = np.unique(nodes, return_inverse=True, return_counts=True)
    on_node = int(counts.max())
    enters = numbers[numbers != np.roll(numbers, 1)]
    entries = int(np.bincount(enters).max()) if len(enters) else 1
    return Crowd(len(nodes), len(counts), on_node, max(1, -(-most // on_node)), entries)
