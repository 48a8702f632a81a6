"""Rules of reductions along dimensions: each device reduces its block, then the devices that share a result combine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.errors import DTypeError, ShapeError
from spmd_grid.functions.axes import Axis, laid_along, one_axis, reduced_axes
from spmd_grid.functions.interface import (
    PARALLEL,
    Application,
    IndexingMap,
    Interface,
    Iterator,
    broadcast_maps,
    shape_of,
)
from spmd_grid.functions.table import Operand, composite, rule
from spmd_grid.reduction_kind import KINDS, identity

__all__ = ["reduction"]

_MISSING: Any = np._NoValue
LocalReduction = Callable[[np.ndarray, tuple[int, ...], bool, Any], Any]


def reduction(
    name: str,
    a: Operand,
    axis: object,
    kind: str,
    local: LocalReduction,
    keepdims: bool = False,
    where: Operand = True,
    finish: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Application:
    """A reduction of ``a``, masked by ``where``, whose blocks ``local(block, axes, keepdims, mask)`` reduces."""
    axes = reduced_axes(name, axis, len(a.shape))
    operands = (a,) if where is True else (a, where)
    shape, maps = broadcast_maps(name, [shape_of(operand) for operand in operands])
    if shape != a.shape:
        raise ShapeError(f"{name}: where has shape {shape_of(where)}; it must broadcast to {a.shape}")
    kept: IndexingMap = tuple([None if d in axes else d for d in range(len(shape)) if keepdims or d not in axes])
    iterators = tuple([Iterator(n, kind if d in axes else PARALLEL) for d, n in enumerate(shape)])

    def reduce_block(block: np.ndarray, mask: Any = True) -> np.ndarray:
        return np.asarray(local(block, axes, bool(keepdims), mask))

    return Application(name, operands, Interface(iterators, maps, (kept,)), reduce_block, kind, finish)


def _options(dtype: DTypeLike | None = None, initial: Any = _MISSING, where: Any = True) -> dict[str, Any]:
    options: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
    if initial is not _MISSING:
        options["initial"] = initial
    if where is not True:
        options["where"] = where
    return options


def _of_ufunc(function: Callable[..., Any], kind: str) -> None:
    """Register ``function``, which is numpy's reduction by a ufunc with an identity."""
    combine = KINDS[kind].combine

    @rule(function)
    def of_ufunc(
        a: Operand,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: Operand = None,
        keepdims: bool = False,
        initial: Any = _MISSING,
        where: Operand = True,
    ) -> Application:
        if dtype is None and out is not None:
            dtype = out.dtype

        def local(block: np.ndarray, axes: tuple[int, ...], keepdims: bool, mask: Any) -> Any:
            return function(block, axis=axes, keepdims=keepdims, **_options(dtype, where=mask))

        def add_initial(total: np.ndarray) -> np.ndarray:
            return combine(total, np.asarray(initial).astype(total.dtype))

        finish = None if initial is _MISSING or initial is None else add_initial
        return reduction(function.__name__, a, axis, kind, local, keepdims, where, finish)


_of_ufunc(np.sum, "sum")
_of_ufunc(np.prod, "product")


def _of_extreme(function: Callable[..., Any], kind: str) -> None:
    """Register ``function``, which has no identity: blocks without cells contribute the least or greatest value."""
    message = f"reduction operation '{kind}imum'"

    @rule(function)
    def of_extreme(
        a: Operand,
        axis: Axis = None,
        out: Operand = None,
        keepdims: bool = False,
        initial: Any = _MISSING,
        where: Operand = True,
    ) -> Application:
        axes = reduced_axes(function.__name__, axis, len(a.shape))
        if initial is _MISSING:
            if where is not True:
                raise ValueError(f"{message} does not have an identity: with a where mask, initial must be given")
            if any(a.shape[d] == 0 for d in axes):
                raise ValueError(f"zero-size array to {message} which has no identity")
        if a.dtype.kind not in "biufc":
            raise DTypeError(f"{function.__name__}: dtype {a.dtype}; it must be numeric or bool")
        least = identity(KINDS[kind], a.dtype)

        def local(block: np.ndarray, axes: tuple[int, ...], keepdims: bool, mask: Any) -> Any:
            return function(block, axis=axes, keepdims=keepdims, **_options(initial=least, where=mask))

        def add_initial(found: np.ndarray) -> np.ndarray:
            return KINDS[kind].combine(found, np.asarray(initial).astype(found.dtype))

        finish = None if initial is _MISSING else add_initial
        return reduction(function.__name__, a, axis, kind, local, keepdims, where, finish)


_of_extreme(np.max, "max")
_of_extreme(np.min, "min")


def _of_bools(function: Callable[..., Any], kind: str) -> None:
    """Register np.any or np.all, which combine bools."""

    @rule(function)
    def of_bools(
        a: Operand, axis: Axis = None, out: Operand = None, keepdims: bool = False, *, where: Operand = True
    ) -> Application:
        def local(block: np.ndarray, axes: tuple[int, ...], keepdims: bool, mask: Any) -> Any:
            return function(block, axis=axes, keepdims=keepdims, **_options(where=mask))

        return reduction(function.__name__, a, axis, kind, local, keepdims, where)


_of_bools(np.any, "bitwise_or")
_of_bools(np.all, "bitwise_and")


@rule(np.count_nonzero)
def count_nonzero(a: Operand, axis: Axis = None, *, keepdims: bool = False) -> Application:
    """np.count_nonzero: a sum of counts."""

    def local(block: np.ndarray, axes: tuple[int, ...], keepdims: bool, mask: Any) -> Any:
        return np.sum(block.astype(bool), axis=axes, dtype=np.intp, keepdims=keepdims)

    return reduction("count_nonzero", a, axis, "sum", local, keepdims)


# -- functions made of reductions ----------------------------------------------------------------------------------


def _count(name: str, a: Operand, axis: Axis, keepdims: bool, where: Operand) -> Any:
    """The number of cells that are reduced to each cell of the result."""
    if where is not True:
        return np.sum(where & np.ones_like(a, dtype=bool), axis, keepdims=keepdims)
    return int(np.prod([a.shape[d] for d in reduced_axes(name, axis, len(a.shape))], dtype=np.int64))


def _float_of(dtype: np.dtype, requested: DTypeLike | None) -> tuple[np.dtype, np.dtype]:
    """The dtype in which numpy's mean adds, and that of its result."""
    if requested is not None:
        return np.dtype(requested), np.dtype(requested)
    if dtype.kind in "biu":
        return np.dtype("f8"), np.dtype("f8")
    return (np.dtype("f4") if dtype == np.float16 else dtype), dtype


@composite(np.mean)
def mean(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Operand = None,
    keepdims: bool = False,
    *,
    where: Operand = True,
) -> Operand:
    """np.mean: the sum, divided by the number of cells."""
    working, result = _float_of(a.dtype, dtype)
    total = np.sum(a, axis, working, keepdims=keepdims, where=where)
    count = _count("mean", a, axis, keepdims, where)
    return _cast(np.true_divide(total, count, dtype=working if working.kind in "fc" else None), result)


@composite(np.var)
def var(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Operand = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Operand = True,
    mean: Operand = _MISSING,
    correction: float = _MISSING,
) -> Operand:
    """np.var: the mean of squared distances from the mean."""
    if correction is not _MISSING:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    working, result = _float_of(a.dtype, dtype)
    middle = np.mean(a, axis, working, keepdims=True, where=where) if mean is _MISSING else mean
    distance = a - middle
    squares = distance.real**2 + distance.imag**2 if distance.dtype.kind == "c" else distance * distance
    total = np.sum(squares, axis, keepdims=keepdims, where=where)
    result = np.dtype(result.char.lower()) if result.kind == "c" else result
    with np.errstate(divide="ignore", invalid="ignore"):
        return _cast(total / np.maximum(_count("var", a, axis, keepdims, where) - ddof, 0), result)


@composite(np.std)
def std(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Operand = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Operand = True,
    mean: Operand = _MISSING,
    correction: float = _MISSING,
) -> Operand:
    """np.std: the root of np.var."""
    given: dict[str, Any] = {} if mean is _MISSING else {"mean": mean}
    given |= {} if correction is _MISSING else {"correction": correction}
    return np.sqrt(np.var(a, axis, dtype, ddof=ddof, keepdims=keepdims, where=where, **given))


@composite(np.ptp)
def ptp(a: Operand, axis: Axis = None, out: Operand = None, keepdims: bool = False) -> Operand:
    """np.ptp: max - min."""
    return np.subtract(np.max(a, axis, keepdims=keepdims), np.min(a, axis, keepdims=keepdims))


@composite(np.average)
def average(
    a: Operand, axis: Axis = None, weights: Operand = None, returned: bool = False, *, keepdims: bool = False
) -> Operand:
    """np.average: the mean, or the weighted sum divided by the sum of weights."""
    if returned:
        raise NotImplementedError("average with returned=True")
    if weights is None:
        return np.mean(a, axis, keepdims=keepdims)
    if weights.shape != a.shape:
        if len(weights.shape) != 1 or axis is None:
            raise ShapeError(f"average: weights have shape {weights.shape}; they must have that of the array {a.shape}")
        d = one_axis("average", axis, a.ndim)
        if weights.shape[0] != a.shape[d]:
            raise ShapeError(f"average: there are {weights.shape[0]} weights for extent {a.shape[d]} of dimension {d}")
        others = tuple([each for each in range(a.ndim) if each != d])
        weights = laid_along(weights, d, a.ndim) if type(weights) is np.ndarray else np.expand_dims(weights, others)
    extra = ("f8",) if a.dtype.kind in "biu" else ()
    dtype = np.result_type(a.dtype, weights.dtype, *extra)
    total = np.sum(np.broadcast_to(weights, a.shape) * np.ones_like(a, dtype=dtype), axis, dtype, keepdims=keepdims)
    if np.any(total == 0):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    return np.sum(np.multiply(a, weights, dtype=dtype), axis, keepdims=keepdims) / total


def _cast(x: Operand, dtype: np.dtype) -> Operand:
    return x if x.dtype == dtype else x.astype(dtype)
