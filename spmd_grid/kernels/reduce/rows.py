"""Compiled folds: out = rows[0] op rows[1] op ..., in row order, one kernel per reduction and element type.

A kernel sees only addresses.  It combines four rows in one pass over a block of ``out`` that stays in the cache: each
row is read once, ``out`` is written to memory once, and four streams at a time suit the prefetchers (with one row per
pass, 8 rows of 8 MiB took twice as long).
"""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any

import numba  # noqa: F401 - imported first: see compiled.py
import numpy as np
from numba import carray, types
from numba.extending import overload

from spmd_grid.kernels.address import fold_at, load, pointer
from spmd_grid.kernels.compiled import Compiled, by_address
from spmd_grid.kernels.copy.streams import stream_rows
from spmd_grid.kernels.copy.vectors import LINE, drain, move
from spmd_grid.kernels.python_calls import on_integers
from spmd_grid.kernels.reduce.variants import BUFFER_BYTES

FOLD_BLOCK_BYTES = 1 << 16  # bytes of ``out`` at a time; measured 8 KiB to 256 KiB, flat from 64 KiB


def combine(operation: str, a: Any, b: Any) -> Any:
    """Two elements combined as numpy's ufunc does, bit for bit; ``operation`` is a literal string."""


@overload(combine, prefer_literal=True)
def _combine(operation: str, a: Any, b: Any) -> Callable[[str, Any, Any], Any]:
    variant: str = operation.literal_value  # type: ignore[attr-defined]  # numba passes the type of the literal
    if variant in ("max", "min") and isinstance(a, types.Complex):
        variant += " complex"
    return _OPERATIONS[variant]


def _add(operation: str, a: Any, b: Any) -> Any:
    return a + b


def _multiply(operation: str, a: Any, b: Any) -> Any:
    return a * b


def _max(operation: str, a: Any, b: Any) -> Any:  # of 0.0 and -0.0 the second, as numpy on x86
    return a if a > b or isnan(a) else b


def _min(operation: str, a: Any, b: Any) -> Any:
    return a if a < b or isnan(a) else b


def _complex_max(operation: str, a: Any, b: Any) -> Any:  # lexicographic, as CGE in numpy/_core/src/umath/loops.c.src
    if isnan(a.real) or isnan(a.imag):
        return a
    if a.real == b.real:
        return a if a.imag >= b.imag else b
    return a if a.real > b.real and not isnan(b.imag) else b


def _complex_min(operation: str, a: Any, b: Any) -> Any:
    if isnan(a.real) or isnan(a.imag):
        return a
    if a.real == b.real:
        return a if a.imag <= b.imag else b
    return a if a.real < b.real and not isnan(b.imag) else b


def _and(operation: str, a: Any, b: Any) -> Any:
    return a & b


def _or(operation: str, a: Any, b: Any) -> Any:
    return a | b


def _xor(operation: str, a: Any, b: Any) -> Any:
    return a ^ b


_OPERATIONS = {
    "sum": _add,
    "product": _multiply,
    "max": _max,
    "min": _min,
    "max complex": _complex_max,
    "min complex": _complex_min,
    "bitwise_and": _and,
    "bitwise_or": _or,
    "bitwise_xor": _xor,
}


def make(operation: str, dtype: str) -> Compiled:
    """The kernel that folds elements by an operation; see `fold_address` in variants.py."""
    itemsize = np.dtype(dtype).itemsize
    block, buffer_block = FOLD_BLOCK_BYTES // itemsize, BUFFER_BYTES // itemsize

    @by_address("int64(int64, int64, int64, int64, int64)", f"{operation}_{dtype}")
    def fold(rows: int, count: int, size: int, out: int, buffer: int) -> int:
        step = buffer_block if buffer else block
        for start in range(0, size, step):
            n = min(step, size - start)
            at = start * itemsize
            o = carray(pointer(buffer if buffer else out + at, dtype), n)
            a = carray(pointer(load(rows, 0) + at, dtype), n)
            row = 1
            if buffer or load(rows, 0) != out:
                if count > 3:
                    b = carray(pointer(load(rows, 1) + at, dtype), n)
                    c = carray(pointer(load(rows, 2) + at, dtype), n)
                    d = carray(pointer(load(rows, 3) + at, dtype), n)
                    for i in range(n):
                        ab = combine(operation, a[i], b[i])
                        o[i] = combine(operation, combine(operation, ab, c[i]), d[i])
                    row = 4
                elif count > 1:
                    b = carray(pointer(load(rows, 1) + at, dtype), n)
                    for i in range(n):
                        o[i] = combine(operation, a[i], b[i])
                    row = 2
                else:
                    for i in range(n):  # 'o[:] = a' could raise, with a text that only numba's runtime can make
                        o[i] = a[i]
            while row + 3 < count:
                a = carray(pointer(load(rows, row) + at, dtype), n)
                b = carray(pointer(load(rows, row + 1) + at, dtype), n)
                c = carray(pointer(load(rows, row + 2) + at, dtype), n)
                d = carray(pointer(load(rows, row + 3) + at, dtype), n)
                for i in range(n):
                    oab = combine(operation, combine(operation, o[i], a[i]), b[i])
                    o[i] = combine(operation, combine(operation, oab, c[i]), d[i])
                row += 4
            while row < count:
                a = carray(pointer(load(rows, row) + at, dtype), n)
                for i in range(n):
                    o[i] = combine(operation, o[i], a[i])
                row += 1
            if buffer and n * itemsize < LINE:
                move(buffer, out + at, n * itemsize)
            elif buffer:
                stream_rows(buffer, out + at, n * itemsize, 1, 0, 0, 1, 0, 0)
        if buffer:
            drain()  # as at the end of copy_rows
        return 0

    return fold


@on_integers
def fold_by_address(fold: int, rows: int, count: int, size: int, out: int, buffer: int) -> int:
    """Run the fold at an address, for `fold_rows`."""
    return fold_at(fold, rows, count, size, out, buffer)
