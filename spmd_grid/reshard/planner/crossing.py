"""The bytes of an exchange that stay within nodes, and those that cross from node to node, of the busiest.

Where nodes have several processes, the messages of a few are listed: of all devices of a small grid, else of some on
the nodes of the first and the last device and of two between.  So it takes no longer for a million devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from spmd_grid.grid.device_grid import Grid
from spmd_grid.links.model import LinkModel
from spmd_grid.links.nodes import node_array
from spmd_grid.reshard.geometry.messages import Piece, Redistribution
from spmd_grid.typing import MultiIndex

__all__ = ["Crossing", "crossing_of", "devices_of_nodes", "probes"]

_ALL_DEVICES = 64  # of grids up to this size, all messages are listed
_MOST_DEVICES, _MOST_PIECES = 16, 1 << 14  # of a node, and of all that are listed together


class Crossing(NamedTuple):
    """Bytes to or from one process, the larger: from its own node, and from others; and the latter of a whole node.

    ``messages``: those of one process to or from other nodes.
    """

    near: int
    far: int
    far_of_node: int
    messages: int


def probes(grid: Grid) -> Iterator[MultiIndex]:
    """The first and the last device, and two off all diagonals: devices there often are their own partners."""
    parts = grid.ndim + 1
    yield tuple([0 for _ in grid.shape])
    yield tuple([size * (axis + 1) // parts for axis, size in enumerate(grid.shape)])
    yield tuple([size * (grid.ndim - axis) // parts for axis, size in enumerate(grid.shape)])
    yield tuple([size - 1 for size in grid.shape])


def crossing_of(move: Redistribution, links: LinkModel, received: int, sent: int, messages: int) -> Crossing:
    """The bytes of ``move`` by where they go.

    Plans only.  ``received``, ``sent``: the most bytes of any process; ``messages``: the most of a few.
    """
    most = max(received, sent)
    if not links.shares_nodes or links.axes:  # single axes have a pace of their own, which nothing shares
        return Crossing(0, most, most, messages)
    found = [
        _of_side(move.target.grid, move.receives, move.itemsize, links, received, messages),
        _of_side(move.source.grid, move.sends, move.itemsize, links, sent, messages),
    ]
    return Crossing(*[max(values) for values in zip(*found, strict=True)])


def _of_side(
    grid: Grid,
    pieces_of: Callable[[MultiIndex], Sequence[Piece]],
    itemsize: int,
    links: LinkModel,
    most: int,
    messages: int,
) -> Crossing:
    """The bytes that processes of one grid receive, or send; ``most`` of any process."""
    listed = [
        (len(devices), _some(devices, max(1, _MOST_PIECES // max(1, messages))))
        for devices in devices_of_nodes(grid, links)
    ]
    if messages > _MOST_PIECES:
        on_node = max(n for n, _ in listed)
        far = most * (grid.size - on_node) // max(1, grid.size - 1)
        return Crossing(most - far, far, far * on_node, messages)
    near = far = far_of_node = far_messages = 0
    for on_node, devices in listed:
        together, shown = 0, 0
        for device in devices:
            node = links.node_of(grid.process(device))
            own = beyond = count = 0
            for piece in pieces_of(grid.multi_index(device)):
                if links.node_of(piece.process) == node:
                    own += piece.box.size
                else:
                    beyond += piece.box.size
                    count += 1
            near, far, far_messages = max(near, own), max(far, beyond), max(far_messages, count)
            together += beyond
            shown += 1
        far_of_node = max(far_of_node, together * on_node // shown)
    return Crossing(near * itemsize, far * itemsize, far_of_node * itemsize, far_messages)


def devices_of_nodes(grid: Grid, links: LinkModel) -> Iterator[Sequence[int]]:
    """The devices of each node that is looked at: of all nodes of a small grid, else of a few.  Plans only."""
    if grid.ranks is None and links.nodes is None:
        size = links.node_size
        if grid.size <= _ALL_DEVICES:
            firsts: Iterable[int] = range(0, grid.size, size)
        else:
            firsts = sorted({grid.linear_index(coords) // size * size for coords in probes(grid)})
        for first in firsts:
            yield range(first, min(first + size, grid.size))
        return
    at = node_array(grid, links.node_size, links.nodes).ravel()
    chosen = np.unique(at if grid.size <= _ALL_DEVICES else [at[grid.linear_index(c)] for c in probes(grid)])
    for node in chosen:
        yield np.flatnonzero(at == node).tolist()


def _some(devices: Sequence[int], most: int) -> Iterable[int]:
    """Some of ``devices``, evenly spread."""
    n = min(len(devices), most, _MOST_DEVICES)
    return [devices[i * len(devices) // n] for i in range(n)]
