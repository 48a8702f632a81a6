"""Rules of reductions along dimensions: each device reduces its block, then the devices that share a result combine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.errors import DTypeError, ShapeError
from spmd_grid.functions.axes import Axis, axes_of_ufunc
from spmd_grid.functions.dtypes import (
    check_reducible,
    loop_dtype,
    numpy_scalar,
    sum_dtype,
    wide_dtype,
    working_dtype,
)
from spmd_grid.functions.interface import (
    PARALLEL,
    Application,
    IndexingMap,
    Interface,
    Iterator,
    broadcast_maps,
    shape_of,
)
from spmd_grid.functions.reductions.totals import total
from spmd_grid.functions.table import Operand, rule
from spmd_grid.reduction_kind import KINDS, identity

__all__ = ["MISSING", "accumulation", "cast_to", "reduction", "total_dtype"]

MISSING: Any = np._NoValue
# Computes a result of a block, or of the cells that the mask leaves: called with the block, the dimensions to reduce
# (None for all of them), whether they stay as extents of 1, and the mask.
LocalReduction = Callable[[np.ndarray, tuple[int, ...] | None, bool, Any], Any]


def reduction(
    name: str,
    a: Operand,
    axis: object,
    kind: str,
    local: LocalReduction,
    keepdims: bool = False,
    where: Operand = True,
    finish: Callable[[np.ndarray], Any] | None = None,
    merges: bool = False,
) -> Application:
    """A reduction of ``a``, masked by ``where``, whose blocks ``local(block, axes, keepdims, mask)`` reduces."""
    axes = axes_of_ufunc(name, axis, len(a.shape))
    operands = (a,) if where is True else (a, where)
    shape, maps = broadcast_maps(name, [shape_of(operand) for operand in operands])
    if shape != a.shape:
        raise ShapeError(f"{name}: where has shape {shape_of(where)}; it must broadcast to {a.shape}")
    kept: IndexingMap = tuple([None if d in axes else d for d in range(len(shape)) if keepdims or d not in axes])
    iterators = tuple([Iterator(n, kind if d in axes else PARALLEL) for d, n in enumerate(shape)])
    along, keepdims = None if len(axes) == len(shape) else axes, bool(keepdims)

    def reduce_block(block: np.ndarray, mask: Any = True) -> Any:
        return local(block, along, keepdims, mask)

    return Application(name, operands, Interface(iterators, maps, (kept,)), reduce_block, kind, finish, merges)


def _masked(mask: Any) -> dict[str, Any]:
    return {} if mask is True else {"where": mask}


def cast_to(dtype: np.dtype) -> Callable[[Any], Any]:
    """A cast to ``dtype`` of a number, or of an array."""

    def cast(found: Any) -> Any:
        return found if found.dtype == dtype else numpy_scalar(found, dtype) if not found.ndim else found.astype(dtype)

    return cast


def _with_initial(
    name: str, initial: Any, kind: str, dtype: np.dtype, finish: Callable[[Any], Any] | None
) -> Callable[[Any], Any] | None:
    """``finish``, or what combines with ``initial`` first, if there is one, as a value of ``dtype``."""
    if initial is MISSING or initial is None:
        return finish
    value = np.asarray(initial)
    if value.ndim:
        raise ShapeError(f"{name}: initial has shape {value.shape}; it must be a number")
    value = value.astype(dtype)

    def add_initial(found: np.ndarray) -> Any:
        found = KINDS[kind].combine(found, value.astype(found.dtype))
        return found if finish is None else finish(found)

    return add_initial


def accumulation(
    name: str,
    a: Operand,
    axis: Axis,
    kind: str,
    result: np.dtype,
    keepdims: bool,
    initial: Any = MISSING,
    where: Operand = True,
    finish: Callable[[Any], Any] | None = None,
) -> Application:
    """A sum or a product: floats are added in at least 32 bits, and to a number in the wider steps of `total`.

    ``finish``: what is made of the totals before they are cast to the dtype of the ``result``.
    """
    ufunc: Any = KINDS[kind].combine
    check_reducible(name, kind, a.dtype)
    check_reducible(name, kind, result, "the result")
    working = working_dtype(result)
    loop = loop_dtype(working)

    def local(block: np.ndarray, axes: tuple[int, ...] | None, keepdims: bool, mask: Any) -> Any:
        if axes is None and mask is True and ufunc is np.add:
            found = total(block, working)
            return np.reshape(found, (1,) * block.ndim) if keepdims else found
        return ufunc.reduce(block, axis=axes, dtype=loop, keepdims=keepdims, **_masked(mask))

    if finish is None and not result == working == wide_dtype(working):
        finish = cast_to(result)
    # Partial values that wrap, or that the dtype of the result changes, must be combined before.
    merges = result == a.dtype and (result.kind not in "biu" or result.itemsize == 8)
    finish = _with_initial(name, initial, kind, result, finish)
    return reduction(name, a, axis, kind, local, keepdims, where, finish, merges)


def total_dtype(name: str, held: np.dtype, requested: DTypeLike | None, ufunc: Any = np.add) -> np.dtype:
    """The dtype of the total of cells of dtype ``held``; that of durations is their own.  Raises DTypeError."""
    if requested is None:
        return sum_dtype(held, ufunc)
    dtype = np.dtype(requested)
    if "m" not in (held.kind, dtype.kind):
        return dtype
    try:
        return ufunc.reduce(np.empty(0, held), dtype=dtype).dtype
    except TypeError as error:
        raise DTypeError(f"{name}: {error}") from None


def _of_ufunc(function: Callable[..., Any], kind: str) -> None:
    """Register ``function``, which is numpy's reduction by a ufunc with an identity."""

    @rule(function)
    def of_ufunc(
        a: Operand,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: Operand = None,
        keepdims: bool = False,
        initial: Any = MISSING,
        where: Operand = True,
    ) -> Application:
        check_reducible(function.__name__, kind, a.dtype)
        if dtype is None and out is not None and a.dtype.kind != "m":
            dtype = out.dtype
        result = total_dtype(function.__name__, a.dtype, dtype, KINDS[kind].combine)
        return accumulation(function.__name__, a, axis, kind, result, keepdims, initial, where)


_of_ufunc(np.sum, "sum")
_of_ufunc(np.prod, "product")


def _canonical(found: np.ndarray) -> Any:
    """An extreme of all cells, the same for every order: a zero has a plus sign, and NaN is numpy's."""
    if found.dtype.kind in "biumM":
        return found
    scalar = found.dtype.type
    if np.any(found != found):
        return np.full_like(found, scalar(complex(np.nan, np.nan) if found.dtype.kind == "c" else np.nan))
    return found + scalar(0)


def _of_extreme(function: Callable[..., Any], kind: str) -> None:
    """Register ``function``, which has no identity: blocks without cells contribute the least or greatest value."""
    ufunc: Any = KINDS[kind].combine

    @rule(function)
    def of_extreme(
        a: Operand,
        axis: Axis = None,
        out: Operand = None,
        keepdims: bool = False,
        initial: Any = MISSING,
        where: Operand = True,
    ) -> Application:
        check_reducible(kind, kind, a.dtype)
        axes = axes_of_ufunc(kind, axis, len(a.shape))
        if initial is MISSING:
            if where is not True:
                raise ValueError(f"{kind}: there is no identity: with a where mask, initial must be given")
            if any(a.shape[d] == 0 for d in axes):
                raise ShapeError(f"{kind}: a has shape {a.shape}; there must be a cell to take the {kind} of")
        least = identity(KINDS[kind], a.dtype)

        def local(block: np.ndarray, axes: tuple[int, ...] | None, keepdims: bool, mask: Any) -> Any:
            if mask is True and block.size:
                return ufunc.reduce(block, axis=axes, keepdims=keepdims)
            return ufunc.reduce(block, axis=axes, keepdims=keepdims, initial=least, **_masked(mask))

        finish = _with_initial(kind, initial, kind, a.dtype, _canonical if len(axes) == len(a.shape) else None)
        return reduction(kind, a, axis, kind, local, keepdims, where, finish, merges=True)


_of_extreme(np.max, "max")
_of_extreme(np.min, "min")


def _of_bools(function: Callable[..., Any], ufunc: np.ufunc, kind: str) -> None:
    """Register np.any or np.all, which combine bools."""

    @rule(function)
    def of_bools(
        a: Operand, axis: Axis = None, out: Operand = None, keepdims: bool = False, *, where: Operand = True
    ) -> Application:
        def local(block: np.ndarray, axes: tuple[int, ...] | None, keepdims: bool, mask: Any) -> Any:
            return ufunc.reduce(block, axis=axes, keepdims=keepdims, **_masked(mask))

        return reduction(function.__name__, a, axis, kind, local, keepdims, where, merges=a.dtype.kind == "b")


_of_bools(np.any, np.logical_or, "bitwise_or")
_of_bools(np.all, np.logical_and, "bitwise_and")


@rule(np.count_nonzero)
def count_nonzero(a: Operand, axis: Axis = None, *, keepdims: bool = False) -> Application:
    """np.count_nonzero: a sum of counts."""

    def local(block: np.ndarray, axes: tuple[int, ...] | None, keepdims: bool, mask: Any) -> Any:
        return np.asarray(np.count_nonzero(block, axis=axes, keepdims=keepdims), np.intp)

    return reduction("count_nonzero", a, axis, "sum", local, keepdims)
