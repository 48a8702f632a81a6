"""List the boxes that a device receives: parts of the source that meet its own box, each with the serving replica.

`replicas` explains rules, and tied and loose axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from spmd_grid.grid.box import Box
from spmd_grid.reshard.geometry.cuts import CutDimension, Part
from spmd_grid.reshard.geometry.pieces import Piece
from spmd_grid.reshard.geometry.replicas import Replicas
from spmd_grid.typing import MultiIndex

__all__ = ["received_pieces"]


class _Hit(NamedTuple):
    """A part of one dimension that meets the receiver's box, by what it adds to the number of its device.

    ``sums``: by rule, the part's digits on loose axes.  ``is_own``: whether the receiver holds the part itself.
    """

    start: int
    stop: int
    device: int
    sums: list[int]
    is_own: bool


def received_pieces(replicas: Replicas, needed: Box, coords: MultiIndex, own: MultiIndex | None) -> Iterator[Piece]:
    """The pieces of ``needed`` that the device at ``coords`` of the target's grid gets from other processes.

    Local.  ``own``: its coordinates on the source's grid, if it has any.
    """
    grid, rules = replicas.source, replicas.rules
    strides, ranks = grid.strides, grid.ranks
    numbers = [sum(weight * coords[axis] for axis, weight in rule.weights.items()) for rule in rules]
    hits = [
        [_hit(replicas, cut, part, own) for part in cut.meeting(low, high)]
        for cut, low, high in zip(replicas.served_cuts, needed.starts, needed.stops)
    ]
    for combination in product(*hits):
        if own is not None and all([hit.is_own for hit in combination]):
            continue
        device = sum([hit.device for hit in combination])
        for r, rule in enumerate(rules):
            number = (numbers[r] - sum([hit.sums[r] for hit in combination])) % rule.n_replicas
            for axis, stride, size in zip(rule.tied, rule.strides, rule.sizes):
                device += number // stride % size * strides[axis]
        box = Box(tuple([hit.start for hit in combination]), tuple([hit.stop for hit in combination]))
        yield Piece(device if ranks is None else ranks[device], box)


def _hit(replicas: Replicas, cut: CutDimension, part: Part, own: MultiIndex | None) -> _Hit:
    digits, strides, loose, rules = (
        tuple(zip(cut.axes, part.digits)),
        replicas.source.strides,
        replicas.loose,
        replicas.rules,
    )
    return _Hit(
        part.start,
        part.stop,
        sum([digit * strides[axis] for axis, digit in digits]),
        [sum([digit for axis, digit in digits if axis in rule.loose]) for rule in rules] if rules else [],
        own is not None and all([digit == own[axis] for axis, digit in digits if axis in loose]),
    )
