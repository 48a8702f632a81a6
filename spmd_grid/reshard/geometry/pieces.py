"""Pieces: the boxes that exchanges move, with the process at the other end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spmd_grid.grid.box import Box

__all__ = ["Piece", "box_of"]


class Piece(NamedTuple):
    """``box``, in global coordinates, to or from the process numbered ``process``."""

    process: int
    box: Box


def box_of(intervals: Sequence[tuple[int, int]]) -> Box:
    """The box with these (start, stop) by dimension.  Local."""
    return Box(tuple([start for start, _ in intervals]), tuple([stop for _, stop in intervals]))
