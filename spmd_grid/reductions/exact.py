"""Sums that are exact until one rounding at the end, as rows of words of ``kernels/reduce/superaccumulator.py``.

Integers add in any order, so the words of all processes are combined by an all_reduce of int64, and the result does not
depend on how the cells were spread.  A complex sum has a row for the real part and one for the imaginary part.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import cast

import numpy as np

from spmd_grid.errors import DTypeError
from spmd_grid.functions.dtypes import numpy_scalar, part_dtype, working_dtype
from spmd_grid.functions.reductions.totals import runs
from spmd_grid.kernels.array_object import address_of
from spmd_grid.reductions.rounding import rounded, rounded_root

__all__ = ["check_exact", "exact_products", "exact_squares", "exact_sum", "root_of", "value_of"]


def check_exact(op: str, dtype: np.dtype) -> None:
    """Refuse results that are wider than doubles.  Local.  Raises DTypeError."""
    if part_dtype(working_dtype(dtype)).itemsize > 8:
        raise DTypeError(
            f"{op}: reproducible=True with a result of dtype {dtype}; it takes floats of up to 64 bits, and complex"
            " numbers of two of them"
        )


def exact_sum(cells: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The words of the sum of ``cells``, for a result of ``dtype``: one row, or two if it is complex.  Local."""
    working, parts = part_dtype(working_dtype(dtype)), _parts(cells)
    words = _no_words(len(parts))
    adders = _superaccumulator().adders_of(working)
    for row, part in zip(words, parts, strict=True):
        for (run,) in runs(working, part):
            adders.numbers(row, address_of(run), run.size)
    return words


def exact_products(x: np.ndarray, y: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The words of the sum of x * y, for a result of ``dtype``: one row, or two if it is complex.

    Local.  Complex numbers are multiplied part by part; a real number has one part.
    """
    working = part_dtype(working_dtype(dtype))
    words = _no_words(2 if dtype.kind == "c" else 1)
    less = _no_words(1)
    for i, part in enumerate(_parts(x)):
        for j, other in enumerate(_parts(y)):
            _add_products(less[0] if i and j else words[i ^ j], part, other, working)
    limbs = _superaccumulator().LIMBS
    words[0, :limbs] -= less[0, :limbs]
    words[0, limbs:] += less[0, [limbs + 1, limbs, limbs + 2]]  # infinities change their sign
    return words


def exact_squares(cells: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The words, one row, of the sum of squares of all parts of ``cells``, for a real result of ``dtype``.  Local."""
    words = _no_words(1)
    for part in _parts(cells):
        _add_products(words[0], part, part, working_dtype(dtype))
    return words


def value_of(words: np.ndarray, dtype: np.dtype) -> np.number:
    """The combined ``words`` rounded to a scalar of ``dtype``.  Local."""
    if dtype.kind != "c":
        return _rounded_row(words[0], dtype, rounded)
    real, imag = [_rounded_row(row, part_dtype(dtype), rounded) for row in words]
    return dtype.type(complex(real, imag))


def root_of(words: np.ndarray, dtype: np.dtype) -> np.floating:
    """The square root of the combined ``words``, rounded once to a scalar of ``dtype``.  Local."""
    return cast(np.floating, _rounded_row(words[0], dtype, rounded_root))


def _rounded_row(row: np.ndarray, dtype: np.dtype, rounding: Callable[[int, int, np.dtype], np.floating]) -> np.number:
    if dtype.kind == "V":  # an extension float: numpy can only convert to it
        return numpy_scalar(_rounded_row(row, np.dtype(np.float64), rounding), dtype)
    limbs, (above, below, nans) = np.split(row, [_superaccumulator().LIMBS])
    if nans or (above and below):
        return dtype.type(np.nan)
    if above or below:
        return dtype.type(np.inf if above else -np.inf)
    n = 0
    for limb in reversed(limbs.tolist()):
        n = (n << 32) + limb
    return rounding(n, _superaccumulator().LOWEST, dtype)


def _add_products(row: np.ndarray, x: np.ndarray, y: np.ndarray, working: np.dtype) -> None:
    adders = _superaccumulator().adders_of(working)
    for one, other in runs(working, x, y):
        adders.products(row, address_of(one), address_of(other), one.size)


def _parts(x: np.ndarray) -> list[np.ndarray]:
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def _no_words(rows: int) -> np.ndarray:
    return np.zeros((rows, _superaccumulator().WORDS), np.int64)


def _superaccumulator() -> ModuleType:
    """The compiled kernels, loaded at first use: they load numba."""
    from spmd_grid.kernels.reduce import superaccumulator

    return superaccumulator
