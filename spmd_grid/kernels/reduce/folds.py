"""Folds by the faster path: numpy for small, unusual and two-row reductions, compiled kernels for the others.

Both paths give the same bits, so that processes may choose differently.  (Of NaNs, sign and payload depend on the
processor.)  numpy's ufuncs run at the speed of memory too, especially for two rows; the kernels are faster for more
rows, of which they read four in one pass, and for complex max and min, which numpy does one by one.
"""

from __future__ import annotations

import numpy as np

from spmd_grid.errors import DTypeError, ReductionError, ShapeError
from spmd_grid.kernels import reference
from spmd_grid.kernels.array_object import address_of
from spmd_grid.kernels.reduce.variants import BUFFER_BYTES, fold_rows, supports
from spmd_grid.reduction_kind import KINDS

__all__ = ["COMPILED_FROM", "fold", "fold_addresses"]

COMPILED_FROM = 1 << 16  # bytes of all rows: below it a call of numpy per row is as fast as a kernel
STREAMED_FROM = 8 << 20  # bytes of the result: from here on it is streamed past the caches


def fold(kind: str, stack: np.ndarray, out: np.ndarray) -> None:
    """out[:] = stack[0] op stack[1] op ..., in row order, with the element meaning of numpy's ufunc.

    Local.  ``stack`` has shape (rows, elements), ``out`` (elements,), of one dtype.  ``out`` may be ``stack[0]`` and
    must not overlap the other rows.
    """
    if stack.ndim != 2 or out.shape != stack.shape[1:] or not len(stack):
        raise ShapeError(
            f"fold of shape {stack.shape} into {out.shape}; it takes (rows, elements), rows >= 1, (elements,)"
        )
    if stack.dtype != out.dtype:
        raise DTypeError(f"fold of dtype {stack.dtype} into {out.dtype}; convert before reducing")
    step = stack.strides[0]
    if _is_compiled(kind, len(stack), out) and step and stack.strides[1] == out.itemsize and stack.flags.aligned:
        first = address_of(stack)
        _run_compiled(kind, np.arange(first, first + step * len(stack), step), out)
    else:
        reference.fold(kind, stack, out)


def fold_addresses(kind: str, addresses: np.ndarray, n: int, out: np.ndarray) -> None:
    """Like ``fold``, with rows of ``n`` contiguous, aligned elements of ``out``'s dtype at ``addresses`` (int64).

    Local.  The caller keeps the rows alive.
    """
    if out.shape != (n,) or not len(addresses):
        raise ShapeError(f"fold of {len(addresses)} rows of {n} into {out.shape}; it takes rows >= 1 and out of ({n},)")
    if _is_compiled(kind, len(addresses), out):
        _run_compiled(kind, addresses, out)
    else:
        reference.fold_addresses(kind, addresses, n, out)


def _is_compiled(kind: str, rows: int, out: np.ndarray) -> bool:
    if kind not in KINDS:
        raise ReductionError(f"fold by {kind!r}; it must be one of {', '.join(KINDS)}")
    if rows * out.nbytes < COMPILED_FROM:
        return False
    if rows < 3 and out.nbytes < STREAMED_FROM and not (out.dtype.kind == "c" and kind in ("max", "min")):
        return False
    return supports(out.dtype, kind) and out.flags.carray  # contiguous, aligned and writeable


def _run_compiled(kind: str, addresses: np.ndarray, out: np.ndarray) -> None:
    buffer = np.empty(BUFFER_BYTES, np.uint8) if out.nbytes >= STREAMED_FROM else None
    fold_rows(kind, out.dtype, addresses, out.size, address_of(out), 0 if buffer is None else address_of(buffer))
