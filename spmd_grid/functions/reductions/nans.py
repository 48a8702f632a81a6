"""numpy's reductions that leave out NaNs: the reductions themselves, masked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spmd_grid.functions.axes import Axis
from spmd_grid.functions.reductions.rules import MISSING
from spmd_grid.functions.table import Operand, certainly, composite
from spmd_grid.reduction_kind import KINDS, identity

__all__: list[str] = []


def _numbers(a: Operand, where: Operand = MISSING, kinds: str = "fc") -> Operand:
    """A mask of the cells that are numbers, among those of ``where``; True where all are, as of all dtypes but some."""
    mask = where is MISSING or where
    if a.dtype.kind not in kinds:
        return mask
    numbers = ~np.isnan(a)
    return numbers if mask is True else numbers & where


def _missing(dtype: np.dtype) -> np.generic:
    """NaN, or NaT, as a number of ``dtype``."""
    return np.asarray("NaT" if dtype.kind in "mM" else np.nan, dtype)[()]  # type: ignore[return-value]  # a scalar


def _of_masked(function: Callable[..., Any], masked: Callable[..., Any]) -> None:
    """Register ``function``, which is ``masked`` with a mask, and takes the same arguments in the same order."""

    @composite(function)
    def of_masked(a: Operand, *args: Any, where: Operand = MISSING, **options: Any) -> Operand:
        return masked(a, *args, where=_numbers(a, where), **options)


for _function, _masked in (
    (np.nansum, np.sum),
    (np.nanprod, np.prod),
    (np.nanmean, np.mean),
    (np.nanvar, np.var),
    (np.nanstd, np.std),
):
    _of_masked(_function, _masked)


def _of_extreme(function: Callable[..., Any], extreme: Callable[..., Any], kind: str) -> None:
    """Register ``function``, which is ``extreme`` of the numbers, and NaN where there is none."""

    @composite(function)
    def of_extreme(
        a: Operand,
        axis: Axis = None,
        out: Operand = None,
        keepdims: bool = False,
        initial: Any = MISSING,
        where: Operand = MISSING,
    ) -> Operand:
        if a.dtype.kind not in "fcmM" or 0 in a.shape:  # no NaN, or what `extreme` says of no cells
            return extreme(a, axis, keepdims=keepdims, initial=initial, where=where is MISSING or where)
        if where is not MISSING and initial is MISSING:
            raise ValueError(f"nan{kind}: there is no identity: with a where mask, initial must be given")
        numbers = _numbers(a, where, "fcmM")  # numpy leaves out times that are NaT here, and nowhere else
        least = identity(KINDS[kind], a.dtype) if initial is MISSING else initial
        found = extreme(a, axis, keepdims=keepdims, initial=least, where=numbers)
        if initial is not MISSING:
            return found
        has_numbers: Any = np.any(numbers, axis, keepdims=keepdims)  # type: ignore[arg-type]  # lists too
        found = np.where(has_numbers, found, _missing(a.dtype))
        return found[()] if isinstance(found, np.ndarray) else found


_of_extreme(np.nanmax, np.max, "max")
_of_extreme(np.nanmin, np.min, "min")


def _of_position(function: Callable[..., Any], position: Callable[..., Any], kind: str) -> None:
    """Register ``function``, which is ``position`` with the least or greatest value in place of each NaN."""

    @composite(function)
    def of_position(a: Operand, axis: int | None = None, out: Operand = None, *, keepdims: bool = False) -> Operand:
        if a.dtype.kind in "fc":
            numbers = _numbers(a)
            if certainly(np.logical_not(np.all(np.any(numbers, axis)))):
                raise ValueError(f"{function.__name__}: All-NaN slice encountered; each slice must have a number")
            a = np.where(numbers, a, identity(KINDS[kind], a.dtype))
        return position(a, axis, keepdims=keepdims)


_of_position(np.nanargmax, np.argmax, "max")
_of_position(np.nanargmin, np.argmin, "min")


def _of_scan(function: Callable[..., Any], scan: Callable[..., Any], neutral: int) -> None:
    """Register ``function``, which is ``scan`` with ``neutral`` in place of each NaN."""

    @composite(function)
    def of_scan(a: Operand, axis: int | None = None, dtype: Any = None, out: Operand = None) -> Operand:
        return scan(np.where(_numbers(a), a, a.dtype.type(neutral)) if a.dtype.kind in "fc" else a, axis, dtype)


_of_scan(np.nancumsum, np.cumsum, 0)
_of_scan(np.nancumprod, np.cumprod, 1)
