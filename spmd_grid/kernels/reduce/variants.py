"""Compiled folds by reduction kind and dtype: one kernel each, compiled or loaded at its first use."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from threading import Lock

import numpy as np

from spmd_grid.kernels import machine_code
from spmd_grid.kernels.array_object import address_of
from spmd_grid.kernels.loading import function_at
from spmd_grid.reduction_kind import KINDS

__all__ = ["BUFFER_BYTES", "fold_address", "fold_rows", "short_fold", "supports"]

BUFFER_BYTES = 1 << 14  # of a buffer in which a block is folded before it is streamed past the caches

_SUPPORTED = frozenset(np.dtype(code).str for code in "?bBhHiIqQfdFD")
_BOOL_IS = {
    "sum": "bitwise_or",
    "max": "bitwise_or",
    "product": "bitwise_and",
    "min": "bitwise_and",
}
_lock = Lock()


@cache
def supports(dtype: np.dtype, kind: str = "sum") -> bool:
    """Whether a compiled kernel reduces ``dtype`` by ``kind``: native bool, integers, 4 and 8 byte floats, complex.

    Local.  A complex product is left to numpy: its fused multiply-add, and so the last bit, depends on the machine.
    """
    if dtype.str not in _SUPPORTED:
        return False
    if kind == "product":
        return dtype.kind != "c"
    return dtype.kind in "biu" if kind.startswith("bitwise") else kind in KINDS


def fold_rows(kind: str, dtype: np.dtype, addresses: np.ndarray, n: int, out: int, buffer: int) -> None:
    """Folds rows of ``n`` elements at ``addresses`` (int64) into the one at address ``out``; all aligned to the dtype.

    Local, and safe to call from several threads.  ``buffer``: the address of BUFFER_BYTES, by which the result is
    streamed past the caches, or 0.  The result may be the first row, in place; it must not overlap the others.
    """
    run = function_at("reduce.rows.fold_by_address")
    run(fold_address(kind, dtype), address_of(addresses), addresses.size, n, out, buffer)


@cache
def fold_address(kind: str, dtype: np.dtype) -> int:
    """The address of the kernel of a reduction kind and dtype for compiled code.

    Local.  ``int64 fold(rows, count, elements, out, buffer)``: see `fold_at`.
    """
    return _address("reduce.rows", "fold", *_element_operation(kind, dtype))


@cache
def short_fold(kind: str, dtype: np.dtype) -> int:
    """The address of a compiled fold of a few short rows; 0 where there is none for these.

    Local.  ``int64 fold(rows, n, out)``: ``rows`` is the address of words: the number of rows, their addresses, and the
    number of words that follow.  These list groups of rows, which are folded first, by the numbers of their rows, from
    1 on, with a 0 between two groups; without any, rows are folded one after the other.  ``out``, of ``n`` elements,
    may be one of the rows.  The bits are those of `fold`; an average is divided as numpy divides, and there is none of
    complex numbers.
    """
    if not supports(dtype, kind) or (kind == "average" and dtype.kind != "f"):
        return 0
    operation, element = _element_operation(kind, dtype)
    return _address("reduce.short_folds", "short_fold", "average" if kind == "average" else operation, element)


def _address(module: str, function: str, operation: str, element: str) -> int:
    """The address of one of the functions that ``make(operation, element)`` of a module compiles."""
    path = f"{module}.{function}.{operation}_{element}"
    with _lock:
        found: int = machine_code.find(path)
        return found or import_module(f"spmd_grid.kernels.{module}").make(operation, element).address


def _element_operation(kind: str, dtype: np.dtype) -> tuple[str, str]:
    """The operation on two elements by which a reduction kind folds arrays of ``dtype``, and their type string."""
    operation = "sum" if kind == "average" else kind
    if dtype.kind == "b":  # bytes of 0 and 1
        return _BOOL_IS.get(operation, operation), "u1"
    return operation, dtype.str[1:]
