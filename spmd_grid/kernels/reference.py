"""The numpy twins of the compiled kernels: the oracle of the tests, and the path of small and unusual arrays."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from spmd_grid.kernels.copy.tables import FIXED_COLUMNS
from spmd_grid.kernels.memory import strided_bytes_at
from spmd_grid.reduction_kind import KINDS

__all__ = ["copy_boxes", "copy_boxes_between", "fold", "fold_addresses", "sum_rows"]

RESULT_BLOCK_BYTES = 1 << 18  # bytes of the result at a time, so that they stay in the L2 cache


def copy_boxes(table: np.ndarray, source_base: int, target_base: int) -> None:
    """Copy every box of ``table`` between two base addresses; the base columns are not read.  Local."""
    for row in table.tolist():
        _copy_row(row, source_base, target_base)


def copy_boxes_between(table: np.ndarray, source_bases: np.ndarray, target_bases: np.ndarray) -> None:
    """Copy every box of ``table`` from and to the base addresses that its base columns index.  Local."""
    for row in table.tolist():
        _copy_row(row, int(source_bases[row[2]]), int(target_bases[row[3]]))


def _copy_row(row: list[int], source_base: int, target_base: int) -> None:
    ndim = (len(row) - FIXED_COLUMNS) // 3
    dims = row[FIXED_COLUMNS:]
    shape, source, target = (tuple(dims[i * ndim : (i + 1) * ndim]) for i in range(3))
    np.copyto(
        strided_bytes_at(target_base + row[1], shape, target), strided_bytes_at(source_base + row[0], shape, source)
    )


def fold(kind: str, stack: np.ndarray, out: np.ndarray) -> None:
    """out[:] = stack[0] op stack[1] op ..., in row order, by numpy's ufunc; ``stack`` has shape (rows, elements).

    Local.  ``out`` may be ``stack[0]``.  Overflow and NaN raise no warnings, as in the compiled kernels.
    """
    _fold_rows(kind, list(stack), out)


def fold_addresses(kind: str, addresses: np.ndarray, n: int, out: np.ndarray) -> None:
    """Like ``fold``, with rows of ``n`` contiguous elements of ``out``'s dtype at ``addresses``.  Local."""
    size = n * out.itemsize
    _fold_rows(kind, [strided_bytes_at(address, (size,), (1,)).view(out.dtype) for address in addresses.tolist()], out)


def _fold_rows(kind: str, rows: list[np.ndarray], out: np.ndarray) -> None:
    combine = KINDS[kind].combine
    if len(rows) == 1:
        np.copyto(out, rows[0])
        return
    with np.errstate(all="ignore") if out.dtype.kind not in "biu" else nullcontext():
        if len(rows) == 2 or out.nbytes <= RESULT_BLOCK_BYTES:
            return _fold_block(combine, rows, out)
        step = RESULT_BLOCK_BYTES // out.itemsize
        for at in range(0, out.size, step):
            _fold_block(combine, [row[at : at + step] for row in rows], out[at : at + step])


def _fold_block(combine: Callable[..., Any], rows: list[np.ndarray], out: np.ndarray) -> None:
    combine(rows[0], rows[1], out=out)
    for row in rows[2:]:
        combine(out, row, out=out)


def sum_rows(rows: np.ndarray) -> float:
    """The sum of rows of 4 KiB, of floats or doubles, as a double, in the order of the compiled kernel.  Local."""
    steps = rows.reshape(len(rows), 16, 4, -1)  # of four lines each
    sums = steps[:, 0]
    for step in range(1, 16):
        sums = sums + steps[:, step]
    lanes = ((sums[:, 0] + sums[:, 1]) + (sums[:, 2] + sums[:, 3])).astype(np.float64)
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    found, held = -0.0, lanes[:, 0]
    while held.size:
        if held.size % 2:
            found, held = found + held[-1], held[:-1]
        held = held[::2] + held[1::2]
    return found
