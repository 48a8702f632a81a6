"""Compiled folds of a few short rows, called by address from compiled loops: one per reduction and element type."""

from __future__ import annotations

from typing import Any

import numba  # noqa: F401 - imported first: see compiled.py
import numpy as np
from numba import carray

from spmd_grid.kernels.address import load, pointer
from spmd_grid.kernels.compiled import Compiled, by_address, inner
from spmd_grid.kernels.reduce.rows import combine

__all__ = ["make"]


@inner
def _total(total: Any, count: int) -> Any:
    return total


@inner
def _quotient(total: float, count: int) -> float:
    return total / float(count)


@inner
def _single_quotient(total: Any, count: int) -> Any:
    return total / np.float32(count)


def make(operation: str, element: str) -> Compiled:
    """The kernel that folds elements by an operation, or "average"; see `short_fold` in variants.py."""
    combines, is_average = "sum" if operation == "average" else operation, operation == "average"
    end = (_single_quotient if element == "f4" else _quotient) if is_average else _total

    @by_address("int64(int64, int64, int64)", f"{operation}_{element}")
    def short_fold(rows: int, n: int, out: int) -> int:
        o, count = carray(pointer(out, element), n), load(rows, 0)
        steps = load(rows, count + 1)
        if steps:
            for i in range(n):
                total = part = carray(pointer(load(rows, load(rows, count + 2)), element), n)[i]
                is_first, is_new = True, False
                for step in range(count + 3, count + 2 + steps):
                    row = load(rows, step)
                    if row:
                        value = carray(pointer(load(rows, row), element), n)[i]
                        part = value if is_new else combine(combines, part, value)
                        is_new = False
                    else:
                        total = part if is_first else combine(combines, total, part)
                        is_first, is_new = False, True
                o[i] = end(part if is_first else combine(combines, total, part), count)
            return 0
        for i in range(n):
            total = carray(pointer(load(rows, 1), element), n)[i]
            for row in range(2, count + 1):
                total = combine(combines, total, carray(pointer(load(rows, row), element), n)[i])
            o[i] = end(total, count)
        return 0

    return short_fold
