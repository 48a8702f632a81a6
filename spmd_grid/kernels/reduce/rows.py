"""Compiled folds: out = rows[0] op rows[1] op ..., in row order, one kernel per reduction and element type.

A kernel sees only addresses.  It combines four rows in one pass over a block of ``out`` that stays in the cache: each
row is read once, ``out`` is written to memory once, and four streams at a time suit the prefetchers (with one row per
pass, 8 rows of 8 MiB took twice as long).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isnan
from threading import Lock
from typing import Any

import numba  # noqa: F401 - imported first: see compiled.py
import numpy as np
from numba import carray, types
from numba.extending import overload

from spmd_grid.kernels.address import fold_at, load, pointer
from spmd_grid.kernels.compiled import by_address, kernel
from spmd_grid.kernels.copy.streams import stream_rows
from spmd_grid.kernels.copy.vectors import LINE, drain, move

BLOCK = 1 << 16  # bytes of ``out`` at a time; measured 8 KiB to 256 KiB, flat from 64 KiB
BUFFER_BYTES = 1 << 14  # of a buffer in which a block is folded before it is streamed past the caches


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
_BOOL_IS = {
    "sum": "bitwise_or",
    "max": "bitwise_or",
    "product": "bitwise_and",
    "min": "bitwise_and",
}


def _make(operation: str, dtype: str) -> Any:
    itemsize = np.dtype(dtype).itemsize
    block, buffer_block = BLOCK // itemsize, BUFFER_BYTES // itemsize

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
                    o[:] = a
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


@kernel("void(int64, int64[::1], int64, int64, int64)")
def _fold_rows(fold: int, rows: np.ndarray, size: int, out: int, buffer: int) -> None:
    fold_at(fold, rows.ctypes.data, rows.size, size, out, buffer)


_kernels: dict[tuple[str, np.dtype], tuple[Callable[[np.ndarray, int, int, int], None], Any]] = {}
_lock = Lock()


def kernel_of(kind: str, dtype: np.dtype) -> Callable[[np.ndarray, int, int, int], None]:
    """The kernel of a reduction kind and dtype, compiled or loaded from the cache at its first use.

    Local, and safe to call from several threads.  A kernel takes (int64 array of row addresses, elements per row,
    address of the result, address of a buffer of BUFFER_BYTES or 0), all aligned to the dtype; with a buffer the result
    is streamed past the caches.
    The result may be the first row, in place; it must not overlap the others.
    """
    return _compiled_fold(kind, dtype)[0]


def fold_address(kind: str, dtype: np.dtype) -> int:
    """The address of the same kernel for compiled code, which takes the address and the number of the row addresses.

    Local.  ``int64 fold(rows, count, elements, out, buffer)``: see `fold_at`.
    """
    return _compiled_fold(kind, dtype)[1].address


def _compiled_fold(kind: str, dtype: np.dtype) -> tuple[Callable[[np.ndarray, int, int, int], None], Any]:
    key = kind, dtype
    found = _kernels.get(key)
    if found is None:
        with _lock:
            found = _kernels.get(key)
            if found is None:
                fold = _make(*element_operation(kind, dtype))
                found = _kernels[key] = partial(_fold_rows, fold.address), fold
    return found


def element_operation(kind: str, dtype: np.dtype) -> tuple[str, str]:
    """The operation on two elements by which a reduction kind folds arrays of ``dtype``, and their type string.

    Local.
    """
    operation = "sum" if kind == "average" else kind
    if dtype.kind == "b":  # bytes of 0 and 1
        return _BOOL_IS.get(operation, operation), "u1"
    return operation, dtype.str[1:]
