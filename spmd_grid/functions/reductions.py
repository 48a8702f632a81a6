"""Rules of reductions along dimensions: each device reduces its block, then the devices that share a result combine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spmd_grid.errors import AxisError, DTypeError, ShapeError
from spmd_grid.functions.interface import (
    PARALLEL,
    Application,
    IndexingMap,
    Interface,
    Iterator,
    broadcast_maps,
    shape_of,
)
from spmd_grid.functions.table import composite, rule
from spmd_grid.reduction_kind import KINDS, identity

__all__ = ["reduced_axes", "reduction"]

_MISSING = np._NoValue


def reduced_axes(name: str, axis, ndim: int) -> tuple[int, ...]:
    """The dimensions that ``axis`` names, in ascending order; all of them for None.  Raises AxisError."""
    if axis is None:
        return tuple(range(ndim))
    axes = (axis,) if not isinstance(axis, Sequence) else tuple(axis)
    found = []
    for each in axes:
        if isinstance(each, bool) or not isinstance(each, int | np.integer) or not -ndim <= each < ndim:
            raise AxisError(f"{name}: axis is {axis!r}; it must name dimensions of an array with {ndim} of them")
        found.append(int(each) % ndim)
    if len(set(found)) != len(found):
        raise AxisError(f"{name}: axis is {axis!r}; it names a dimension twice")
    return tuple(sorted(found))


def reduction(
    name: str, a, axis, kind: str, local: Callable[..., Any], keepdims: bool = False, where: Any = True, finish=None
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


def _options(dtype=None, initial=_MISSING, where=True) -> dict[str, Any]:
    options = {} if dtype is None else {"dtype": dtype}
    if initial is not _MISSING:
        options["initial"] = initial
    if where is not True:
        options["where"] = where
    return options


def _of_ufunc(function: Callable, kind: str) -> None:
    """Registers ``function``, which is numpy's reduction by a ufunc with an identity."""
    combine = KINDS[kind].combine

    @rule(function)
    def of_ufunc(a, axis=None, dtype=None, out=None, keepdims=False, initial=_MISSING, where=True):
        def local(block: np.ndarray, axes: tuple[int, ...], keepdims: bool, mask: Any) -> np.ndarray:
            return function(block, axis=axes, keepdims=keepdims, **_options(dtype, where=mask))

        def add_initial(total: np.ndarray) -> np.ndarray:
            return combine(total, np.asarray(initial, total.dtype))

        finish = None if initial is _MISSING or initial is None else add_initial
        return reduction(function.__name__, a, axis, kind, local, keepdims, where, finish)


_of_ufunc(np.sum, "sum")
_of_ufunc(np.prod, "product")


def _of_extreme(function: Callable, kind: str) -> None:
    """Registers ``function``, which has no identity: blocks without cells contribute the least or greatest value."""

    @rule(function)
    def of_extreme(a, axis=None, out=None, keepdims=False, initial=_MISSING, where=True):
        axes = reduced_axes(function.__name__, axis, len(a.shape))
        if initial is _MISSING:
            if where is not True:
                raise ValueError(f"reduction operation '{kind}imum' does not have an identity, so to use a where mask")
            if any(a.shape[d] == 0 for d in axes):
                raise ValueError(f"zero-size array to reduction operation {kind}imum which has no identity")
        if a.dtype.kind not in "biufc":
            raise DTypeError(f"{function.__name__}: dtype {a.dtype}; it must be numeric or bool")
        least = identity(KINDS[kind], a.dtype)

        def local(block: np.ndarray, axes: tuple[int, ...], keepdims: bool, mask: Any) -> np.ndarray:
            return function(block, axis=axes, keepdims=keepdims, **_options(initial=least, where=mask))

        def add_initial(found: np.ndarray) -> np.ndarray:
            return KINDS[kind].combine(found, np.asarray(initial, found.dtype))

        finish = None if initial is _MISSING else add_initial
        return reduction(function.__name__, a, axis, kind, local, keepdims, where, finish)


_of_extreme(np.max, "max")
_of_extreme(np.min, "min")


@rule(np.any)
def any_(a, axis=None, out=None, keepdims=False, *, where=True):
    """np.any: the bitwise or of bools."""

    def local(block: np.ndarray, axes: tuple[int, ...], keepdims: bool, mask: Any) -> np.ndarray:
        return np.any(block, axis=axes, keepdims=keepdims, **_options(where=mask))

    return reduction("any", a, axis, "bitwise_or", local, keepdims, where)


@rule(np.all)
def all_(a, axis=None, out=None, keepdims=False, *, where=True):
    """np.all: the bitwise and of bools."""

    def local(block: np.ndarray, axes: tuple[int, ...], keepdims: bool, mask: Any) -> np.ndarray:
        return np.all(block, axis=axes, keepdims=keepdims, **_options(where=mask))

    return reduction("all", a, axis, "bitwise_and", local, keepdims, where)


@rule(np.count_nonzero)
def count_nonzero(a, axis=None, *, keepdims=False):
    """np.count_nonzero: a sum of counts."""

    def local(block: np.ndarray, axes: tuple[int, ...], keepdims: bool, mask: Any) -> np.ndarray:
        return np.asarray(np.count_nonzero(block, axis=axes, keepdims=keepdims), np.intp)

    return reduction("count_nonzero", a, axis, "sum", local, keepdims)


# -- functions made of reductions ----------------------------------------------------------------------------------


def _count(a, axis, name: str) -> int:
    return int(np.prod([a.shape[d] for d in reduced_axes(name, axis, len(a.shape))], dtype=np.int64))


def _float_of(dtype: np.dtype, requested) -> tuple[np.dtype, np.dtype]:
    """The dtype in which numpy's mean adds, and that of its result."""
    if requested is not None:
        return np.dtype(requested), np.dtype(requested)
    if dtype.kind in "biu":
        return np.dtype("f8"), np.dtype("f8")
    return (np.dtype("f4") if dtype == np.float16 else dtype), dtype


@composite(np.mean)
def mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    """np.mean: the sum, divided by the number of cells."""
    working, result = _float_of(a.dtype, dtype)
    total = np.sum(a, axis, working, keepdims=keepdims, where=where)
    if where is True:
        count: Any = _count(a, axis, "mean")
    else:
        count = np.sum(where & np.ones_like(a, dtype=bool), axis, keepdims=keepdims)
    return _cast(np.true_divide(total, count, dtype=working if working.kind in "fc" else None), result)


@composite(np.var)
def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=_MISSING, correction=_MISSING):
    """np.var: the mean of squared distances from the mean."""
    if where is not True:
        raise NotImplementedError("var with where=")
    ddof = ddof if correction is _MISSING else correction
    working, result = _float_of(a.dtype, dtype)
    middle = np.mean(a, axis, working, keepdims=True) if mean is _MISSING else mean
    distance = a - middle
    squares = distance.real**2 + distance.imag**2 if distance.dtype.kind == "c" else distance * distance
    total = np.sum(squares, axis, keepdims=keepdims)
    result = np.dtype(result.char.lower()) if result.kind == "c" else result
    with np.errstate(divide="ignore", invalid="ignore"):
        return _cast(total / max(_count(a, axis, "var") - ddof, 0), result)


@composite(np.std)
def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=_MISSING, correction=_MISSING):
    """np.std: the root of np.var."""
    given = {} if mean is _MISSING else {"mean": mean}
    given |= {} if correction is _MISSING else {"correction": correction}
    return np.sqrt(np.var(a, axis, dtype, ddof=ddof, keepdims=keepdims, where=where, **given))


@composite(np.ptp)
def ptp(a, axis=None, out=None, keepdims=False):
    """np.ptp: max - min."""
    return np.subtract(np.max(a, axis, keepdims=keepdims), np.min(a, axis, keepdims=keepdims))


@composite(np.average)
def average(a, axis=None, weights=None):
    """np.average: the mean, or the weighted sum divided by the sum of weights."""
    if weights is None:
        return np.mean(a, axis)
    return np.sum(a * weights, axis) / np.sum(weights * np.ones_like(a, dtype=weights.dtype), axis)


def _cast(x, dtype: np.dtype):
    return x if x.dtype == dtype else x.astype(dtype)
