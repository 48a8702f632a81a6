"""Sums of all cells of a block: read as contiguous runs, without a copy of the block, and added in a wide dtype."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spmd_grid import kernels
from spmd_grid.functions.dtypes import loop_dtype, wide_dtype

__all__ = ["runs", "total"]

_LONG = 1 << 18  # bytes of a run
_ROW = 4096  # bytes of a row: see kernels/reduce/row_sums.py
_LEVELS = 64  # doubles that the kernel needs
_ROW_SUMS = {np.dtype("f4"): "sum_rows_f4", np.dtype("f8"): "sum_rows_f8"}

RUN = 1 << 15  # cells that are copied at a time where they must be copied; they stay in the L2 cache


def runs(dtype: np.dtype, *arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """The cells of arrays of one shape, in one order for all, as contiguous, aligned rows of ``dtype``.

    Local.  Where the array has such rows in memory, a run is a view of it, as long as possible; elsewhere it is a copy
    of RUN cells, which the next run overwrites.  Cells are cast as numpy's reductions cast them, to any ``dtype``.
    """
    flags = ["external_loop", "buffered", "grow_inner", "zerosize_ok"]
    each = [["readonly", "contig", "aligned", "nbo"]] * len(arrays)
    dtypes = [dtype] * len(arrays)
    with np.nditer(  # type: ignore[call-overload]  # its types take flags that are spelt out in the call only
        arrays, flags, each, dtypes, "K", "unsafe", buffersize=RUN
    ) as walk:
        for run in walk:
            yield run if len(arrays) > 1 else (run,)


def total(cells: np.ndarray, working: np.dtype) -> np.number:
    """The sum of ``cells``, read as ``working``: in that dtype along runs, in its wide dtype from run to run.

    Local.  Integers and durations have no runs, since the order of their additions does not show.

    >>> total(np.array([[100, 100]], "i1"), np.dtype("i8")), total(np.ones((2, 3), "f2"), np.dtype("f4"))
    (np.int64(200), np.float64(6.0))
    """
    if working.kind in "bium":
        return np.add.reduce(cells, axis=None, dtype=loop_dtype(working))
    wide = wide_dtype(working).type
    if cells.dtype == working and cells.flags.forc and cells.flags.aligned:  # one run
        return wide(0) + (_long_total(cells) if cells.nbytes >= _LONG else np.add.reduce(cells, axis=None))
    found = wide(0)
    for (run,) in runs(working, cells):
        found += np.add.reduce(run)
    return found


def _long_total(cells: np.ndarray) -> np.number:
    """The sum of the cells of one long run; of doubles and floats by rows, in half the time that numpy takes."""
    if cells.dtype not in _ROW_SUMS:
        return np.add.reduce(cells, axis=None)
    n = cells.nbytes // _ROW
    levels = np.empty(_LEVELS)
    getattr(kernels, _ROW_SUMS[cells.dtype])(kernels.address_of(cells), n, _ROW, kernels.address_of(levels))
    rest = cells.ravel("K")[n * _ROW // cells.itemsize :]
    return levels[0] + np.add.reduce(rest)
