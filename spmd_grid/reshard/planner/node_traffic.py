"""The bytes of an exchange that stay within nodes, and those that cross from node to node, of the busiest.

If nodes have several processes, the messages of a few nodes are listed: of all devices of a small grid, else of some on
the nodes of the first and the last device and of two between.  So it takes no longer for a million devices.  Between
few nodes, what several processes of a node need crosses to it once (`reshard/geometry/node_pieces.py`), and they copy
it from one another then: of small grids those pieces are listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from spmd_grid.grid.device_grid import Grid
from spmd_grid.links.costs import each_way
from spmd_grid.links.model import LinkModel
from spmd_grid.links.nodes import node_array
from spmd_grid.links.sizes import FEW_NODES, FEW_SHARING
from spmd_grid.reshard.geometry.messages import Piece, Redistribution
from spmd_grid.reshard.geometry.node_pieces import pieces_to_node
from spmd_grid.typing import MultiIndex

__all__ = ["NodeTraffic", "crosses_once", "node_traffic", "devices_of_nodes", "is_listed", "probes"]

_ALL_DEVICES = 64  # of grids up to this size, all messages are listed
_MOST_DEVICES, _MOST_PIECES = 16, 1 << 14  # of a node, and of all that are listed together


class NodeTraffic(NamedTuple):
    """Bytes to or from one process, the larger: from its own node, and from others; and the pace of the latter.

    ``load``, ``load_of_node``: bytes of one process, and of a node, that would take as long with equally many bytes the
    other way (`each_way`).  ``messages``: those of one process to or from other nodes.
    """

    near: int
    far: int
    load: float
    load_of_node: float
    messages: int


def probes(grid: Grid) -> Iterator[MultiIndex]:
    """The first and the last device, and two off all diagonals: devices there often are their own partners."""
    parts = grid.ndim + 1
    yield tuple([0 for _ in grid.shape])
    yield tuple([size * (axis + 1) // parts for axis, size in enumerate(grid.shape)])
    yield tuple([size * (grid.ndim - axis) // parts for axis, size in enumerate(grid.shape)])
    yield tuple([size - 1 for size in grid.shape])


def node_traffic(move: Redistribution, links: LinkModel, received: int, sent: int, messages: int) -> NodeTraffic:
    """The bytes of ``move`` by where they go.

    Plans only.  ``received``, ``sent``: the most bytes of any process; ``messages``: the most of a few.
    """
    if not links.shares_nodes or links.axes:  # single axes have a pace of their own, which nothing shares
        load = each_way(links.process_one_way, received, sent)
        return NodeTraffic(0, max(received, sent), load, load, messages)
    if is_listed(move, links):
        return _listed_traffic(move, links)
    into = _of_side(move.target.grid, move.receives, move.itemsize, links, received, messages)
    out_of = _of_side(move.source.grid, move.sends, move.itemsize, links, sent, messages)
    return NodeTraffic(
        max(into.near, out_of.near),
        max(into.far, out_of.far),
        each_way(links.process_one_way, into.far, out_of.far),
        each_way(links.one_way, into.far_of_node, out_of.far_of_node),
        max(into.messages, out_of.messages),
    )


def crosses_once(move: Redistribution, links: LinkModel) -> bool:
    """Whether what several processes of a node need crosses to it once: as the executor has it.  Plans only."""
    if not links.shares_nodes or links.axes or move.source.grid.size + move.target.grid.size > 2 * FEW_SHARING:
        return False
    processes = _processes(move)
    nodes = {links.node_of(process) for process in processes}
    return len(nodes) < len(processes) <= FEW_SHARING and len(nodes) <= FEW_NODES


def is_listed(move: Redistribution, links: LinkModel) -> bool:
    """Whether the pieces that cross once are listed.  Plans only."""
    return crosses_once(move, links) and len(_processes(move)) <= _ALL_DEVICES


def _processes(move: Redistribution) -> set[int]:
    return {process for each in (move.source.grid, move.target.grid) for process in each.ranks or range(each.size)}


def _listed_traffic(move: Redistribution, links: LinkModel) -> NodeTraffic:
    """The bytes of a move between few nodes: what crosses, and what is copied on the nodes before and after that."""
    source, target = move.source.grid, move.target.grid
    received, sent, near, messages = Counter[int](), Counter[int](), Counter[int](), Counter[int]()
    into, out_of = Counter[int](), Counter[int]()  # by node
    by_node: dict[int, list[int]] = {}
    for process in sorted(_processes(move)):
        by_node.setdefault(links.node_of(process), []).append(process)
    for node, members in by_node.items():
        wanted: dict[int, list[Piece]] = {}
        held = {}
        for process in members:
            there, here = target.coords_of_process(process), source.coords_of_process(process)
            pieces = [] if there is None else move.receives(there)
            near[process] += sum(piece.box.size for piece in pieces if links.node_of(piece.process) == node)
            wanted[process] = [piece for piece in pieces if links.node_of(piece.process) != node]
            if here is not None:
                held[process] = move.source_box(here)
        found = pieces_to_node(wanted, held, move.itemsize)
        for each in (*found.shared, *found.here):
            near[each.taker] += each.box.size
        for process, crossing in found.crossing.items():
            for piece in crossing:
                received[process] += piece.box.size
                sent[piece.process] += piece.box.size
                out_of[links.node_of(piece.process)] += piece.box.size
            messages[process] += len({piece.process for piece in crossing})
            into[node] += sum(piece.box.size for piece in crossing)
    far = max([*received.values(), *sent.values()], default=0)
    load, load_of_node = (
        max([each_way(one_way, gets[each], gives[each]) for each in {*gets, *gives}], default=0.0)
        for one_way, gets, gives in ((links.process_one_way, received, sent), (links.one_way, into, out_of))
    )
    most_near, most_messages = (max(each.values(), default=0) for each in (near, messages))
    size = move.itemsize
    return NodeTraffic(most_near * size, far * size, load * size, load_of_node * size, most_messages)


class _Side(NamedTuple):
    """Bytes that the processes of one grid receive, or send: as in `NodeTraffic`, but one way."""

    near: int
    far: int
    far_of_node: int
    messages: int


def _of_side(
    grid: Grid,
    pieces_of: Callable[[MultiIndex], Sequence[Piece]],
    itemsize: int,
    links: LinkModel,
    most: int,
    messages: int,
) -> _Side:
    """The bytes that processes of one grid receive, or send; ``most`` of any process."""
    listed = [
        (len(devices), _some(devices, max(1, _MOST_PIECES // max(1, messages))))
        for devices in devices_of_nodes(grid, links)
    ]
    if messages > _MOST_PIECES:
        on_node = max(n for n, _ in listed)
        far = most * (grid.size - on_node) // max(1, grid.size - 1)
        return _Side(most - far, far, far * on_node, messages)
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
    return _Side(near * itemsize, far * itemsize, far_of_node * itemsize, far_messages)


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
