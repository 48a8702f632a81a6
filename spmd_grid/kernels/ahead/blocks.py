"""Addresses of the memory in which the members of a node tell one another how far they are in runs without a meeting.

Each member has a block: a line for each of the last runs, two words behind the lines, and copies of parts of arrays.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import load
from spmd_grid.kernels.ahead import slots as ahead_at
from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.protocol import slots as at

__all__ = ["copy_of", "done_word", "line_of", "made_word"]


@inner
def line_of(state: int, member: int, number: int) -> int:
    """The address of the line that a member fills in a run."""
    return load(state, ahead_at.BLOCKS + member) + number % ahead_at.LINES * load(state, at.LINE_BYTES)


@inner
def copy_of(state: int, number: int) -> int:
    """The address of this member's copy for others of the node in a run."""
    return load(state, ahead_at.COPIES) + number % ahead_at.COPY_SLOTS * ahead_at.COPY_BYTES


@inner
def done_word(state: int, member: int) -> int:
    """The address of a member's word for the last run of which it has read all large arrays and pieces."""
    return load(state, ahead_at.BLOCKS + member) + ahead_at.LINES * load(state, at.LINE_BYTES)


@inner
def made_word(state: int, member: int) -> int:
    """The address of a member's word for the last piece that it has made for the others of its node."""
    return done_word(state, member) + 64
