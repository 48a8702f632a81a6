"""The pieces that cross to one node, each cell once: several of the node's members that need it share it there.

A box that k members need is cut into k lanes.  Each member receives one lane, from the process that would have sent it
the whole box, and the others copy it on the node.  So all members receive, all replicas send, and no cell crosses
twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from spmd_grid.grid.box import Box
from spmd_grid.reshard.geometry.pieces import Piece

__all__ = ["NodePieces", "Shared", "pieces_to_node"]

# A common box of fewer bytes is sent to each of its receivers: waiting for one another takes longer than the bytes.
_SHARED_BYTES = 1 << 12

# Boxes of fewer bytes are one lane: halves of them take as long to begin as to send.
_LANE_BYTES = 1 << 13

# Of more boxes than these, only equal ones are shared: all pairs of boxes are compared for common cells.
_MOST_COMPARED = 128

_Wants: TypeAlias = tuple[tuple[int, int], ...]  # the receivers of a box, each with its sender


class Shared(NamedTuple):
    """``box`` goes from ``owner``, which holds or has received it, to ``taker``, of the same node."""

    owner: int
    taker: int
    box: Box


class NodePieces(NamedTuple):
    """The pieces that each process of a node receives from other nodes, and the boxes that are copied there then.

    ``here``: boxes that processes of the node hold as their source, and give to others in place of other nodes.
    """

    crossing: dict[int, list[Piece]]
    shared: list[Shared]
    here: list[Shared]


def pieces_to_node(wanted: Mapping[int, Sequence[Piece]], held: Mapping[int, Box], itemsize: int) -> NodePieces:
    """The pieces that cross to a node of which process r needs the pieces ``wanted[r]`` of other nodes.

    Local.  ``held``: the boxes of the source that processes of the node hold.

    >>> box = Box((0,), (4096,))
    >>> found = pieces_to_node({2: [Piece(0, box)], 3: [Piece(1, box)]}, {}, itemsize=8)
    >>> [(process, piece.process, str(piece.box)) for process, pieces in found.crossing.items() for piece in pieces]
    [(2, 0, '[0:2048]'), (3, 1, '[2048:4096]')]
    >>> [(owner, taker, str(lane)) for owner, taker, lane in found.shared]
    [(2, 3, '[0:2048]'), (3, 2, '[2048:4096]')]
    """
    least = max(-(-_SHARED_BYTES // itemsize), 1)
    found = NodePieces({process: [] for process in wanted}, [], [])
    missing = {process: list(_not_held(process, pieces, held, found.here)) for process, pieces in wanted.items()}
    for number, (box, wants) in enumerate(_common_boxes(missing, least)):
        if len(wants) == 1 or box.size < least:
            for receiver, sender in wants:
                found.crossing[receiver].append(Piece(sender, box))
            continue
        lanes = _cut(box, len(wants)) if box.size * itemsize >= _LANE_BYTES else [box]
        for i, lane in enumerate(lanes):
            owner, sender = wants[(number + i) % len(wants)]
            found.crossing[owner].append(Piece(sender, lane))
            found.shared.extend([Shared(owner, taker, lane) for taker, _ in wants if taker != owner])
    return found


def _not_held(receiver: int, pieces: Sequence[Piece], held: Mapping[int, Box], here: list[Shared]) -> Iterator[Piece]:
    """The parts of ``pieces`` that no process of the node holds; the others are added to ``here``.

    Successive receivers ask different holders first.
    """
    holders = list(held)
    for piece in pieces:
        rest = [piece.box]
        for i in range(len(holders)):
            holder = holders[(i + receiver) % len(holders)]
            common = [box.intersect(held[holder]) for box in rest]
            here.extend([Shared(holder, receiver, box) for box in common if not box.is_empty])
            rest = [left for box in rest for left in box.subtract(held[holder])]
        for box in rest:
            yield Piece(piece.process, box)


def _common_boxes(wanted: Mapping[int, Sequence[Piece]], least: int) -> Iterable[tuple[Box, _Wants]]:
    """Boxes with all that need them: each receiver's pieces, cut where ``least`` cells or more are needed by others."""
    equal: dict[Box, _Wants] = {}
    for receiver, pieces in wanted.items():
        for piece in pieces:
            equal[piece.box] = (*equal.get(piece.box, ()), (receiver, piece.process))
    if len(equal) > _MOST_COMPARED or all(len(pieces) == len(equal) for pieces in wanted.values()):
        return equal.items()
    found: list[tuple[Box, _Wants]] = []
    for box, wants in equal.items():
        rest, parts = [box], []
        for other, others in found:
            common = [piece.intersect(other) for piece in rest]
            if sum(each.size for each in common if not each.is_empty) < least:
                parts.append((other, others))
                continue
            rest = [left for piece in rest for left in piece.subtract(other)]
            theirs = [other]
            for each in common:
                if not each.is_empty:
                    parts.append((each, others + wants))
                    theirs = [left for piece in theirs for left in piece.subtract(each)]
            parts += [(piece, others) for piece in theirs]
        found = parts + [(piece, wants) for piece in rest]
    return found


def _cut(box: Box, n: int) -> list[Box]:
    """``box`` in ``n`` parts of about equal size, along the first dimension that is long enough, else the longest."""
    if not box.shape:
        return [box]
    long_enough = [dim for dim, extent in enumerate(box.shape) if extent >= n]
    dim = long_enough[0] if long_enough else max(range(box.ndim), key=lambda each: box.shape[each])
    start, extent = box.starts[dim], box.shape[dim]
    found = []
    for i in range(n):
        starts, stops = list(box.starts), list(box.stops)
        starts[dim], stops[dim] = start + extent * i // n, start + extent * (i + 1) // n
        found.append(Box(tuple(starts), tuple(stops)))
    return [each for each in found if not each.is_empty]
