"""max and min of sharded arrays: one value, equal on every process, for every number of processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from spmd_grid.array import ShardedArray
from spmd_grid.compute.calls import call_alone
from spmd_grid.reductions.checks import check_array

__all__ = ["max", "min"]


def max(a: ShardedArray) -> np.generic:
    """The largest cell of ``a``: ``np.max(a)``, so NaN if any cell is; complex by real part first.

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
    return _extreme("max", np.max, a)


def min(a: ShardedArray) -> np.generic:
    """The smallest cell of ``a``: ``np.min(a)``; otherwise as `max`.

    Collective over a's grid.
    """
    return _extreme("min", np.min, a)


def _extreme(op: str, function: Callable[..., Any], a: ShardedArray) -> np.generic:
    check_array(op, a, takes_partial=op)
    return cast(np.generic, call_alone(function, a))
