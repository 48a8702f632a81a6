"""Compiled parts of the halo benchmark: writing new faces, time loops, and work to hide an exchange behind.

Fields are viewed as (outer, cut, inner), so that one kernel serves any number of dimensions, cut along any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numba
import numpy as np

from spmd_grid.halo.exchange import HaloExchange
from spmd_grid.kernels.compiled import inner, kernel

Views = tuple[np.ndarray, ...]

__all__ = ["rewrite_faces", "rewriting_loop", "stream", "three_sides", "updating_loop", "wrong_halos"]


def three_sides(fields: Sequence[np.ndarray], dim: int) -> Views:
    """Views of C-contiguous ``fields`` as (outer, cut, inner)."""
    shape = fields[0].shape
    sides = (int(np.prod(shape[:dim])), shape[dim], int(np.prod(shape[dim + 1 :])))
    return tuple(field.reshape(sides) for field in fields)


@inner
def value_of_face(value: int, n_fields: int, field: int, side: int) -> float:
    """The number in every cell of a face, different for every value, field and side."""
    return float((value * n_fields + field) * 2 + side)


def _rewrite(fields: Views, width: int, value: int) -> None:
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


def rewrite_faces(n_fields: int) -> Callable[[Views, int, int], None]:
    """The function ``rewrite(fields, width, value)``: new values in the outer ``width`` own layers of both sides."""
    return {1: _rewrite_1, 3: _rewrite_3}[n_fields]


@numba.njit(nogil=True)
def wrong_halos(fields: Views, width: int, value_below: int, value_above: int) -> int:
    """Number of halo cells without the numbers that the ranks below and above wrote for these values.

    A negative value: there is no rank on that side.
    """
    wrong = 0
    for number in range(len(fields)):
        field = fields[number]
        from_below = value_of_face(value_below, len(fields), number, 1)
        from_above = value_of_face(value_above, len(fields), number, 0)
        above = field.shape[1] - width
        for outer in range(field.shape[0]):
            for layer in range(width):
                for inner_ in range(field.shape[2]):
                    wrong += value_below >= 0 and field[outer, layer, inner_] != from_below
                    wrong += value_above >= 0 and field[outer, above + layer, inner_] != from_above
    return wrong


# -- time loops ------------------------------------------------------------------------------------------------


@numba.njit(nogil=True)
def _rewriting_loop_1(fields: Views, width: int, first: int, n: int) -> None:
    for step in range(n):
        _rewrite_1(fields, width, first + step)


@numba.njit(nogil=True)
def _rewriting_loop_3(fields: Views, width: int, first: int, n: int) -> None:
    for step in range(n):
        _rewrite_3(fields, width, first + step)


@numba.njit(nogil=True)
def _loop_1(halo: HaloExchange, u: np.ndarray, fields: Views, width: int, first: int, n: int) -> None:
    for step in range(n):
        _rewrite_1(fields, width, first + step)
        halo.update(u)


@numba.njit(nogil=True)
def _loop_3(
    halo: HaloExchange, u: np.ndarray, v: np.ndarray, w: np.ndarray, fields: Views, width: int, first: int, n: int
) -> None:
    for step in range(n):
        _rewrite_3(fields, width, first + step)
        halo.update(u, v, w)


def rewriting_loop(n_fields: int) -> Callable[[Views, int, int, int], None]:
    """The function ``loop(fields, width, first, n)``: ``n`` times new values, starting with ``first``; no update."""
    return {1: _rewriting_loop_1, 3: _rewriting_loop_3}[n_fields]


def updating_loop(n_fields: int) -> Callable[..., None]:
    """The function ``loop(halo, *locals, fields, width, first, n)``: ``n`` steps of new values and an update."""
    return {1: _loop_1, 3: _loop_3}[n_fields]


# -- work ------------------------------------------------------------------------------------------------------


@kernel("void(float64[::1], int64, int64)")
def stream(cells: np.ndarray, start: int, stop: int) -> None:
    """Pass over memory: read and write cells[start:stop]."""
    for i in range(start, stop):
        cells[i] = 0.5 * cells[i] + 1.0
