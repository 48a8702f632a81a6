"""Compiled folds of a few short rows, called by address from compiled loops: one per reduction and element type."""

from __future__ import annotations

from functools import cache
from typing import Any

import numba  # noqa: F401 - imported first: see compiled.py
import numpy as np
from numba import carray

from spmd_grid.kernels.address import load, pointer
from spmd_grid.kernels.compiled import by_address, inner
from spmd_grid.kernels.reduce.folds import supports
from spmd_grid.kernels.reduce.rows import combine, element_operation

__all__ = ["short_fold"]


@cache
def short_fold(kind: str, dtype: np.dtype) -> int:
    """The address of a compiled fold, compiled or loaded from the cache; 0 where there is none for these.

    Local.  ``int64 fold(rows, n, out)``: ``rows`` is the address of words: the number of rows, then their addresses;
    ``out``, of ``n`` elements, may be one of the rows.  The bits are those of `fold`; an average is divided as numpy
    divides, and there is none of complex numbers.
    """
    if not supports(dtype, kind) or (kind == "average" and dtype.kind != "f"):
        return 0
    operation, element = element_operation(kind, dtype)
    return _compiled(operation, element, kind == "average").address


@inner
def _total(total: Any, count: int) -> Any:
    return total


@inner
def _quotient(total: float, count: int) -> float:
    return total / float(count)


@inner
def _single_quotient(total: Any, count: int) -> Any:
    return total / np.float32(count)


def _compiled(operation: str, element: str, is_average: bool) -> Any:
    end = (_single_quotient if element == "f4" else _quotient) if is_average else _total

    def fold(rows: int, n: int, out: int) -> int:
        o, count = carray(pointer(out, element), n), load(rows, 0)
        for i in range(n):
            total = carray(pointer(load(rows, 1), element), n)[i]
            for row in range(2, count + 1):
                total = combine(operation, total, carray(pointer(load(rows, row), element), n)[i])
            o[i] = end(total, count)
        return 0

    fold.__name__ = f"short_{'average' if is_average else operation}_{element}"
    return by_address("int64(int64, int64, int64)")(fold)
