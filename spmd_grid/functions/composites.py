"""Functions made of other array functions, slices and plain index arrays along single dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from spmd_grid.errors import AxisError, ShapeError
from spmd_grid.functions.table import composite

__all__: list[str] = []


def _axis(name: str, axis: Any, ndim: int) -> int:
    try:
        return normalize_axis_index(axis, ndim)
    except (ValueError, TypeError):
        raise AxisError(f"{name}: axis is {axis!r}; it must be one of the {ndim} dimensions of the array") from None


def _along(index: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """A plain 1-d array, laid along one of ``ndim`` dimensions."""
    return index.reshape([-1 if d == axis else 1 for d in range(ndim)])


def _cut(axis: int, *bounds: int | None) -> tuple:
    return (*[slice(None)] * axis, slice(*bounds))


@composite(np.ndim)
def ndim(a):
    """np.ndim."""
    return a.ndim


@composite(np.shape)
def shape(a):
    """np.shape."""
    return a.shape


@composite(np.size)
def size(a, axis=None):
    """np.size."""
    return a.size if axis is None else a.shape[_axis("size", axis, a.ndim)]


# -- positions of cells --------------------------------------------------------------------------------------------


def _first_of(name: str, a: Any, axis: Any, extreme: Any, keepdims: bool) -> Any:
    """The index of the first cell that equals the extreme of its line, a NaN counting as one."""
    if axis is None:
        strides = [int(np.prod(a.shape[d + 1 :], dtype=np.int64)) for d in range(a.ndim)]
        axes = tuple(range(a.ndim))
        index: Any = 0
        for d, stride in enumerate(strides):
            index = (
                index
                + _along(np.arange(a.shape[d], dtype=np.intp) * stride, d, a.ndim)
                + np.zeros_like(a, dtype=np.intp)
            )
        last = a.size
    else:
        axes = (_axis(name, axis, a.ndim),)
        index, last = _along(np.arange(a.shape[axes[0]], dtype=np.intp), axes[0], a.ndim), a.shape[axes[0]]
    if any(a.shape[d] == 0 for d in axes):
        raise ValueError(f"attempt to get {name} of an empty sequence")
    found = a == extreme(a, axis=axes, keepdims=True)
    if a.dtype.kind in "fc":
        found = found | np.isnan(a)
    return np.min(np.where(found, index, np.intp(last)), axis=axes, keepdims=keepdims)


@composite(np.argmax)
def argmax(a, axis=None, out=None, *, keepdims=False):
    """np.argmax."""
    return _first_of("argmax", a, axis, np.max, keepdims)


@composite(np.argmin)
def argmin(a, axis=None, out=None, *, keepdims=False):
    """np.argmin."""
    return _first_of("argmin", a, axis, np.min, keepdims)


def _distance(m: Any, k: int) -> Any:
    """Column - row - k of every cell of the last two dimensions."""
    if m.ndim < 2:
        raise ShapeError(f"the array has shape {m.shape}; it must have two dimensions")
    columns, rows = np.arange(m.shape[-1]) - k, np.arange(m.shape[-2])[:, None]
    return np.zeros_like(m, dtype=np.int64) + columns - rows


@composite(np.tril)
def tril(m, k=0):
    """np.tril."""
    return np.where(_distance(m, k) <= 0, m, m.dtype.type(0))


@composite(np.triu)
def triu(m, k=0):
    """np.triu."""
    return np.where(_distance(m, k) >= 0, m, m.dtype.type(0))


@composite(np.trace)
def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    """np.trace."""
    a = np.moveaxis(a, (axis1, axis2), (-2, -1))
    return np.sum(np.where(_distance(a, offset) == 0, a, a.dtype.type(0)), axis=(-2, -1), dtype=dtype)


# -- made of slices ------------------------------------------------------------------------------------------------


@composite(np.flip)
def flip(m, axis=None):
    """np.flip."""
    axes = range(m.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = {_axis("flip", each, m.ndim) for each in axes}
    return m[tuple([slice(None, None, -1) if d in axes else slice(None) for d in range(m.ndim)])]


@composite(np.flipud)
def flipud(m):
    """np.flipud."""
    return np.flip(m, 0)


@composite(np.fliplr)
def fliplr(m):
    """np.fliplr."""
    return np.flip(m, 1)


@composite(np.diff)
def diff(a, n=1, axis=-1):
    """np.diff, without prepend and append."""
    axis = _axis("diff", axis, a.ndim)
    subtract = np.not_equal if a.dtype.kind == "b" else np.subtract
    for _ in range(n):
        a = subtract(a[_cut(axis, 1, None)], a[_cut(axis, None, -1)])
    return a


@composite(np.roll)
def roll(a, shift, axis=None):
    """np.roll along given dimensions."""
    if axis is None:
        if a.ndim != 1:
            raise AxisError("roll: axis is None; it must name dimensions where the array has several")
        axis = 0
    axes = [axis] if isinstance(axis, int) else list(axis)
    shifts = [shift] * len(axes) if isinstance(shift, int) else list(shift)
    if len(shifts) == 1:
        shifts *= len(axes)
    for by, along in zip(shifts, axes, strict=True):
        d = _axis("roll", along, a.ndim)
        by = by % a.shape[d] if a.shape[d] else 0
        if by:
            a = np.concatenate([a[_cut(d, -by, None)], a[_cut(d, None, -by)]], d)
    return a


@composite(np.linalg.norm)
def norm(x, ord=None, axis=None, keepdims=False):
    """np.linalg.norm of vectors, and the Frobenius norm."""
    if ord not in (None, 2, "fro", 1, np.inf, -np.inf, 0) or (
        ord in (1, 2, np.inf, -np.inf, 0) and _is_matrix(x, axis)
    ):
        raise NotImplementedError("linalg.norm of this order")
    size = np.abs(x)
    if ord == 1:
        return np.sum(size, axis, keepdims=keepdims)
    if ord == 0:
        return np.sum(size != 0, axis, dtype=size.dtype, keepdims=keepdims)
    if ord in (np.inf, -np.inf):
        return (np.max if ord > 0 else np.min)(size, axis, keepdims=keepdims)
    size = size if size.dtype.kind == "f" else size.astype(np.float64)
    return np.sqrt(np.sum(size * size, axis, keepdims=keepdims))


def _is_matrix(x: Any, axis: Any) -> bool:
    return x.ndim > 1 if axis is None else not isinstance(axis, int) and len(axis) == 2
