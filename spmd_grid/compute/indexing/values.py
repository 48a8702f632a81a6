"""Checks of the values that are written: all processes make them alike, before any cell is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.compute.splits import ArrayOnGrid, is_sharded
from spmd_grid.errors import DTypeError, ShapeError
from spmd_grid.ops.calls.arguments import as_array
from spmd_grid.plain_arrays import check_plain
from spmd_grid.typing import Shape

__all__ = ["check_dtype", "fitting", "plain_value"]


def plain_value(value: Any) -> Any:
    """``value`` as an array, or a number as it is.  Local.  Raises DTypeError."""
    if isinstance(value, np.ndarray | np.generic | int | float | complex):
        check_plain("setitem", "value", value)
        return value
    return as_array("setitem", value, "value")


def fitting(a: ArrayOnGrid, value: Any, shape: Shape) -> Any:
    """``value``, which must broadcast to ``shape``, without the dimensions that it has beyond that.

    Collective over the grid of a sharded value with such dimensions.
    """
    found = value.shape if is_sharded(value) else np.shape(value)
    extra = max(len(found) - len(shape), 0)
    if found[:extra] != (1,) * extra or not _broadcasts(found[extra:], shape):
        raise ShapeError(f"setitem: value has shape {found}; it must broadcast to {shape}")
    check_dtype(a, value)
    if not extra:
        return value
    first: Any = value
    return first[(0,) * extra] if is_sharded(value) else np.reshape(value, found[extra:])


def check_dtype(a: ArrayOnGrid, value: Any) -> None:
    """Refuse a value that the cells of ``a`` cannot hold.  Local.  Raises DTypeError."""
    dtype = value.dtype if isinstance(value, np.ndarray) or is_sharded(value) else np.asarray(value).dtype
    if dtype.kind not in "biufc" and not np.can_cast(dtype, a.dtype, "same_kind"):
        raise DTypeError(f"setitem: value has dtype {dtype}; it cannot be cast to {a.dtype}")
    if not is_sharded(value) and not np.ndim(value):
        try:
            np.empty((), a.dtype)[...] = value
        except (TypeError, ValueError, OverflowError) as error:  # such as a complex number, or one out of bounds
            raise DTypeError(f"setitem: value is {value!r}, and the dtype is {a.dtype}: {error}") from None


def _broadcasts(shape: Shape, target: Shape) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False
