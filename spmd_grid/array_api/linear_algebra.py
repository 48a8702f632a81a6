"""Linear algebra functions of the array API's main namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.array_api.arrays import as_result, as_sharded
from spmd_grid.errors import AxisError

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]

# numpy's annotations know no arrays but numpy's.
_np: Any = np


def matmul(x1: ShardedArray, x2: ShardedArray, /) -> ShardedArray:
    """The products of matrices, stacks of them, or vectors.  Collective."""
    first = as_sharded("matmul", x1)
    return as_result(_np.matmul(first, as_sharded("matmul", x2, first)), first)


def matrix_transpose(x: ShardedArray, /) -> ShardedArray:
    """The matrices of ``x``, each with rows and columns exchanged.  Collective."""
    return as_sharded("matrix_transpose", x).mT


def tensordot(x1: ShardedArray, x2: ShardedArray, /, *, axes: int | Sequence[Sequence[int]] = 2) -> ShardedArray:
    """Products of all cells, summed along pairs of dimensions.  Collective."""
    first = as_sharded("tensordot", x1)
    found = _np.tensordot(first, as_sharded("tensordot", x2, first), axes)
    return as_result(found, first)


def vecdot(x1: ShardedArray, x2: ShardedArray, /, *, axis: int = -1) -> ShardedArray:
    """The inner products of the vectors along a dimension, those of ``x1`` conjugated.  Collective."""
    first = as_sharded("vecdot", x1)
    second = as_sharded("vecdot", x2, first)
    lowest = min(first.ndim, second.ndim)
    if not -lowest <= axis < 0:
        raise AxisError(f"vecdot: axis is {axis}; it must be from -{lowest} to -1, from the end in both arrays")
    return as_result(_np.vecdot(first, second, axis=axis), first)
