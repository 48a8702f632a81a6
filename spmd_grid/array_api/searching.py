"""Searching, sorting and set functions of the array API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.array_api.arrays import as_operands, as_result, as_sharded
from spmd_grid.functions.axes import Axis, one_axis

__all__ = [
    *("argmax", "argmin", "argsort", "count_nonzero", "nonzero", "searchsorted", "sort"),
    *("unique_all", "unique_counts", "unique_inverse", "unique_values", "where"),
]

# numpy's annotations know no arrays but numpy's.
_np: Any = np


def _extreme(function: Callable[..., Any]) -> Callable[..., ShardedArray]:
    name = function.__name__

    def call(x: ShardedArray, /, *, axis: int | None = None, keepdims: bool = False) -> ShardedArray:
        operand = as_sharded(name, x)
        return as_result(function(operand, axis, keepdims=keepdims), operand)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"As np.{name} along a dimension, or of all cells.  Collective."
    return call


argmax = _extreme(np.argmax)
argmin = _extreme(np.argmin)


def count_nonzero(x: ShardedArray, /, *, axis: Axis = None, keepdims: bool = False) -> ShardedArray:
    """The number of cells that are not 0, along dimensions or of all.  Collective."""
    operand = as_sharded("count_nonzero", x)
    found = _np.count_nonzero(operand, axis, keepdims=keepdims)
    return as_result(found, operand)


def nonzero(x: ShardedArray, /) -> tuple[ShardedArray, ...]:
    """The indices of the cells that are not 0, an array for each dimension.  Collective."""
    return _np.nonzero(as_sharded("nonzero", x))


def searchsorted(
    x1: ShardedArray,
    x2: ShardedArray,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: ShardedArray | None = None,
) -> ShardedArray:
    """The indices at which the cells of ``x2`` would be inserted into the sorted 1-d array ``x1``.  Collective."""
    first = as_sharded("searchsorted", x1)
    found = _np.searchsorted(first, as_sharded("searchsorted", x2, first), side=side, sorter=sorter)
    return as_result(found, first)


def where(condition: ShardedArray, x1: ShardedArray | complex, x2: ShardedArray | complex, /) -> ShardedArray:
    """The cells of ``x1`` where ``condition`` is true, else those of ``x2``.  Collective."""
    mask = as_sharded("where", condition)
    _, first, second = as_operands("where", mask, x1, x2)
    return as_result(_np.where(mask, first, second), mask)


def sort(x: ShardedArray, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> ShardedArray:
    """The cells of ``x`` in order along a dimension.  Collective."""
    found = _np.sort(as_sharded("sort", x), axis, stable=stable)
    return _np.flip(found, axis) if descending else found


def argsort(x: ShardedArray, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> ShardedArray:
    """The indices that sort ``x`` along a dimension; equal cells keep their order.  Collective."""
    operand: Any = as_sharded("argsort", x)
    if not descending:
        return _np.argsort(operand, axis, stable=stable)
    # Sorted from the end and read from the end, equal cells stand in their first order.
    last = operand.shape[one_axis("argsort", axis, operand.ndim)] - 1
    found = last - _np.flip(_np.argsort(_np.flip(operand, axis), axis, stable=stable), axis)
    return found


def unique_all(x: ShardedArray, /) -> tuple[ShardedArray, ShardedArray, ShardedArray, ShardedArray]:
    """The values of ``x``, each once, where each stands first, which each cell has, and how often.  Collective."""
    return _np.unique_all(as_sharded("unique_all", x))


def unique_counts(x: ShardedArray, /) -> tuple[ShardedArray, ShardedArray]:
    """The values of ``x``, each once, and how often each occurs.  Collective."""
    return _np.unique_counts(as_sharded("unique_counts", x))


def unique_inverse(x: ShardedArray, /) -> tuple[ShardedArray, ShardedArray]:
    """The values of ``x``, each once, and for each cell the number of its value.  Collective."""
    return _np.unique_inverse(as_sharded("unique_inverse", x))


def unique_values(x: ShardedArray, /) -> ShardedArray:
    """The values of ``x``, each once.  Collective."""
    return _np.unique_values(as_sharded("unique_values", x))
