"""Element types of reductions: results have numpy's dtype; additions on the way use a wider one where that is cheap."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from spmd_grid.errors import DTypeError
from spmd_grid.reduction_kind import is_numeric, reduces

__all__ = [
    "check_numeric",
    "check_reducible",
    "loop_dtype",
    "norm_dtype",
    "numpy_scalar",
    "part_dtype",
    "sum_dtype",
    "wide_dtype",
    "working_dtype",
]


def check_numeric(op: str, dtype: np.dtype, what: str = "a") -> None:
    """Refuse dtypes that have no reductions.  Raises DTypeError."""
    if not is_numeric(dtype):
        raise DTypeError(f"{op}: {what} has dtype {dtype}; reductions take numeric and bool dtypes")


def check_reducible(op: str, kind: str, dtype: np.dtype, what: str = "a") -> None:
    """Refuse dtypes that have no reduction of a ``kind``.  Raises DTypeError."""
    if not reduces(kind, dtype):
        of_times = ", max and min also times, and sum durations" if dtype.kind in "mM" else ""
        raise DTypeError(f"{op}: {what} has dtype {dtype}; reductions take numeric and bool dtypes{of_times}")


def loop_dtype(dtype: np.dtype) -> np.dtype | type[np.generic]:
    """``dtype`` as ufuncs take it: of times the kind alone, for they find the unit themselves and refuse one given."""
    return dtype.type if dtype.kind in "mM" else dtype


@cache
def sum_dtype(dtype: np.dtype, ufunc: np.ufunc = np.add) -> np.dtype:
    """The dtype of ``np.sum`` of cells of ``dtype``: 64-bit integers for integers and bool, else the same.

    ``ufunc``: np.multiply for that of ``np.prod``.

    >>> sum_dtype(np.dtype("bool")), sum_dtype(np.dtype("uint8")), sum_dtype(np.dtype("float32"))
    (dtype('int64'), dtype('uint64'), dtype('float32'))
    """
    return ufunc.reduce(np.empty(0, dtype)).dtype


@cache
def norm_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of ``np.linalg.norm``: float64 for integers and bool, else that of real parts."""
    return np.dtype(np.float64) if dtype.kind in "biu" else part_dtype(dtype).newbyteorder("=")


@cache
def working_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype in which cells are read for a result of ``dtype``: floats have at least 32 bits."""
    return dtype if dtype.kind in "biumM" else np.result_type(dtype, np.float32)


@cache
def wide_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype in which sums of runs of ``dtype`` are added: floats have at least 64 bits."""
    return dtype if dtype.kind in "biumM" else np.result_type(dtype, np.float64)


@cache
def part_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of real and imaginary parts; of a real dtype, the dtype itself.

    >>> part_dtype(np.dtype("complex64"))
    dtype('float32')
    """
    return np.empty(0, dtype).real.dtype


def numpy_scalar(value: ArrayLike, dtype: np.dtype) -> np.number:
    """``value``, one number, as a numpy scalar of ``dtype``; overflow raises no warning.  Local."""
    with np.errstate(all="ignore"):
        scalar: np.number = np.asarray(value).astype(dtype)[()]  # type: ignore[assignment]  # of 0 dimensions
    return scalar
