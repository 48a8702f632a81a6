"""The map of processes to nodes: by their number, or any; and what of a grid stays within nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from spmd_grid.grid.device_grid import Grid

__all__ = ["axis_stays_within_nodes", "is_one_node", "node_array", "numbered", "processes_array"]


def numbered(nodes: Sequence[int]) -> tuple[tuple[int, ...], int | None]:
    """``nodes`` numbered in the order of their first processes, and the node size if it tells the same, else None.

    It does where all nodes but the last have that number of consecutive processes, and the last no more.  Local.

    >>> numbered([4, 4, 9, 9, 2]), numbered([1, 0, 1, 0]), numbered([0, 0, 0, 1])
    (((0, 0, 1, 1, 2), 2), ((0, 1, 0, 1), None), ((0, 0, 0, 1), 3))
    """
    order: dict[int, int] = {}
    found = tuple([order.setdefault(node, len(order)) for node in nodes])
    size = next((process for process, node in enumerate(found) if node), len(found))
    return found, size if all(node == process // size for process, node in enumerate(found)) else None


def processes_array(grid: Grid) -> np.ndarray:
    """The process of every device, in the grid's shape.  Local."""
    return grid.rank_numbers.reshape(grid.shape)


def node_array(grid: Grid, node_size: int, nodes: tuple[int, ...] | None) -> np.ndarray:
    """The node of every device, in the grid's shape.  Local."""
    processes = processes_array(grid)
    return processes // node_size if nodes is None else np.asarray(nodes)[processes]


def axis_stays_within_nodes(grid: Grid, axis: int, node_size: int, nodes: tuple[int, ...] | None) -> bool:
    """Whether processes that differ on ``axis`` alone share a node.  Local.

    >>> [axis_stays_within_nodes(Grid((2, 2)), axis, 1, (0, 1, 0, 1)) for axis in (0, 1)]
    [True, False]
    """
    if grid.shape[axis] == 1:
        return True
    if nodes is None and grid.ranks is None:
        return node_size % (grid.strides[axis] * grid.shape[axis]) == 0 or grid.size <= node_size
    return _looked_up(grid, axis, node_size, nodes)


@lru_cache(maxsize=256)
def _looked_up(grid: Grid, axis: int, node_size: int, nodes: tuple[int, ...] | None) -> bool:
    at = node_array(grid, node_size, nodes)
    return bool((at == at.take([0], axis=axis)).all())


def is_one_node(grids: Sequence[Grid], node_size: int, nodes: tuple[int, ...] | None) -> bool:
    """Whether all processes of ``grids`` share one node.  Local."""
    if nodes is not None:
        return len({nodes[process] for grid in grids for process in grid.ranks or range(grid.size)}) == 1
    ends = [end for grid in grids for end in _ends(grid)]
    return min(ends) // node_size == max(ends) // node_size


def _ends(grid: Grid) -> tuple[int, int]:
    """The first and the last process of a grid."""
    if grid.ranks is None:
        return 0, grid.size - 1
    return int(grid.rank_numbers.min()), int(grid.rank_numbers.max())
