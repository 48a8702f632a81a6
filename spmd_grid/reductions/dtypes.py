"""Element types of reductions: what comes out is numpy's, and it is added in something wider where that is cheap."""

from __future__ import annotations

from functools import cache

import numpy as np

__all__ = ["norm_dtype", "part_dtype", "sum_dtype", "wide_dtype", "working_dtype"]


@cache
def sum_dtype(dtype: np.dtype) -> np.dtype:
    """What ``np.sum`` makes of ``dtype``: integers of 64 bits of integers and bool, else the same.

    >>> sum_dtype(np.dtype("bool")), sum_dtype(np.dtype("uint8")), sum_dtype(np.dtype("float32"))
    (dtype('int64'), dtype('uint64'), dtype('float32'))
    """
    return np.add.reduce(np.empty(0, dtype)).dtype


@cache
def norm_dtype(dtype: np.dtype) -> np.dtype:
    """What ``np.linalg.norm`` makes of ``dtype``: float64 of integers and bool, else that of real parts."""
    return np.dtype(np.float64) if dtype.kind in "biu" else part_dtype(dtype).newbyteorder("=")


@cache
def working_dtype(dtype: np.dtype) -> np.dtype:
    """In what the cells of a result of ``dtype`` are read: floats in at least 32 bits."""
    return dtype if dtype.kind in "iu" else np.result_type(dtype, np.float32)


@cache
def wide_dtype(dtype: np.dtype) -> np.dtype:
    """In what the sums of runs of ``dtype`` are added: floats in at least 64 bits."""
    return dtype if dtype.kind in "iu" else np.result_type(dtype, np.float64)


@cache
def part_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of real and imaginary parts; that of real numbers is their own.

    >>> part_dtype(np.dtype("complex64"))
    dtype('float32')
    """
    return np.empty(0, dtype).real.dtype
