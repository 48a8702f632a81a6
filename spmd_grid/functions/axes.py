"""Dimensions as functions name them: numbers, from the end where negative, one or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from spmd_grid.errors import AxisError

__all__ = ["Axis", "as_row", "axes_of_ufunc", "cut", "laid_along", "one_axis", "reduced_axes", "several_axes"]

Axis = int | Sequence[int] | None


def several_axes(name: str, axis: object, ndim: int) -> tuple[int, ...]:
    """The dimensions that ``axis`` names, in its order.  Raises AxisError.

    >>> several_axes("transpose", (1, -2), 2)
    (1, 0)
    """
    if not _is_number(axis) and not (isinstance(axis, Sequence) and all(map(_is_number, axis))):
        raise AxisError(f"{name}: axis is {axis!r}; it must name dimensions of an array with {ndim} of them")
    try:
        return normalize_axis_tuple(axis, ndim)  # type: ignore[arg-type]  # whole numbers, as was just checked
    except ValueError as error:
        twice = "; it names a dimension twice" if "repeated" in str(error) else ""
        raise AxisError(
            f"{name}: axis is {axis!r}{twice or f'; it must name dimensions of an array with {ndim} of them'}"
        ) from None


def one_axis(name: str, axis: object, ndim: int) -> int:
    """The dimension that ``axis`` names.  Raises AxisError."""
    if not _is_number(axis) or not -ndim <= int(axis) < ndim:  # type: ignore[call-overload]  # it is a whole number
        raise AxisError(f"{name}: axis is {axis!r}; it must be one of the {ndim} dimensions of the array")
    return int(axis) % ndim  # type: ignore[call-overload]  # it is a whole number


def reduced_axes(name: str, axis: object, ndim: int) -> tuple[int, ...]:
    """The dimensions that ``axis`` names, in ascending order; all of them for None.  Raises AxisError."""
    return tuple(range(ndim)) if axis is None else tuple(sorted(several_axes(name, axis, ndim)))


def axes_of_ufunc(name: str, axis: object, ndim: int) -> tuple[int, ...]:
    """As `reduced_axes`, but 0 and -1 name no dimension of an array that has none, as in numpy's ufuncs."""
    return () if not ndim and _is_first(axis) else reduced_axes(name, axis, ndim)


def as_row(a: Any, axis: object) -> Any:
    """``a``, or a row of its one cell if it has no dimensions and ``axis`` is 0 or -1, as some of numpy's functions."""
    return np.reshape(a, (1,)) if not a.ndim and _is_first(axis) else a


def laid_along(index: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """A plain 1-d array, laid along one of ``ndim`` dimensions."""
    return index.reshape([-1 if d == axis else 1 for d in range(ndim)])


def cut(axis: int, *bounds: int | None) -> tuple[slice, ...]:
    """The index that cuts one dimension by ``slice(*bounds)``."""
    return (*[slice(None)] * axis, slice(*bounds))


def _is_first(axis: object) -> bool:
    return _is_number(axis) and axis in (0, -1)


def _is_number(x: object) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)
