"""Manipulation and indexing functions of the array API: dimensions moved, arrays joined, cells taken by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.array_api.arrays import as_result, as_sharded
from spmd_grid.compute.functions.joining import new_like
from spmd_grid.errors import ShapeError
from spmd_grid.functions.axes import Axis, one_axis
from spmd_grid.typing import Shape

__all__ = [
    *("concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack"),
    *("take", "take_along_axis", "tile", "unstack"),
]

# numpy's annotations know no arrays but numpy's.
_np: Any = np


def concat(arrays: Sequence[ShardedArray], /, *, axis: int | None = 0) -> ShardedArray:
    """The arrays one after the other along a dimension; flattened first where ``axis`` is None.  Collective."""
    return _np.concatenate(_several("concat", arrays), axis)


def expand_dims(x: ShardedArray, /, axis: Axis = 0) -> ShardedArray:
    """``x`` with new dimensions of extent 1.  Collective."""
    return _np.expand_dims(as_sharded("expand_dims", x), axis)


def flip(x: ShardedArray, /, *, axis: Axis = None) -> ShardedArray:
    """``x`` with dimensions walked backwards, all of them by default.  Collective."""
    return _np.flip(as_sharded("flip", x), axis)


def moveaxis(x: ShardedArray, source: Axis, destination: Axis, /) -> ShardedArray:
    """``x`` with dimensions moved to other positions.  Collective."""
    return _np.moveaxis(as_sharded("moveaxis", x), source, destination)


def permute_dims(x: ShardedArray, /, axes: Sequence[int]) -> ShardedArray:
    """``x`` with its dimensions in the order ``axes``.  Collective."""
    return _np.transpose(as_sharded("permute_dims", x), axes)


def repeat(x: ShardedArray, repeats: int | ShardedArray, /, *, axis: int | None = None) -> ShardedArray:
    """``x`` with every cell repeated along a dimension; flattened first where ``axis`` is None.  Collective."""
    return _np.repeat(as_sharded("repeat", x), repeats, axis)


def reshape(x: ShardedArray, /, shape: Shape, *, copy: bool | None = None) -> ShardedArray:
    """The cells of ``x``, in row-major order, in another shape and in memory of their own.  Collective."""
    if copy is False:
        raise ValueError("reshape: copy is False; the result needs memory of its own")
    operand = as_sharded("reshape", x)
    return as_result(_np.reshape(operand, shape), operand)


def roll(x: ShardedArray, /, shift: int | Sequence[int], *, axis: Axis = None) -> ShardedArray:
    """``x`` with cells moved along dimensions, round the ends; flattened first where ``axis`` is None.  Collective."""
    return _np.roll(as_sharded("roll", x), shift, axis)


def squeeze(x: ShardedArray, /, axis: Axis) -> ShardedArray:
    """``x`` without the dimensions ``axis``, which have extent 1.  Collective."""
    operand = as_sharded("squeeze", x)
    return as_result(_np.squeeze(operand, axis), operand)


def stack(arrays: Sequence[ShardedArray], /, *, axis: int = 0) -> ShardedArray:
    """The arrays one after the other along a new dimension.  Collective."""
    return _np.stack(_several("stack", arrays), axis)


def tile(x: ShardedArray, repetitions: Sequence[int], /) -> ShardedArray:
    """``x`` repeated as a whole along dimensions.  Collective."""
    return _np.tile(as_sharded("tile", x), repetitions)


def unstack(x: ShardedArray, /, *, axis: int = 0) -> tuple[ShardedArray, ...]:
    """The parts of ``x`` along a dimension, each without it.  Collective."""
    operand: Any = as_sharded("unstack", x)
    before = (slice(None),) * one_axis("unstack", axis, operand.ndim)
    return tuple([as_result(operand[(*before, i)], operand) for i in range(operand.shape[len(before)])])


def take(x: ShardedArray, indices: ShardedArray, /, *, axis: int | None = None) -> ShardedArray:
    """The cells of ``x`` with the numbers ``indices``, a 1-d array, along a dimension.  Collective."""
    operand = as_sharded("take", x)
    numbers: Any = as_sharded("take", indices, operand)
    if numbers.ndim != 1 or (axis is None and operand.ndim != 1):
        raise ShapeError(
            f"take: indices have shape {numbers.shape}, the array {operand.shape} and axis is {axis}; indices must have"
            " one dimension, and axis must be given for several"
        )
    d = 0 if axis is None else one_axis("take", axis, operand.ndim)
    shape = tuple([numbers.size if i == d else n for i, n in enumerate(operand.shape)])
    lines = _np.reshape(numbers, tuple([n if i == d else 1 for i, n in enumerate(shape)]))
    spread = new_like(operand, shape, numbers.dtype)  # as the array is, which then stays where it lies
    spread[...] = lines
    return take_along_axis(operand, spread, axis=d)


def take_along_axis(x: ShardedArray, indices: ShardedArray, /, *, axis: int = -1) -> ShardedArray:
    """For each line of ``x`` along a dimension, the cells that the same line of ``indices`` names.  Collective."""
    return _np.take_along_axis(as_sharded("take_along_axis", x), indices, axis)


def _several(op: str, arrays: Sequence[ShardedArray]) -> list[ShardedArray]:
    return [as_sharded(op, x) for x in arrays]
