"""Cut boxes into chunks, to be sent one after another where memory is short; and bound what a process holds of them.

A chunk is the same fraction of every box, so every process holds the same fraction of its messages at any time.  Both
ends of a message cut the same box, so they agree on its pieces without a message.

Contributions to a partial value differ in the hidden dimension alone: since each dimension is cut by itself, the boxes
that a device gets of one contribution are those that it gets of every other.  Pieces leave the hidden dimension out.
So a chunk has all contributions to its cells, and these can be folded while others are under way.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from spmd_grid.grid.blocks import part_interval
from spmd_grid.grid.box import Box, multi_index
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.volume.demand import longest, most_partners
from spmd_grid.reshard.volume.totals import exchange_totals
from spmd_grid.typing import MultiIndex

__all__ = [
    "Contributions",
    "without_hidden",
    "contributions",
    "held_at_once",
    "most_held",
    "chunk_bytes",
    "chunks_for",
    "chunk_pieces",
]

# By box of cells, in global coordinates: (process, row among the contributions that a device combines).
Contributions = dict[Box, list[tuple[int, int]]]

UNDER_WAY = 2  # the number of chunks under way at a time
_MOST_CHUNKS = 1 << 16


def chunk_bytes(n_bytes: int, chunks: int, cells: int = 0) -> int:
    """The most bytes of messages at a time where a process sends and receives ``n_bytes`` in ``chunks``.

    Local.  Two chunks are under way.  A piece of a box has at most twice its even part, since lines are not cut, and
    a chunk has at most two pieces; but at least a cell, of which there are ``cells`` bytes over all boxes.

    >>> chunk_bytes(1000, 1), chunk_bytes(1000, 20), chunk_bytes(1000, 20, 8)
    (1000, 400, 416)
    """
    return n_bytes if chunks == 1 else min(n_bytes, -(-4 * UNDER_WAY * n_bytes // chunks) + UNDER_WAY * cells)


def chunks_for(n_bytes: int, limit: int, cells: int = 0) -> int | None:
    """The number of chunks that keeps messages of ``n_bytes`` within ``limit`` bytes; None where no number does.

    Local.  ``cells``: as for `chunk_bytes`.
    """
    if n_bytes <= limit:
        return 1
    limit -= UNDER_WAY * cells
    chunks = -(-4 * UNDER_WAY * n_bytes // limit) if limit > 0 else _MOST_CHUNKS + 1
    return chunks if chunks <= _MOST_CHUNKS else None


def chunk_pieces(box: Box, chunk: int, chunks: int) -> Iterator[Box]:
    """The pieces of ``box`` in ``chunk``: parts of its longest dimension, and of others if that one is too short.

    Local.

    >>> [[str(piece) for piece in chunk_pieces(Box((0, 5), (2, 9)), chunk, 4)] for chunk in (0, 3)]
    [['[0:2, 5:6]'], ['[0:2, 8:9]']]
    """
    counts, left = [1] * box.ndim, chunks
    for dim in sorted(range(box.ndim), key=lambda d: -box.shape[d]):
        counts[dim] = min(left, box.shape[dim])
        left = -(-left // counts[dim])
    total = prod(counts)
    for number in range(chunk * total // chunks, (chunk + 1) * total // chunks):
        parts = [
            part_interval(extent, count, part, "balanced")
            for extent, count, part in zip(box.shape, counts, multi_index(number, counts), strict=True)
        ]
        cut = Box(tuple([low for low, _ in parts]), tuple([high for _, high in parts])).shift(box.starts)
        if not cut.is_empty:
            yield cut


def without_hidden(move: Redistribution, box: Box) -> Box:
    """``box`` of an exchange without the hidden dimension.  Local."""
    return box if move.hidden is None else Box(box.starts[1:], box.stops[1:])


def contributions(move: Redistribution, target: MultiIndex) -> tuple[int, Contributions]:
    """(the number of contributions that the device at ``target`` combines, the boxes of each, its own included).

    Local.  One contribution or none is not combined: then its own boxes are left out.
    """
    wanted, kept, grid = move.target_box(target), move.kept_box(target), move.target.grid
    rows = 1 if move.hidden is None else wanted.stops[0] - wanted.starts[0]
    found: Contributions = {}
    for process, box in move.receives(target):
        found.setdefault(without_hidden(move, box), []).append(
            (process, box.starts[0] - wanted.starts[0] if rows > 1 else 0)
        )
    if rows > 1 and kept is not None:
        own = grid.process(grid.linear_index(target)), kept.starts[0] - wanted.starts[0]
        for cells, given in found.items():
            if without_hidden(move, kept).contains(cells):
                given.append(own)
    return rows, found


def held_at_once(move: Redistribution, source: MultiIndex | None, target: MultiIndex | None) -> tuple[int, int]:
    """(cells, boxes) that a process, at these coordinates of either grid, sends, receives, and stacks to combine them.

    Local.  A chunk holds a fraction of these.
    """
    boxes = [] if source is None else [piece.box.size for piece in move.sends(source)]
    if target is not None:
        boxes += [cells.size for cells, given in contributions(move, target)[1].items() for _ in given]
    return sum(boxes), len(boxes)


def most_held(move: Redistribution) -> tuple[int, int]:
    """Upper bounds of `held_at_once` over all processes.  Local."""
    totals, (gets, sends) = exchange_totals(move), most_partners(move)
    received, sent = totals.most_received // move.itemsize, totals.most_sent // move.itemsize
    if move.hidden is not None and longest(move.target_cuts[0]) > 1:
        received = max(received, prod(longest(cut) for cut in move.target_cuts))
    return received + sent, min(gets, received) + min(sends, sent)
