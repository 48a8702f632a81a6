"""Reductions that leave out NaN, made of other functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.functions.axes import Axis
from spmd_grid.functions.table import Operand, composite

__all__: list[str] = []


def _may_miss(a: Operand) -> bool:
    return a.dtype.kind in "fc"


def _filled(a: Operand, value: float) -> Operand:
    """``a`` with ``value`` in place of NaN."""
    return np.where(np.isnan(a), a.dtype.type(value), a) if _may_miss(a) else a


def _count(a: Operand, axis: Axis, keepdims: bool) -> Operand:
    """The number of cells that are not NaN."""
    return np.sum(~np.isnan(a), axis=axis, keepdims=keepdims)


@composite(np.nansum)
def nansum(
    a: Operand, axis: Axis = None, dtype: DTypeLike | None = None, out: Operand = None, keepdims: bool = False
) -> Operand:
    """np.nansum."""
    return np.sum(_filled(a, 0), axis=axis, dtype=dtype, keepdims=keepdims)


@composite(np.nanprod)
def nanprod(
    a: Operand, axis: Axis = None, dtype: DTypeLike | None = None, out: Operand = None, keepdims: bool = False
) -> Operand:
    """np.nanprod."""
    return np.prod(_filled(a, 1), axis=axis, dtype=dtype, keepdims=keepdims)


@composite(np.nanmean)
def nanmean(
    a: Operand, axis: Axis = None, dtype: DTypeLike | None = None, out: Operand = None, keepdims: bool = False
) -> Operand:
    """np.nanmean."""
    if not _may_miss(a):
        return np.mean(a, axis=axis, dtype=dtype, keepdims=keepdims)
    total = np.sum(_filled(a, 0), axis=axis, dtype=dtype, keepdims=keepdims)
    mean = total / _count(a, axis, keepdims)
    return mean.astype(total.dtype)  # float32 divided by an integer gives float64


@composite(np.nanvar)
def nanvar(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Operand = None,
    ddof: float = 0,
    keepdims: bool = False,
) -> Operand:
    """np.nanvar; NaN where no more than ``ddof`` cells are left."""
    if not _may_miss(a):
        return np.var(a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)
    away = a - np.nanmean(a, axis=axis, dtype=dtype, keepdims=True)
    squares = np.sum(np.square(np.abs(_filled(away, 0))), axis=axis, dtype=dtype, keepdims=keepdims)
    left = _count(a, axis, keepdims) - ddof
    return (squares / np.where(left > 0, left, np.nan)).astype(squares.dtype)


@composite(np.nanstd)
def nanstd(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Operand = None,
    ddof: float = 0,
    keepdims: bool = False,
) -> Operand:
    """np.nanstd."""
    return np.sqrt(np.nanvar(a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims))


def _extreme(extreme: Callable[..., Any], empty: float, a: Operand, axis: Axis, keepdims: bool) -> Operand:
    """The extreme of the cells that are not NaN; NaN where there are none."""
    if not _may_miss(a):
        return extreme(a, axis=axis, keepdims=keepdims)
    found = extreme(_filled(a, empty), axis=axis, keepdims=keepdims)
    return np.where(_count(a, axis, keepdims) > 0, found, a.dtype.type(np.nan))[()]


@composite(np.nanmax)
def nanmax(a: Operand, axis: Axis = None, out: Operand = None, keepdims: bool = False) -> Operand:
    """np.nanmax."""
    return _extreme(np.max, -np.inf, a, axis, keepdims)


@composite(np.nanmin)
def nanmin(a: Operand, axis: Axis = None, out: Operand = None, keepdims: bool = False) -> Operand:
    """np.nanmin."""
    return _extreme(np.min, np.inf, a, axis, keepdims)


@composite(np.result_type)
def result_type(*arrays_and_dtypes: Operand) -> np.dtype:
    """np.result_type."""
    return np.result_type(*[x.dtype if hasattr(x, "sharding") else x for x in arrays_and_dtypes])
