"""Correct rounding of exact numbers ``n * 2**exponent``, n any integer, to floating-point scalars: ties to even."""

from __future__ import annotations

from math import isqrt, ldexp

import numpy as np

__all__ = ["rounded", "rounded_root"]


def rounded(n: int, exponent: int, dtype: np.dtype) -> np.floating:
    """The float of ``dtype`` (16, 32 or 64 bits) nearest to n * 2**exponent; infinite if rounding overflows.

    Local.  Zero has a plus sign, also if a negative number is rounded to it.

    >>> rounded(2**60 + 1, -60, np.dtype("float32")), rounded(3, -1075, np.dtype("float64")), rounded(-1, 16, "float16")
    (np.float32(1.0), np.float64(1e-323), np.float16(-inf))
    """
    info = np.finfo(dtype)
    surplus = max(n.bit_length() - (info.nmant + 1), info.minexp - info.nmant - exponent)
    if surplus > 0:
        kept = n >> surplus
        rest, half = n - (kept << surplus), 1 << (surplus - 1)
        n = kept + (rest > half or (rest == half and kept & 1))
        exponent += surplus
    if not n:
        return info.dtype.type(0)
    if n.bit_length() + exponent > info.maxexp:
        return info.dtype.type(-np.inf if n < 0 else np.inf)
    return info.dtype.type(ldexp(n, exponent))


def rounded_root(n: int, exponent: int, dtype: np.dtype) -> np.floating:
    """The float of ``dtype`` nearest to the square root of n * 2**exponent; ``exponent`` must be even.

    Local.

    >>> rounded_root(2 << 2000, -2000, np.dtype("float64")), rounded_root(9, 2000, np.dtype("float64")) / 2.0**1000
    (np.float64(1.4142135623730951), np.float64(3.0))
    """
    n <<= 128  # now the root has 64 bits or more: more than any result keeps
    root = isqrt(n)
    inexact = root * root != n  # an odd last bit, if the root is inexact
    return rounded(root << 1 | inexact, (exponent - 128) // 2 - 1, dtype)
