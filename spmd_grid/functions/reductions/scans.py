"""Running sums and their like: of one block, and the element types of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from spmd_grid.errors import DTypeError
from spmd_grid.functions.dtypes import loop_dtype

__all__ = ["ASSOCIATIVE", "added", "scanned", "scanned_dtype"]

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
        return function(x, axis=axis, dtype=loop_dtype(dtype), out=out)
    if out is None:
        out = np.empty(x.shape, dtype)
    rows, sums = (iter(np.moveaxis(each, axis, 0)) for each in (x.astype(dtype, copy=False), out))
    before = next(sums)
    before[...] = next(rows)
    for row, own in zip(rows, sums):
        before = combine(before, row, out=own)
    return out


def added(
    combine: np.ufunc, before: np.ndarray, block: np.ndarray, axis: int, out: np.ndarray | None = None
) -> np.ndarray:
    """The scan of a block, combined with what the scans of the blocks ``before`` it end with, in their order."""
    loop = loop_dtype(block.dtype)
    carried = np.expand_dims(combine.reduce(before, axis=0, dtype=loop), axis)
    found: np.ndarray = combine(carried, block, out=out, dtype=loop)
    return found


@lru_cache(512)
def scanned_dtype(name: str, function: Callable[..., Any], combine: np.ufunc, held: np.dtype, dtype: Any) -> np.dtype:
    """The dtype of a running sum or the like, by ``function``, of cells of dtype ``held``.

    All steps of a scan are tried on one cell, so what numpy refuses in one is refused here.  Raises DTypeError.
    """
    try:
        found: np.dtype = function(np.ones(1, held), dtype=dtype).dtype
        if combine in ASSOCIATIVE:
            block = scanned(function, combine, np.ones(1, held), 0, found)
            added(combine, block, block, 0, np.empty_like(block))
    except TypeError as error:
        raise DTypeError(f"{name}: {error}") from None
    return found
