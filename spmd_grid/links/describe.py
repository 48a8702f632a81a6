"""Text about a grid on its nodes: the devices of each, and the cost of an order of processes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spmd_grid.formatting import bytes_text, count_text, seconds_text, spans
from spmd_grid.grid.device_grid import Grid
from spmd_grid.links.model import LinkModel
from spmd_grid.links.nodes import node_array, processes_array
from spmd_grid.links.order import FACE_BYTES, HaloStep, compares_all, halo_step, ordered_ranks

__all__ = ["grid_text", "order_text"]

_MOST_NODES, _MOST_LISTED = 16, 8


def grid_text(grid: Grid, links: LinkModel) -> str:
    """The nodes of a grid, the neighbours that share them, and the cost of its order, line by line.  Plans only.

    >>> print(grid_text(Grid((2, 4)), LinkModel(node_size=4, cable_bandwidth=1e9)))
    grid 2x4: 8 processes on 2 nodes
      node 0: processes 0-3, devices [0, 0:4]
      node 1: processes 4-7, devices [1, 0:4]
    neighbours on one node: axis 0: 0 of 4 pairs; axis 1: 6 of 6 pairs
    halo step with faces of 64 KiB: 304 us, 256 KiB leave the busiest node
      with order="auto": 173 us, 128 KiB leave the busiest node
    """
    at = node_array(grid, links.node_size, links.nodes)
    numbers = list(dict.fromkeys(at.ravel().tolist()))
    shape = "x".join(map(str, grid.shape)) or "of no axes"
    nodes = "one node" if len(numbers) == 1 else f"{len(numbers)} nodes"
    lines = [f"grid {shape}: {grid.size:,} process{'es' if grid.size > 1 else ''} on {nodes}"]
    if len(numbers) > 1:
        lines += _node_lines(grid, at, numbers)
        lines.append(f"neighbours on one node: {_neighbours(grid, at)}")
        lines += _order_lines(grid, links)
    return "\n".join(lines)


def order_text(grid: Grid, links: LinkModel) -> str:
    """Text about the worth of an order of processes that `ordered_ranks` has found, line by line.  Plans only.

    >>> links = LinkModel(node_size=4, cable_bandwidth=1e9)
    >>> print(order_text(Grid((2, 4), ranks=ordered_ranks(Grid((2, 4)), links)), links))
    neighbours on one node: axis 0: 4 of 4 pairs; axis 1: 4 of 6 pairs
    halo step with faces of 64 KiB: 173 us, 128 KiB leave the busiest node
      with processes in the order of their numbers: 304 us, 256 KiB leave the busiest node
    >>> print(order_text(Grid((2, 4)), LinkModel(node_size=8)))
    processes stay in the order of their numbers: all share one node
    """
    at = node_array(grid, links.node_size, links.nodes)
    n_nodes = len(np.unique(at))
    stay = "processes stay in the order of their numbers"
    if n_nodes == 1:
        return f"{stay}: all share one node"
    if n_nodes == grid.size:
        return f"{stay}: each has a node of its own"
    lines = [f"neighbours on one node: {_neighbours(grid, at)}", *_order_lines(grid, links)]
    if grid.ranks is None or list(grid.ranks) == sorted(grid.ranks):
        ways = "division of the grid among the nodes" if compares_all(grid, links) else "division into boxes"
        lines.append(f"  {stay}: no {ways} that was compared takes less time")
    return "\n".join(lines)


def _node_lines(grid: Grid, at: np.ndarray, numbers: list[int]) -> Iterator[str]:
    processes = processes_array(grid)
    for number in numbers[:_MOST_NODES]:
        there = at == number
        yield f"  node {number}: processes {spans(sorted(processes[there].tolist()))}, devices {_devices(there)}"
    if len(numbers) > _MOST_NODES:
        yield f"  and {count_text(len(numbers) - _MOST_NODES, 'node')} more"


def _devices(there: np.ndarray) -> str:
    """The box of the marked devices, or their coordinates where they fill none."""
    coords = np.argwhere(there)
    low, high = coords.min(axis=0).tolist(), (coords.max(axis=0) + 1).tolist()
    if np.prod(np.subtract(high, low)) == len(coords):
        return f"[{', '.join([f'{a}:{b}' if b - a > 1 else str(a) for a, b in zip(low, high)])}]"
    listed = ", ".join([f"({', '.join(map(str, row))})" for row in coords[:_MOST_LISTED].tolist()])
    return listed + (f" and {len(coords) - _MOST_LISTED} more" if len(coords) > _MOST_LISTED else "")


def _neighbours(grid: Grid, at: np.ndarray) -> str:
    parts = []
    for axis in range(grid.ndim):
        name = f"axis {axis}" if grid.axis_names is None else grid.axis_names[axis]
        same = np.diff(at, axis=axis) == 0
        parts.append(f"{name}: {int(same.sum()):,} of {count_text(same.size, 'pair')}")
    return "; ".join(parts)


def _order_lines(grid: Grid, links: LinkModel) -> Iterator[str]:
    """The halo step of this order; of that of processes by number, and of order="auto", where they differ."""
    yield f"halo step with faces of {bytes_text(FACE_BYTES)}: {_step_text(halo_step(grid, links))}"
    plain = Grid(grid.shape, ranks=sorted(grid.ranks) if grid.ranks else None)
    ordered = ordered_ranks(plain, links)
    if grid.ranks != plain.ranks:
        yield f"  with processes in the order of their numbers: {_step_text(halo_step(plain, links))}"
    if ordered is not None and ordered != grid.ranks:
        yield f'  with order="auto": {_step_text(halo_step(Grid(grid.shape, ranks=ordered), links))}'


def _step_text(step: HaloStep) -> str:
    return f"{seconds_text(step.seconds)}, {bytes_text(step.crossing)} leave the busiest node"
