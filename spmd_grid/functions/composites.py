"""Functions made of other array functions, slices and plain index arrays along single dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid.errors import ShapeError
from spmd_grid.functions.axes import Axis, cut, one_axis, reduced_axes, several_axes
from spmd_grid.functions.table import Operand, composite

__all__ = ["distance_from_diagonal"]


@composite(np.ndim)
def ndim(a: Operand) -> int:
    """np.ndim."""
    return a.ndim


@composite(np.shape)
def shape(a: Operand) -> tuple[int, ...]:
    """np.shape."""
    return a.shape


@composite(np.size)
def size(a: Operand, axis: Axis = None) -> int:
    """np.size."""
    return int(np.prod([a.shape[d] for d in reduced_axes("size", axis, a.ndim)], dtype=np.int64))


@composite(np.result_type)
def result_type(*arrays_and_dtypes: Operand) -> np.dtype:
    """np.result_type."""
    return np.result_type(*[x.dtype if hasattr(x, "sharding") else x for x in arrays_and_dtypes])


# -- diagonals ------------------------------------------------------------------------------------------------------


def distance_from_diagonal(op: str, m: Operand, k: int) -> Operand:
    """Column - row - k of every cell of the last two dimensions, for the function ``op``."""
    if m.ndim < 2:
        raise ShapeError(f"{op}: the array has shape {m.shape}; it must have at least two dimensions")
    columns, rows = np.arange(m.shape[-1]) - k, np.arange(m.shape[-2])[:, None]
    return np.zeros_like(m, dtype=np.int64) + columns - rows


@composite(np.tril)
def tril(m: Operand, k: int = 0) -> Operand:
    """np.tril."""
    return np.where(distance_from_diagonal("tril", m, k) <= 0, m, m.dtype.type(0))


@composite(np.triu)
def triu(m: Operand, k: int = 0) -> Operand:
    """np.triu."""
    return np.where(distance_from_diagonal("triu", m, k) >= 0, m, m.dtype.type(0))


# -- made of slices ------------------------------------------------------------------------------------------------


@composite(np.flip)
def flip(m: Operand, axis: Axis = None) -> Operand:
    """np.flip."""
    axes = reduced_axes("flip", axis, m.ndim)
    return m[tuple([slice(None, None, -1) if d in axes else slice(None) for d in range(m.ndim)])]


@composite(np.flipud)
def flipud(m: Operand) -> Operand:
    """np.flipud."""
    return np.flip(m, 0)


@composite(np.fliplr)
def fliplr(m: Operand) -> Operand:
    """np.fliplr."""
    return np.flip(m, 1)


@composite(np.diff)
def diff(a: Operand, n: int = 1, axis: int = -1) -> Operand:
    """np.diff, without prepend and append."""
    if n < 0:
        raise ValueError(f"diff: n is {n}; it must not be negative")
    d = one_axis("diff", axis, a.ndim)
    subtract = np.not_equal if a.dtype.kind == "b" else np.subtract
    for _ in range(n)[: a.shape[d]]:  # then there are no cells left
        a = subtract(a[cut(d, 1, None)], a[cut(d, None, -1)])
    return a


@composite(np.roll)
def roll(a: Operand, shift: int | Sequence[int], axis: Axis = None) -> Operand:
    """np.roll; without ``axis`` of the flattened array."""
    if axis is None and a.ndim != 1:
        return np.reshape(np.roll(np.ravel(a), shift, 0), a.shape)
    axis = 0 if axis is None else axis
    axes = several_axes("roll", [axis] if np.ndim(axis) == 0 else list(axis), a.ndim)  # type: ignore[arg-type]  # a list
    shifts, along = np.broadcast_arrays(shift, axes)
    rolled = a
    for by, d in zip(shifts.ravel().tolist(), along.ravel().tolist(), strict=True):
        by = by % a.shape[d] if a.shape[d] else 0
        if by:
            rolled = np.concatenate([rolled[cut(d, -by, None)], rolled[cut(d, None, -by)]], d)
    return np.copy(a) if rolled is a else rolled
