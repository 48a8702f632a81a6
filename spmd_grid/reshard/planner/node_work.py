"""The seconds of an exchange within a node: what its processes keep, pack and land.

Boxes of 16 KiB to 4 MiB, and larger ones that are folded, pass through the sender's ring
(`executor/exchanges/relayed_boxes.py`), in steps in which it packs a slot, and waits; their receivers land them from
there, or fold them with what they keep, which is only read then, and packed before where it is not one run of memory.
Those that all get the fold of whole arrays fold a slice each, and pack it for the others.  Other large boxes are read
where they lie, and their owners wait until they have been read; smaller ones come with the meeting.  What a process
keeps is copied besides, step by step.  A core's cache has what was packed last: where each process has a core, cells
that it packed itself, and keeps; where processes share one, by a measured model, those that the others packed, and it
lands.  Where some only pack and others only land, each waits for the other in every step but the first, and who packs
runs ahead by a ring, so that the cache has lost them; else both have something to do meanwhile.  On a shared core such
a wait takes as long as a meeting: the one hands the core to the other.
Those of small grids are listed; of others, the most of any process is taken for the same one.

A run touches the lines of its arrays in which cells of its boxes lie, and the ring besides.

Processes of a node may differ in what they do.  Where they share cores or the bus, one is faster while others rest: it
takes as long as all of them would if the work were divided, or as its own part takes it alone, whichever is longer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from spmd_grid.grid.box import Box
from spmd_grid.links.copies import copy_seconds, in_runs, near_bandwidth, near_seconds, run_seconds
from spmd_grid.links.model import LinkModel
from spmd_grid.links.sizes import MOST_RELAYED_BOX, RELAY_RING_BYTES, RELAY_SLOT_BYTES, most_folded_whole
from spmd_grid.reshard.geometry.messages import Piece, Redistribution

__all__ = ["runs_of", "seconds_within_node", "touched_bytes"]

_LISTED = 64  # devices of a grid
_PACKED_FROM = 1 << 14  # bytes of boxes
_LINE = 64  # bytes of memory that come into a cache together


class _Work(NamedTuple):
    """Bytes that a process of a node copies in its own memory, packs into its ring and takes from others', and those of
    its arrays that it touches.

    ``idle``: whether it only gives, or only takes.  ``in_runs``: of what it keeps, packs and lands, those that are
    copied in short runs of memory.
    """

    node: int
    copied: float
    packed: int
    received: int
    touched: int
    idle: bool
    in_runs: int


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


def touched_bytes(boxes: Sequence[Box], array: Box, itemsize: int) -> int:
    """The bytes of the lines in which cells of ``boxes`` lie, parts of ``array``.  Plans only.

    Each run of memory begins and ends in a line of its own, but all lie between the first cell and the last one.

    >>> whole, rows, columns = Box((0, 0), (64, 64)), Box((0, 0), (32, 64)), Box((0, 0), (64, 32))
    >>> [touched_bytes([box], whole, 8) for box in (rows, columns, Box((0, 0), (64, 1)))], touched_bytes([], whole, 8)
    ([16384, 20480, 4608], 0)
    """
    firsts, lasts, lines = [], [], 0
    for box in boxes:
        lines += box.size * itemsize + runs_of(box, array) * _LINE
        first = last = 0
        for start, stop, origin, extent in zip(box.starts, box.stops, array.starts, array.shape, strict=True):
            first, last = first * extent + start - origin, last * extent + stop - 1 - origin
        firsts.append(first)
        lasts.append(last)
    return min(lines, (max(lasts) + 1 - min(firsts)) * itemsize) if boxes else 0


def seconds_within_node(
    move: Redistribution,
    most: tuple[int, int],
    arrays: tuple[int, int],
    beside: float,
    processes: int,
    links: LinkModel,
) -> float:
    """The seconds of ``move`` on nodes of ``processes``.

    Plans only.  ``most``: bytes that any process sends, and receives; ``arrays``: those of its arrays, before and
    after; ``beside``: those that a run touches besides.  All wait before boxes are taken, and their owners afterwards.
    """
    sent, received = most
    folds = move.hidden is not None
    if max(move.source.grid.size, move.target.grid.size) <= _LISTED:
        works, largest = _listed(move, links)
    else:
        packed = sent if _is_packed(sent, folds) else 0
        copied = max(0, arrays[1] - received) + packed
        works, largest = [_Work(0, copied, packed, received, sum(arrays), False, 0)] * processes, sent
    steps = -(-max(work.packed for work in works) // RELAY_SLOT_BYTES)
    waits = steps + (largest > MOST_RELAYED_BOX and not folds)
    handed_on = max(0, steps - 1) * any(work.idle for work in works)
    # The processes of a node share its caches.
    touched = beside + sum([work.touched + min(work.packed, RELAY_RING_BYTES) for work in works]) / len(works)
    each = [
        copy_seconds(links, work.copied, touched)
        + near_seconds(links, work.received, processes, touched)
        + run_seconds(links, work.in_runs, touched)
        for work in works
    ]
    by_node = [sum([s for work, s in zip(works, each) if work.node == node]) for node in {work.node for work in works}]
    alone = max(each) * near_bandwidth(links, processes) / links.node_bandwidth
    wait = links.node_latency if _share_cores(links) else links.step
    return links.node_latency + waits * links.step + handed_on * wait + max(alone, max(by_node) / processes)


def _share_cores(links: LinkModel) -> bool:
    """Whether processes share cores, by a measured model."""
    return bool(links.copies) and not links.own_cores


def _listed(move: Redistribution, links: LinkModel) -> tuple[list[_Work], int]:
    """The bytes of all processes, and those of the largest box."""
    source, target, size = move.source.grid, move.target.grid, move.itemsize
    sent, received, again = (Counter[int]() for _ in range(3))
    runs = Counter[int]()
    given: dict[int, list[Box]] = defaultdict(list)
    touched = Counter[int]()
    held = {source.process(device): move.source_box(source.multi_index(device)) for device in range(source.size)}
    kept: dict[int, Box] = {}

    def cut(box: Box, *arrays: Box) -> int:
        return in_runs(runs_of(box, *arrays), box.size * size)

    taken: list[Piece] = []
    for device in range(target.size):
        coords, process = target.multi_index(device), target.process(device)
        box, pieces, into = move.kept_box(coords), move.receives(coords), move.target_box(coords)
        if box is not None:
            kept[process] = box
            given[process].append(box)
            runs[process] += cut(box, held[process], into)
        received[process] = sum(piece.box.size for piece in pieces)
        runs[process] += sum([cut(piece.box, into) for piece in pieces])
        folded = 1 if move.hidden is None else max(1, into.shape[0])  # the number of contributions to each cell
        boxes = [piece.box for piece in pieces] + ([] if box is None else [box])
        touched[process] += min(into.size * size // folded, touched_bytes(boxes, into, size))
        taken += pieces
    for piece in taken:
        sent[piece.process] += piece.box.size
        given[piece.process].append(piece.box)
        runs[piece.process] += cut(piece.box, held[piece.process])
        if piece.process in kept:
            again[piece.process] += kept[piece.process].intersect(piece.box).size
    for process, boxes in given.items():
        touched[process] += touched_bytes(boxes, held[process], size)
    largest = max([piece.box.size for piece in taken], default=0) * size
    folds = move.hidden is not None
    packs = _is_packed(largest, folds)
    in_ring = folds and any(runs_of(box, held[p]) > 1 for p, box in kept.items())
    contributions = move.target_box(target.multi_index(0)).shape[0] if folds and packs else 0
    share_cores, works = _share_cores(links), []
    for p in sorted({*held, *received}):
        own = kept[p].size if p in kept else 0
        moved = _Moved(own, sent[p], received[p])
        whole = own and own == held[p].size and moved == _Moved(own, *[(contributions - 1) * own] * 2)
        if contributions > 1 and whole:
            moved = _folded_alike(own, contributions, own * size)
        packed = (moved.sent + own * in_ring) * packs
        idle = (sent[p] > 0) != (received[p] > 0)
        cached = packs and not idle and not folds
        twice = moved.own if folds else min(own, again[p]) * (cached and not share_cores)
        landed = moved.received * (0.5 if cached and share_cores else 1)
        each = (moved.own - twice / 2 + packed) * size, int(packed * size), int(landed * size), touched[p]
        works.append(_Work(links.node_of(p), *each, idle, runs[p]))
    return works, largest


class _Moved(NamedTuple):
    """The cells that a process reads of its own array, packs for others, and takes from their rings."""

    own: float
    sent: float
    received: float


def _folded_alike(cells: int, members: int, n_bytes: int) -> _Moved:
    """The cells that each of ``members`` moves if all get the same fold, of whole arrays or of a slice each.

    Whole arrays are folded where that takes less time than two more rounds of words, whatever the model has these take:
    so they count no more than slices.
    """
    whole = _Moved(cells, cells, (members - 1) * cells)
    slices = _Moved(cells / members, cells, 2 * cells * (members - 1) / members)
    return whole if n_bytes <= most_folded_whole(members) and whole.received <= slices.received else slices


def _is_packed(largest: int, folds: bool) -> bool:
    """Whether boxes, the largest of this size, pass through rings."""
    return _PACKED_FROM < largest and (folds or largest <= MOST_RELAYED_BOX)
