"""The seconds of an exchange within a node: what its processes keep, pack and land.

Boxes of 16 KiB to 4 MiB pass through the sender's ring (`executor/exchanges/relayed_boxes.py`), in steps in which it
packs a slot, and waits; their receivers land them from there, or fold them with what they keep, which is only read
then.  Larger ones are read where they lie, smaller ones come with the meeting.  What a process keeps is copied besides,
step by step: cells that it has just packed are in its core's cache.  Where some only pack and others only land, each
waits for the other in every step; else both have something to do meanwhile.  Those of small grids are listed; of
others, the most of any process is taken for the same one.

Processes of a node may differ in what they do.  Where they share cores or the bus, one is faster while others rest: it
takes as long as all of them would if the work were divided, or as its own part takes it alone, whichever is longer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from spmd_grid.grid.box import Box
from spmd_grid.links.copies import copy_seconds, near_bandwidth, near_seconds, run_starts
from spmd_grid.links.model import LinkModel
from spmd_grid.links.sizes import MOST_RELAYED_BOX, RELAY_SLOT_BYTES
from spmd_grid.reshard.geometry.messages import Piece, Redistribution

__all__ = ["runs_of", "seconds_within_node"]

_LISTED = 64  # devices of a grid
_PACKED_FROM = 1 << 14  # bytes of boxes


class _Work(NamedTuple):
    """Bytes that a process of a node keeps, sends and receives.

    ``halved``: those of the first that are half of a copy, since a fold only reads them, or since they have just been
    packed.  ``runs``: of memory, of what it keeps, packs and lands, as `run_starts` counts them.
    """

    node: int
    kept: int
    sent: int
    received: int
    halved: int
    runs: float


def runs_of(box: Box, *arrays: Box) -> int:
    """The runs of memory in which ``box`` lies, as a part of each of ``arrays``.  Plans only.

    >>> whole, part = Box((0, 0, 0), (4, 5, 6)), Box((0, 2, 0), (3, 4, 6))
    >>> runs_of(whole, whole), runs_of(part, whole), runs_of(part, part)
    (1, 3, 1)
    """
    run = 1
    for dim in reversed(range(box.ndim)):
        run *= box.shape[dim]
        if any(array.shape[dim] != box.shape[dim] for array in arrays):
            break
    return box.size // max(run, 1)


def seconds_within_node(
    move: Redistribution, most: tuple[int, int], arrays: tuple[int, int], beside: int, processes: int, links: LinkModel
) -> float:
    """The seconds of ``move`` on nodes of ``processes``.

    Plans only.  ``most``: bytes that any process sends, and receives; ``arrays``: those of its arrays, before and
    after; ``beside``: those that a run touches besides.  All wait before boxes are taken, and their owners afterwards.
    """
    sent, received = most
    if max(move.source.grid.size, move.target.grid.size) <= _LISTED:
        works, largest = _listed(move, links)
    else:
        works, largest = [_Work(0, max(0, arrays[1] - received), sent, received, 0, 0)] * processes, sent
    packs = _PACKED_FROM < largest <= MOST_RELAYED_BOX
    steps = -(-max(work.sent for work in works) // RELAY_SLOT_BYTES) if packs else 0
    hands = 2 if any((work.sent > 0) != (work.received > 0) for work in works) else 1
    # The processes of a node share its caches.
    own = sum([min(sum(arrays), 2 * work.kept + work.sent + work.received) for work in works]) / len(works)
    touched = own + beside
    each = [
        copy_seconds(links, work.kept - work.halved / 2 + work.sent * packs, touched)
        + near_seconds(links, work.received, processes, touched)
        + work.runs * links.run_seconds
        for work in works
    ]
    by_node = [sum([s for work, s in zip(works, each) if work.node == node]) for node in {work.node for work in works}]
    alone = max(each) * near_bandwidth(links, processes) / links.node_bandwidth
    return (2 + hands * steps) * links.node_latency + max(alone, max(by_node) / processes)


def _listed(move: Redistribution, links: LinkModel) -> tuple[list[_Work], int]:
    """The bytes of all processes, and those of the largest box."""
    source, target, size = move.source.grid, move.target.grid, move.itemsize
    sent, received, again = (Counter[int]() for _ in range(3))
    runs: dict[int, float] = defaultdict(float)
    held = {source.process(device): move.source_box(source.multi_index(device)) for device in range(source.size)}
    kept: dict[int, Box] = {}

    def starts(box: Box, *arrays: Box) -> float:
        return run_starts(runs_of(box, *arrays), box.size * size)

    taken: list[Piece] = []
    for device in range(target.size):
        coords, process = target.multi_index(device), target.process(device)
        box, pieces, into = move.kept_box(coords), move.receives(coords), move.target_box(coords)
        if box is not None:
            kept[process] = box
            runs[process] += starts(box, held[process], into)
        received[process] = sum(piece.box.size for piece in pieces)
        runs[process] += sum([starts(piece.box, into) for piece in pieces])
        taken += pieces
    for piece in taken:
        sent[piece.process] += piece.box.size
        runs[piece.process] += starts(piece.box, held[piece.process])
        if piece.process in kept:
            again[piece.process] += kept[piece.process].intersect(piece.box).size
    processes = {*held, *received}
    own = {process: kept[process].size if process in kept else 0 for process in processes}
    largest = max([piece.box.size for piece in taken], default=0) * size
    packs = _PACKED_FROM < largest <= MOST_RELAYED_BOX
    works = []
    for p in sorted(processes):
        halved = min(own[p], again[p]) if packs else 0
        if move.hidden is not None:  # contributions that are not one run are packed, and read from there
            halved = own[p] if p in kept and runs_of(kept[p], held[p]) == 1 else 0
        works.append(_Work(links.node_of(p), own[p] * size, sent[p] * size, received[p] * size, halved * size, runs[p]))
    return works, largest
