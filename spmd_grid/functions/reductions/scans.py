"""Running sums and their like: of one block, and the element types of them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.errors import DTypeError

__all__ = ["ASSOCIATIVE", "scanned", "scanned_dtype"]

# Ufuncs f with f(f(a, b), c) == f(a, f(b, c)): what blocks end with can be combined.
ASSOCIATIVE = {
    *(np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp, np.logaddexp2, np.hypot),
    *(np.logical_and, np.logical_or, np.logical_xor, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.gcd, np.lcm),
}

# Cells after one of the scanned dimension.  numpy walks columns, one at a time, and each touches every line of a block;
# from here on a call for every row is faster, twentyfold where a block exceeds the caches.
_WIDE = 128


def scanned(
    function: Callable[..., Any],
    combine: np.ufunc,
    x: np.ndarray,
    axis: int,
    dtype: np.dtype,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """``function(x, axis, dtype, out)``, which is the accumulate of ``combine``, cumsum or cumprod; the same bits.

    For ufuncs that are not associative, numpy may round a row in another way than a cell, as it does for arctan2.

    >>> scanned(np.cumsum, np.add, np.array([[1, 2], [3, 4]]), 0, np.dtype(int))
    array([[1, 2],
           [4, 6]])
    """
    if prod(x.shape[axis + 1 :]) < _WIDE or x.shape[axis] < 2 or combine not in ASSOCIATIVE:
        return function(x, axis=axis, dtype=dtype, out=out)
    if out is None:
        out = np.empty(x.shape, dtype)
    rows, sums = (iter(np.moveaxis(each, axis, 0)) for each in (x.astype(dtype, copy=False), out))
    before = next(sums)
    before[...] = next(rows)
    for row, own in zip(rows, sums):
        before = combine(before, row, out=own)
    return out


def scanned_dtype(name: str, function: Callable[..., Any], held: np.dtype, dtype: DTypeLike | None) -> np.dtype:
    """The dtype of a running sum or the like, by ``function``, of cells of dtype ``held``.  Raises DTypeError."""
    try:
        found: np.dtype = function(np.ones(1, held), dtype=dtype).dtype
    except TypeError as error:
        raise DTypeError(f"{name}: {error}") from None
    return found
