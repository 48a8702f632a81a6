"""max and min of sharded arrays: one value, equal on every process, for every number of processes."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.array import ShardedArray
from spmd_grid.errors import ShapeError
from spmd_grid.reduction_kind import KINDS, identity
from spmd_grid.reductions.cells import counted
from spmd_grid.reductions.combine import check_array, combine, reduction

__all__ = ["max", "min"]


@reduction
def max(a: ShardedArray) -> np.generic:
    """The largest cell of ``a``, as ``np.max`` of the global array: NaN if any cell is; complex by real part first.

    Collective over a's grid; one message of a number.  Every cell of the global array counts, halos and cells outside
    the domain do not.  The result is a numpy scalar of a's dtype, with equal bits on every process, in every run and
    for every number of processes, grid, sharding and block rule: a zero has a plus sign, and NaN is numpy's.  Partial
    values that are to be combined by max need not be resharded.

    Raises `ShapeError` (no cells), `ShardingError` (other partial values: reshard first) and `DTypeError`, the same on
    every process.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     a = sg.from_function(lambda i: np.array([3.0, -5.0])[i], (2,), sg.Sharding(grid, [[0]]), grid)
    ...     return sg.max(a), sg.min(a)
    >>> sg.run_spmd(body, ranks=3)[2]
    (np.float64(3.0), np.float64(-5.0))
    """
    return _extreme("max", a)


@reduction
def min(a: ShardedArray) -> np.generic:
    """The smallest cell of ``a``, as ``np.min`` of the global array; otherwise as `max`.

    Collective over a's grid.
    """
    return _extreme("min", a)


def _extreme(op: str, a: ShardedArray) -> np.generic:
    check_array(op, a, takes_partial=op)
    if 0 in a.shape:
        raise ShapeError(f"{op}: a has shape {a.shape}; there must be a cell to take the {op} of")
    ufunc, cells = np.maximum if op == "max" else np.minimum, counted(a)
    with np.errstate(all="ignore"):
        found = ufunc.reduce(cells, axis=None) if cells.size else identity(KINDS[op], a.dtype)
    value: Any = combine(op, found, op, a)[()]
    if value.dtype.kind in "biu":
        return value
    if np.isnan(value):
        return type(value)(complex(np.nan, np.nan) if value.dtype.kind == "c" else np.nan)
    return value + type(value)(0)  # adding 0 turns -0 into +0
