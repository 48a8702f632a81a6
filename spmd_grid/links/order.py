"""The order of processes on a grid that keeps neighbours on one node.

Orders are compared by a halo step, in which every device sends a face to each of its neighbours: that order is taken
for which the step takes the least time by the model of the links; of equal ones that for which the busiest node sends
the least, then that in which the fewest pairs of neighbours are apart.  Two nodes of four processes on a grid of 2 x 4,
in the order of their numbers and in the best one:

    0 0 0 0      0 0 1 1        4 faces between the nodes, or 2
    1 1 1 1      0 0 1 1

Which node has which devices is a partition of the grid into parts of given sizes.  Where there are at most 20,000 of
them (8 nodes of 1, 4 nodes of 3, 2 nodes of 8 processes), all are compared: the result is the best there is.
Elsewhere it is a heuristic: the grid is cut into boxes of as many devices as the fullest node has processes; nodes,
the fullest first, take devices box after box, for the shapes of boxes with the smallest surface; then, on grids of up
to 64 devices, the pair of devices whose exchange saves the most is exchanged, until no exchange saves anything.

That boxes with the smallest surface send the least is the old rule of domain decomposition; Träff, "Implementing the
MPI process topology mechanism", 2002, and Gropp, "Using node and socket information to implement MPI Cartesian
topologies", 2019, number processes by it, for nodes of equal size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import factorial, prod
from typing import NamedTuple

import numpy as np

from spmd_grid.grid.device_grid import Grid
from spmd_grid.links.copies import near_bandwidth
from spmd_grid.links.model import LinkModel
from spmd_grid.links.nodes import node_array
from spmd_grid.typing import Shape

__all__ = ["FACE_BYTES", "HaloStep", "compares_all", "halo_step", "ordered_ranks"]

FACE_BYTES = 1 << 16  # by which orders are compared: large enough that bytes count, and messages too

_MOST_PARTITIONS = 20_000  # that are compared one by one
_MOST_BOXES = 4
_MOST_EXCHANGED = 64  # devices of a grid on which pairs are exchanged


class HaloStep(NamedTuple):
    """The cost of a step in which every device sends a face to each neighbour: seconds, and bytes.

    ``crossing``: the bytes that leave the node that sends the most; ``apart``: the pairs of neighbours, along all axes,
    that are on different nodes.
    """

    seconds: float
    crossing: int
    apart: int


def halo_step(grid: Grid, links: LinkModel, face_bytes: int = FACE_BYTES) -> HaloStep:
    """The cost of a halo step on ``grid``, which is not periodic, with faces of ``face_bytes``.  Plans only.

    >>> links = LinkModel(node_size=4, cable_bandwidth=1e9)
    >>> halo_step(Grid((2, 4)), links).apart, halo_step(Grid((2, 4), ranks=(0, 1, 4, 5, 2, 3, 6, 7)), links).apart
    (4, 2)
    """
    links.check_covers(grid)
    at = np.unique(node_array(grid, links.node_size, links.nodes), return_inverse=True)[1]
    steps = _halo_steps(at.reshape(1, *grid.shape), links, face_bytes)
    return HaloStep(float(steps[0][0]), int(steps[1][0]), int(steps[2][0]))


@lru_cache(maxsize=64)
def ordered_ranks(grid: Grid, links: LinkModel) -> tuple[int, ...] | None:
    """The process of each device of a grid in the order that suits ``links``; None for that of ``grid``.

    Plans only; equal arguments give the same order.  ``grid`` has its processes in the order of their numbers, or lists
    those to use.  Never dearer than that order, by `halo_step`.

    >>> ordered_ranks(Grid((2, 4)), LinkModel(node_size=4))
    (0, 1, 4, 5, 2, 3, 6, 7)
    >>> ordered_ranks(Grid((4,)), LinkModel(nodes=(0, 1, 0, 1)))
    (0, 2, 1, 3)
    >>> ordered_ranks(Grid((2, 2)), LinkModel(nodes=(0, 0, 0, 1))) is None
    True
    """
    links.check_covers(grid)
    nodes = _nodes_of(grid, links)
    if len(nodes) == 1 or len(nodes) == grid.size:
        return None
    sizes = [len(node) for node in nodes]
    if _n_partitions(sizes) <= _MOST_PARTITIONS:
        candidates = _partitions(sizes)
    else:
        candidates = np.array([_by_boxes(grid.shape, box, sizes) for box in _boxes(grid.shape, sizes[0])])
    best = _best(candidates, grid.shape, links)
    if len(candidates) and _n_partitions(sizes) > _MOST_PARTITIONS and grid.size <= _MOST_EXCHANGED:
        best = _descent(best, grid.shape, links)
    turns = [iter(node) for node in nodes]
    ranks = tuple([next(turns[node]) for node in best.tolist()])
    ordered = halo_step(Grid(grid.shape, ranks=ranks), links)
    return ranks if ordered < halo_step(grid, links) else None


def compares_all(grid: Grid, links: LinkModel) -> bool:
    """Whether `ordered_ranks` compares all ways to divide the grid among the nodes.  Local."""
    return _n_partitions([len(node) for node in _nodes_of(grid, links)]) <= _MOST_PARTITIONS


def _nodes_of(grid: Grid, links: LinkModel) -> list[list[int]]:
    """The processes of each node, the fullest nodes first: their boxes fit the grid, and smaller ones get the rest."""
    by_node: dict[int, list[int]] = {}
    for process in grid.ranks or range(grid.size):
        by_node.setdefault(links.node_of(process), []).append(process)
    return sorted(by_node.values(), key=len, reverse=True)


def _halo_steps(at: np.ndarray, links: LinkModel, face_bytes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The fields of `HaloStep` for many maps of devices to nodes, numbered from 0, one per row of ``at``."""
    n, n_nodes = len(at), int(at.max()) + 1
    out = np.zeros(n * n_nodes, np.int64)  # faces that leave each node
    far = np.zeros_like(at, np.int8)  # faces of a device that cross
    rows = n_nodes * np.arange(n).reshape(-1, *[1] * (at.ndim - 1))
    apart = np.zeros(n, np.int64)
    for axis in range(1, at.ndim):
        low = tuple([slice(None)] * axis + [slice(None, -1)])
        high = tuple([slice(None)] * axis + [slice(1, None)])
        crosses = at[low] != at[high]
        apart += crosses.reshape(n, -1).sum(axis=1)
        for side in (low, high):
            far[side] += crosses
            out += np.bincount((at[side] + rows)[crosses], minlength=len(out))
    most_far = far.reshape(n, -1).max(axis=1)
    crossing = out.reshape(n, n_nodes).max(axis=1) * face_bytes
    on_node = int(np.bincount(at[0].ravel()).max())
    # A face that crosses is copied as well: all orders have the same copies, and differ in what crosses besides.
    copied = sum(min(2, extent - 1) for extent in at.shape[1:]) * face_bytes
    by_process = most_far * (links.message_seconds + face_bytes / links.network_bandwidth)
    seconds = links.node_latency + copied / near_bandwidth(links, on_node)
    seconds = seconds + (most_far > 0) * links.network_latency + np.maximum(by_process, crossing / links.cable)
    return seconds, crossing, apart


def _best(candidates: np.ndarray, shape: Shape, links: LinkModel) -> np.ndarray:
    """The row of ``candidates`` with the cheapest halo step; of equal ones the first."""
    seconds, crossing, apart = _halo_steps(candidates.reshape(-1, *shape), links, FACE_BYTES)
    return candidates[np.lexsort([apart, crossing, seconds])[0]]


def _n_partitions(sizes: Sequence[int]) -> int:
    """The number of ways to give devices to nodes of ``sizes``, where nodes of one size count as alike."""
    if sum(sizes) > _MOST_EXCHANGED:
        return _MOST_PARTITIONS + 1  # there are more, for two nodes or more
    alike = prod(factorial(n) for n in Counter(sizes).values())
    return factorial(sum(sizes)) // prod(map(factorial, sizes)) // alike


def _partitions(sizes: Sequence[int]) -> np.ndarray:
    """All ways to give devices to nodes of ``sizes``, a row each; of nodes of one size, the first begins first.

    >>> _partitions([2, 1]).tolist(), len(_partitions([2, 2, 2])), len(_partitions([3, 3, 2]))
    ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], 15, 280)
    """
    wanted = np.array(sizes)
    rows, left = np.zeros((1, 0), np.int64), wanted[None]
    for _ in range(sum(sizes)):
        grown = []
        for node, size in enumerate(sizes):
            fits = left[:, node] > 0
            if node and sizes[node - 1] == size:
                fits &= left[:, node - 1] < size
            less = left[fits]
            less[:, node] -= 1
            grown.append((np.column_stack([rows[fits], np.full(len(less), node)]), less))
        rows, left = (np.concatenate(parts) for parts in zip(*grown))
    return rows


def _boxes(shape: Shape, size: int) -> Iterator[Shape]:
    """The shapes of boxes of ``size`` devices, at most a few: those that divide the grid, and have small surfaces."""

    def rank(box: Shape) -> tuple[int, int, Shape]:
        cuts = [(extent, side) for extent, side in zip(shape, box) if side < extent]
        return sum(extent % side != 0 for extent, side in cuts), sum(size // side for _, side in cuts), box

    fitting = [box for box in product(*[_divisors(size, extent) for extent in shape]) if prod(box) == size]
    yield from sorted(fitting, key=rank)[:_MOST_BOXES]
    yield tuple([1] * len(shape))  # devices one after the other


def _divisors(size: int, most: int) -> list[int]:
    return [n for n in range(1, min(size, most) + 1) if size % n == 0]


def _by_boxes(shape: Shape, box: Shape, sizes: Sequence[int]) -> np.ndarray:
    """The node of every device, where nodes take devices box after box; boxes at the end of an axis may be cut off."""
    position = np.zeros(1, np.int64)  # of every device: the box's number, then that within the box
    for extent, side in zip(shape, box):
        n = np.arange(extent)
        position = (position[:, None] * -(-extent // side) + n // side).ravel()
    within = np.zeros(1, np.int64)
    for extent, side in zip(shape, box):
        within = (within[:, None] * side + np.arange(extent) % side).ravel()
    nodes = np.empty(len(position), np.int64)
    nodes[np.argsort(position * prod(box) + within)] = np.repeat(np.arange(len(sizes)), sizes)
    return nodes


def _descent(nodes: np.ndarray, shape: Shape, links: LinkModel) -> np.ndarray:
    """``nodes`` after the exchanges of pairs that save the most, until none does."""
    first, second = np.triu_indices(len(nodes), 1)
    for _ in range(len(nodes)):
        differ = nodes[first] != nodes[second]
        pairs = first[differ], second[differ]
        exchanged = np.tile(nodes, (len(pairs[0]) + 1, 1))
        every = np.arange(len(pairs[0]))
        exchanged[every, pairs[0]], exchanged[every, pairs[1]] = nodes[pairs[1]], nodes[pairs[0]]
        exchanged = np.roll(exchanged, 1, axis=0)  # `nodes` itself comes first, and is kept where no pair saves
        better = _best(exchanged, shape, links)
        if (better == nodes).all():
            break
        nodes = better
    return nodes
