"""The seconds of an exchange within a node: what its processes keep, pack and land.

Boxes of 16 KiB to 4 MiB pass through the sender's ring (`executor/exchanges/relayed_boxes.py`): it packs them, and
their receivers land them from there, or fold them with what they keep.  Larger ones are read where they lie, smaller
ones come with the meeting.  What a process keeps is copied besides.  Those of small grids are listed; of others, the
most of any process is taken for the same one.

Processes of a node may differ in what they do.  Where they share cores or the bus, one is faster while others rest: it
takes as long as all of them would if the work were divided, or as its own part takes it alone, whichever is longer.
"""

from __future__ import annotations

from typing import NamedTuple

from spmd_grid.links.copies import copy_seconds, near_bandwidth, near_seconds
from spmd_grid.links.model import LinkModel
from spmd_grid.reshard.geometry.messages import Redistribution

__all__ = ["seconds_within_node"]

_LISTED = 64  # devices of a grid
_PACKED_FROM, _LARGEST_PACKED, _RING_BYTES = 1 << 14, 1 << 22, 1 << 20


class _Work(NamedTuple):
    """Bytes that a process of a node keeps, sends and receives."""

    node: int
    kept: int
    sent: int
    received: int


def seconds_within_node(
    move: Redistribution, most: tuple[int, int], arrays: tuple[int, int], processes: int, links: LinkModel
) -> float:
    """The seconds of ``move`` on nodes of ``processes``.

    Plans only.  ``most``: bytes that any process sends, and receives; ``arrays``: those of its arrays, before and
    after.  All wait before boxes are taken, and their owners afterwards.
    """
    sent, received = most
    if max(move.source.grid.size, move.target.grid.size) <= _LISTED:
        works, largest = _listed(move, links)
    else:
        works, largest = [_Work(0, max(0, arrays[1] - received), sent, received)] * processes, sent
    packs = _PACKED_FROM < largest <= _LARGEST_PACKED
    rings = -(-max(work.sent for work in works) // _RING_BYTES) if packs else 0
    # The processes of a node share its caches.
    touched = sum([min(sum(arrays), 2 * work.kept + work.sent + work.received) for work in works]) / len(works)
    each = [
        copy_seconds(links, work.kept + work.sent * packs, touched)
        + near_seconds(links, work.received, processes, touched)
        for work in works
    ]
    by_node = [sum([s for work, s in zip(works, each) if work.node == node]) for node in {work.node for work in works}]
    alone = max(each) * near_bandwidth(links, processes) / links.node_bandwidth
    return (2 + rings) * links.node_latency + max(alone, max(by_node) / processes)


def _listed(move: Redistribution, links: LinkModel) -> tuple[list[_Work], int]:
    """The bytes of all processes, and those of the largest box."""
    source, target, size = move.source.grid, move.target.grid, move.itemsize
    sent: dict[int, int] = {}
    kept: dict[int, int] = {}
    received: dict[int, int] = {}
    largest = 0
    for device in range(target.size):
        coords, process = target.multi_index(device), target.process(device)
        box = move.kept_box(coords)
        kept[process] = 0 if box is None else box.size
        pieces = move.receives(coords)
        received[process] = sum(piece.box.size for piece in pieces)
        for piece in pieces:
            sent[piece.process] = sent.get(piece.process, 0) + piece.box.size
            largest = max(largest, piece.box.size)
    works = [
        _Work(links.node_of(process), *[each.get(process, 0) * size for each in (kept, sent, received)])
        for process in {*(source.process(device) for device in range(source.size)), *kept}
    ]
    return works, largest * size
