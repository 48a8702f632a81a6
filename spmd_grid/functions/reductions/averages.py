"""Means, variances and weighted averages, made of sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.errors import ShapeError
from spmd_grid.functions.axes import Axis, laid_along, one_axis, reduced_axes
from spmd_grid.functions.interface import Application, shape_of
from spmd_grid.functions.reductions.rules import MISSING, accumulation, cast_to, total_dtype
from spmd_grid.functions.table import Operand, certainly, composite, rule

__all__: list[str] = []


def _count(name: str, a: Operand, axis: Axis, keepdims: bool, where: Operand) -> Any:
    """The number of cells that are reduced to each cell of the result."""
    if where is not True:
        mask = where if shape_of(where) == a.shape else where & np.ones_like(a, dtype=bool)
        return np.count_nonzero(mask, axis, keepdims=keepdims)
    return int(np.prod([a.shape[d] for d in reduced_axes(name, axis, len(a.shape))], dtype=np.int64))


def _float_of(dtype: np.dtype, requested: DTypeLike | None) -> tuple[np.dtype, np.dtype]:
    """The dtype in which numpy's mean adds, and that of its result."""
    if dtype.kind == "m":
        return (total_dtype("mean", dtype, requested),) * 2
    if requested is not None:
        return np.dtype(requested), np.dtype(requested)
    if dtype.kind in "biu":
        return np.dtype("f8"), np.dtype("f8")
    native = dtype.newbyteorder("=")
    return (np.dtype("f4") if native == np.float16 else native), native


def _cast(x: Operand, dtype: np.dtype) -> Operand:
    return x if x.dtype == dtype else x.astype(dtype)


@rule(np.mean)
def mean(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Operand = None,
    keepdims: bool = False,
    *,
    where: Operand = True,
) -> Application | Operand:
    """np.mean: the sum, divided by the number of cells."""
    working, result = _float_of(a.dtype, dtype)
    divided = None if working.kind not in "fc" else working
    count = _count("mean", a, axis, keepdims, where)
    if where is True:

        def divide(total: Any) -> Any:
            return cast_to(result)(np.true_divide(total, count, dtype=divided))

        return accumulation("mean", a, axis, "sum", working, keepdims, finish=divide)
    requested = None if working.kind == "m" else working  # numpy refuses units in requests
    total = np.sum(a, axis, requested, keepdims=keepdims, where=where)
    with np.errstate(divide="ignore", invalid="ignore"):
        return _cast(np.true_divide(total, count, dtype=divided), result)


def _of_squares(function: Callable[..., Any], finish: Callable[[Any], Any]) -> None:
    """Register ``function``, np.var or np.std: ``finish`` makes it of the mean of squared distances from the mean."""

    @composite(function)
    def of_squares(
        a: Operand,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: Operand = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Operand = True,
        mean: Operand = MISSING,
        correction: float = MISSING,
    ) -> Operand:
        if correction is not MISSING:
            if ddof != 0:
                given = f"ddof is {ddof} and correction is {correction}"
                raise ValueError(f"{function.__name__}: {given}; they mean the same, so one must be given")
            ddof = correction
        working, result = _float_of(a.dtype, dtype)
        middle = np.mean(a, axis, working, keepdims=True, where=where) if mean is MISSING else mean
        distance = a - middle
        squares = distance.real**2 + distance.imag**2 if distance.dtype.kind == "c" else distance * distance
        total = np.sum(squares, axis, keepdims=keepdims, where=where)
        result = np.dtype(result.char.lower()) if result.kind == "c" else result
        freedom = np.maximum(_count(function.__name__, a, axis, keepdims, where) - ddof, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return finish(_cast(total / freedom, result))


_of_squares(np.var, lambda variance: variance)
_of_squares(np.std, np.sqrt)


@composite(np.ptp)
def ptp(a: Operand, axis: Axis = None, out: Operand = None, keepdims: bool = False) -> Operand:
    """np.ptp: max - min."""
    return np.subtract(np.max(a, axis, keepdims=keepdims), np.min(a, axis, keepdims=keepdims))


@composite(np.average)
def average(
    a: Operand, axis: Axis = None, weights: Operand = None, returned: bool = False, *, keepdims: bool = False
) -> Operand:
    """np.average: the mean, or the weighted sum divided by the sum of weights."""
    if weights is None:
        found = np.mean(a, axis, keepdims=keepdims)
        count = float(_count("average", a, axis, keepdims, True))
        total = found.dtype.type(count)  # of durations there is none, and numpy refuses it too
    else:
        weights = _weights_of(a, axis, weights)
        extra = ("f8",) if a.dtype.kind in "biu" else ()  # as numpy: averages of integers are doubles
        dtype = np.result_type(a.dtype, weights.dtype, *extra)
        total = np.sum(np.broadcast_to(weights, a.shape) * np.ones_like(a, dtype=dtype), axis, dtype, keepdims=keepdims)
        if certainly(np.any(total == 0)):
            raise ZeroDivisionError("average: a sum of weights is 0; no sum of them may be")
        found = np.sum(np.multiply(a, weights, dtype=dtype), axis, keepdims=keepdims) / total
    if not returned:
        return found
    return found, np.full_like(found, total) if np.shape(total) != np.shape(found) else total


def _weights_of(a: Operand, axis: Axis, weights: Operand) -> Operand:
    """The weights in the dimensions of ``a``."""
    if weights.shape == a.shape:
        return weights
    if len(weights.shape) != 1 or axis is None:
        raise ShapeError(f"average: weights have shape {weights.shape}; they must have that of the array {a.shape}")
    d = one_axis("average", axis, a.ndim)
    if weights.shape[0] != a.shape[d]:
        found = f"{weights.shape[0]} weights for extent {a.shape[d]} of dimension {d}"
        raise ShapeError(f"average: there are {found}; there must be one for each cell")
    if type(weights) is np.ndarray:
        return laid_along(weights, d, a.ndim)
    return np.expand_dims(weights, tuple([each for each in range(a.ndim) if each != d]))
