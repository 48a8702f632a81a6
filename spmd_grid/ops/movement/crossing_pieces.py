"""Large arrays that cross between nodes in pieces: what each member does with them in a movement.

A piece of a box that several members of a node need crosses once: one of them receives it, each of them some, and the
others copy it from that one's memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.exchange.transfer.transfer import Transfer, run_of
from spmd_grid.grid.box import Box, run_boxes
from spmd_grid.kernels import BoxRow
from spmd_grid.kernels.ahead.slots import IN_MEMORY
from spmd_grid.ops.loops.work import copies_of
from spmd_grid.ops.movement.items import Item
from spmd_grid.ops.movement.pieces import Arrival, Leave, Memory, Pieces, Position, Step, Take
from spmd_grid.ops.movement.posted import Posted, copied_by
from spmd_grid.typing import Shape

__all__ = ["pieces_of_movement"]

# Large messages leave the cable idle at their ends; many small ones cost more than they hide, and so do packets that
# are half empty: a piece fills five where frames have 9,000 bytes, as in many clusters.  What takes a while to cross
# has fewer and larger pieces: each is announced and asked for.
_PIECE = 5 * (69 << 7)
_LONG, _PIECES_OF_LONG, _MOST_PIECE = 1 << 20, 8, 1 << 18


class _Piece(NamedTuple):
    """Cells ``start`` to ``stop`` of an item, from its source to ``receiver``; some ``readers`` need them."""

    order: tuple[int, int]
    item: Item
    receiver: int
    readers: tuple[int, ...]
    start: int
    stop: int


def _crossing(received: Sequence[Sequence[Item]], nodes: NodeMap, itemsize: int) -> list[_Piece]:
    """The pieces that cross, in the order in which they are sent; the same on all members.

    If the members of a node need as many items as there are members, or a multiple, each item goes to one of them, so
    that few pairs of processes exchange messages.  Otherwise the pieces of an item go to its members by turns.
    """
    readers: dict[tuple[int, Item], list[int]] = {}
    for member, items in enumerate(received):
        for item in items:
            node = nodes.node_of[member]
            if node != nodes.node_of[item.source] and item.box.size:
                readers.setdefault((node, item), []).append(member)
    pieces, alike = [], Counter(map(tuple, readers.values()))
    seen = Counter[tuple[int, ...]]()  # items, by those who need them
    for number, ((_, item), members) in enumerate(readers.items()):
        in_turns, turn = alike[tuple(members)] % len(members) != 0, seen[tuple(members)]
        seen[tuple(members)] += 1
        n_bytes = item.box.size * itemsize
        most = _PIECE if n_bytes < _LONG else min(n_bytes // _PIECES_OF_LONG, _MOST_PIECE)
        for i, (start, stop) in enumerate(_spans(item.box.size, -(-n_bytes // most))):
            if start < stop:
                receiver = members[(turn + in_turns * i) % len(members)]
                pieces.append(_Piece((i, number), item, receiver, tuple(members), start, stop))
    return sorted(pieces)


class _Group(NamedTuple):
    """The facts of a movement that all members know: shapes, the boxes that each needs, and the pieces that cross."""

    shapes: Sequence[Shape | None]
    received: Sequence[Sequence[Item]]
    dtype: np.dtype
    nodes: NodeMap
    pieces: Sequence[_Piece]
    copied: Sequence[Posted]  # by members: what they copy of their arrays for others of their node

    def near(self, member: int) -> tuple[int, ...]:
        """The members of the node of ``member``."""
        return self.nodes.nodes[self.nodes.node_of[member]]

    def bytes_read(self, member: int) -> int:
        """The bytes of the array of ``member`` if others of its node read it where it lies, else 0."""
        shape, others = self.shapes[member], [other for other in self.near(member) if other != member]
        is_read = any(item.source == member for other in others for item in self.received[other])
        if shape is None or not is_read or self.copied[member].n_bytes:
            return 0
        return Box.from_shape(shape).size * self.dtype.itemsize

    def memory(self, member: int) -> tuple[int, dict[_Piece, int]]:
        """The bytes of the memory of ``member``, and where the pieces that it packs or receives lie in it."""
        memory, positions = Memory(), {}
        memory.take(self.bytes_read(member))
        for piece in self.pieces:
            packs = piece.item.source == member and run_of(self.shapes[member] or (), [piece.item.box]) is None
            if packs or piece.receiver == member:
                positions[piece] = memory.take((piece.stop - piece.start) * self.dtype.itemsize)
        return memory.n_bytes, positions


def pieces_of_movement(
    transfer: Transfer,
    shapes: Sequence[Shape | None],
    received: Sequence[Sequence[Item]],
    dtype: np.dtype,
    nodes: NodeMap,
    constant: Sequence[BoxRow] = (),
) -> tuple[Pieces, int]:
    """The part of this member in ``transfer`` of arrays of these shapes; ``received``: what each member needs.  Local.

    The second result is the number of bytes of its array, or of a copy, that others of the node read.  ``constant``:
    rows that fill the result before anything else, from the array after those of all members.
    """
    me = transfer.rank
    crossing = _crossing(received, nodes, dtype.itemsize)
    # Who waits for readers of pieces in any case saves nothing by a copy.
    waiting = {piece.receiver for piece in crossing if len(piece.readers) > 1}
    copied = [Posted() if member in waiting else each for member, each in enumerate(copied_by(received, dtype, nodes))]
    group = _Group(shapes, received, dtype, nodes, crossing, copied)
    n_bytes, positions = group.memory(me)
    departures = [_departure(group, piece, positions.get(piece)) for piece in group.pieces if piece.item.source == me]
    mine = [piece for piece in group.pieces if piece.receiver == me]
    first = {piece.item.source: piece for piece in reversed(mine)}
    later = [piece for piece in mine if piece is not first[piece.item.source]]
    landing = {} if constant else _landing(group, transfer, later)
    steps = []
    for made, piece in enumerate(mine, 1):
        at = landing.get(piece, positions[piece])
        arrival = Arrival(piece.order, piece.item.source, at, _bytes(group, piece), piece in landing)
        steps.append(Step([arrival], made=made))
    takes = [Take(me, 0, Position(transfer.size, 0), constant)] if constant else []
    takes += _near_takes(group, transfer)
    takes += _far_takes(group, transfer, landing)
    lends = group.bytes_read(me) > 0 or any(len(piece.readers) > 1 for piece in mine)
    shape = shapes[me]
    copies = () if shape is None else copied[me].rows(shape, dtype)
    read_bytes = group.bytes_read(me) or copied[me].n_bytes
    opens = {leave.peer for step in departures for leave in step.leaves}
    return Pieces(steps, takes, n_bytes, len(steps), 0, (), lends, departures, copies, opens, set(first)), read_bytes


def _bytes(group: _Group, piece: _Piece) -> int:
    return (piece.stop - piece.start) * group.dtype.itemsize


def _departure(group: _Group, piece: _Piece, at: int | None) -> Step:
    """The step that sends a piece from where it lies, or packs it first, ``at`` a byte of the memory."""
    source, box, itemsize = piece.item.source, piece.item.box, group.dtype.itemsize
    shape = group.shapes[source]
    assert shape is not None  # it is sent
    if at is None:
        [start, _] = run_of(shape, [box]) or [0, 0]
        position = Position(source, (start + piece.start) * itemsize)
        return Step(leaves=[Leave(piece.receiver, position, _bytes(group, piece))])
    rows: list[BoxRow] = []
    for cells, n in _cells(box, piece.start, piece.stop):
        whole = Box.from_shape(cells.shape)
        rows += copies_of(shape, cells, cells.shape, whole, group.dtype, at + n * itemsize)
    return Step(packs=rows, leaves=[Leave(piece.receiver, Position(IN_MEMORY, at), _bytes(group, piece))])


def _cells(box: Box, start: int, stop: int) -> Iterator[tuple[Box, int]]:
    """Boxes of the cells from number ``start`` of ``box`` on, and how many of these cells are in those before."""
    n = 0
    for inner in run_boxes(box.shape, start, stop):
        yield inner.shift(box.starts), n
        n += inner.size


def _near_takes(group: _Group, transfer: Transfer) -> list[Take]:
    """The takes from arrays of this node, its own one first, in parts: who copies sends and asks for nothing else."""
    near = group.near(transfer.rank)
    takes = []
    for receive in sorted(transfer.receives, key=lambda each: each.peer != transfer.rank):
        shape, box, target_shape = group.shapes[receive.peer], receive.box, transfer.target_shape
        if receive.peer not in near or shape is None or target_shape is None:
            continue
        copied = group.copied[receive.peer].starts or {}
        if receive.peer != transfer.rank and receive.source_box in copied:
            cells = Box.from_shape(receive.source_box.shape)
            rows = copies_of(cells.shape, cells, target_shape, box, group.dtype, 0, copied[receive.source_box])
            takes.append(Take(receive.peer, 0, Position(receive.peer, 0), rows))
            continue
        spans = _spans(box.size, -(-box.size * group.dtype.itemsize // _MOST_PIECE))
        for part in [part for span in spans for part in run_boxes(box.shape, *span)]:
            source, target = part.shift(receive.source_box.starts), part.shift(box.starts)
            rows = copies_of(shape, source, target_shape, target, group.dtype)
            takes.append(Take(receive.peer, 0, Position(receive.peer, 0), rows))
    return takes


def _spans(size: int, count: int) -> list[tuple[int, int]]:
    """The first cell and the one after the last, of ``count`` parts of ``size`` cells."""
    cuts = [size * i // count for i in range(count + 1)]
    return list(zip(cuts, cuts[1:]))


def _landing(group: _Group, transfer: Transfer, pieces: Sequence[_Piece]) -> dict[_Piece, int]:
    """The bytes of the result where ``pieces`` land: of those received here that this member alone needs, in a row."""
    boxes_of: dict[Item, list[Box]] = {}
    for receive in transfer.receives:
        boxes_of.setdefault(Item(receive.peer, receive.source_box), []).append(receive.box)
    found = {}
    for piece in pieces:
        boxes = boxes_of[piece.item] if piece.readers == (transfer.rank,) else []
        if len(boxes) == 1 and transfer.target_shape is not None:
            run = run_of(transfer.target_shape, boxes)
            if run is not None:
                found[piece] = (run[0] + piece.start) * group.dtype.itemsize
    return found


def _far_takes(group: _Group, transfer: Transfer, landing: Mapping[_Piece, int]) -> list[Take]:
    """The takes of pieces that this member or another one of its node receives, in the order of these."""
    me, itemsize, near = transfer.rank, group.dtype.itemsize, group.near(transfer.rank)
    positions = {member: group.memory(member)[1] for member in near}
    made, takes = dict.fromkeys(near, 0), []
    for piece in group.pieces:
        if piece.receiver not in near:
            continue
        made[piece.receiver] += 1
        if piece in landing:
            continue
        for receive in transfer.receives if me in piece.readers else ():
            if Item(receive.peer, receive.source_box) != piece.item or transfer.target_shape is None:
                continue
            rows: list[BoxRow] = []
            for cells, n in _cells(receive.box, piece.start, piece.stop):
                whole = Box.from_shape(cells.shape)
                rows += copies_of(cells.shape, whole, transfer.target_shape, cells, group.dtype, 0, n * itemsize)
            position = Position(IN_MEMORY, positions[piece.receiver][piece])
            takes.append(Take(piece.receiver, made[piece.receiver], position, rows))
    return takes
