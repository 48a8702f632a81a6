"""Compiled parts of the halo benchmark: writing new faces, time loops, and work to hide an exchange behind.

Fields are seen as (outer, cut, inner): one kernel serves blocks of every number of dimensions, cut along any.
"""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np

from spmd_grid.kernels.compiled import inner, kernel

__all__ = ["rewrite_faces", "rewriting_loop", "stream", "three_sides", "updating_loop", "wrong_halos"]


def three_sides(fields: Sequence[np.ndarray], dim: int) -> tuple[np.ndarray, ...]:
    """Views of C-contiguous ``fields`` as (outer, cut, inner)."""
    shape = fields[0].shape
    sides = (int(np.prod(shape[:dim])), shape[dim], int(np.prod(shape[dim + 1 :])))
    return tuple(field.reshape(sides) for field in fields)


@inner
def value_of_face(value, n_fields, field, side):
    """What every cell of a face holds: another number for every value, field and side."""
    return float((value * n_fields + field) * 2 + side)


def _rewrite(fields, width, value):
    for number in range(len(fields)):
        field = fields[number]
        low = value_of_face(value, len(fields), number, 0)
        high = value_of_face(value, len(fields), number, 1)
        above = field.shape[1] - 2 * width
        for outer in range(field.shape[0]):
            for layer in range(width):
                for inner_ in range(field.shape[2]):
                    field[outer, width + layer, inner_] = low
                    field[outer, above + layer, inner_] = high


_FIELDS = "UniTuple(float64[:, :, ::1], {})"
_rewrite_1 = kernel(f"void({_FIELDS.format(1)}, int64, int64)", "1_field")(_rewrite)
_rewrite_3 = kernel(f"void({_FIELDS.format(3)}, int64, int64)", "3_fields")(_rewrite)


def rewrite_faces(n_fields: int):
    """``rewrite(fields, width, value)``: new values in the outermost ``width`` own layers of both sides."""
    return {1: _rewrite_1, 3: _rewrite_3}[n_fields]


@numba.njit(nogil=True)
def wrong_halos(fields, width, value_below, value_above):
    """How many halo cells do not hold what the ranks below and above wrote for these values."""
    wrong = 0
    for number in range(len(fields)):
        field = fields[number]
        from_below = value_of_face(value_below, len(fields), number, 1)
        from_above = value_of_face(value_above, len(fields), number, 0)
        above = field.shape[1] - width
        for outer in range(field.shape[0]):
            for layer in range(width):
                for inner_ in range(field.shape[2]):
                    wrong += field[outer, layer, inner_] != from_below
                    wrong += field[outer, above + layer, inner_] != from_above
    return wrong


# -- time loops ------------------------------------------------------------------------------------------------


@numba.njit(nogil=True)
def _rewriting_loop_1(fields, width, first, n):
    for step in range(n):
        _rewrite_1(fields, width, first + step)


@numba.njit(nogil=True)
def _rewriting_loop_3(fields, width, first, n):
    for step in range(n):
        _rewrite_3(fields, width, first + step)


@numba.njit(nogil=True)
def _loop_1(halo, u, fields, width, first, n):
    for step in range(n):
        _rewrite_1(fields, width, first + step)
        halo.update(u)


@numba.njit(nogil=True)
def _loop_3(halo, u, v, w, fields, width, first, n):
    for step in range(n):
        _rewrite_3(fields, width, first + step)
        halo.update(u, v, w)


def rewriting_loop(n_fields: int):
    """``loop(fields, width, first, n)``: ``n`` times new values, from ``first`` on; nothing moves."""
    return {1: _rewriting_loop_1, 3: _rewriting_loop_3}[n_fields]


def updating_loop(n_fields: int):
    """``loop(halo, *locals, fields, width, first, n)``: ``n`` steps of new values and an update."""
    return {1: _loop_1, 3: _loop_3}[n_fields]


# -- work ------------------------------------------------------------------------------------------------------


@kernel("void(float64[::1], int64, int64)")
def stream(cells, start, stop):
    """A pass over memory: reads and writes cells[start:stop]."""
    for i in range(start, stop):
        cells[i] = 0.5 * cells[i] + 1.0
