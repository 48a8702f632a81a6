"""Functions that put cells into an array, or leave cells out, at plain numbers along one dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.compute.functions.joining import new_like
from spmd_grid.errors import CellIndexError, ShapeError
from spmd_grid.functions.axes import cut, one_axis
from spmd_grid.functions.interface import shape_of
from spmd_grid.functions.table import Operand, call, composite, is_array

__all__: list[str] = []

# Where a long dimension is cut into few runs of cells, these move as slices: numbers of cells would be as long as it.
_LONG, _FEW_RUNS = 1 << 14, 8


@composite(np.delete)
def delete(arr: Operand, obj: Any, axis: int | None = None) -> Operand:
    """np.delete by an integer, a slice, a list of integers or of bools; each cell that is kept moves at most once."""
    arr, d = _in_one_dimension("delete", arr, axis)
    n = arr.shape[d]
    left_out = _numbers("delete", obj, n, n)
    if np.any(np.diff(left_out) <= 0):
        left_out = np.unique(left_out)
    runs = _runs_between(left_out, n)
    if runs is not None:
        return np.concatenate([arr[cut(d, low, high)] for low, high in runs], d)
    return np.take(arr, np.setdiff1d(np.arange(n), left_out, assume_unique=True), d)


@composite(np.insert)
def insert(arr: Operand, obj: Any, values: Operand, axis: int | None = None) -> Operand:
    """np.insert before an integer, or before each cell of a slice or a list of integers or bools."""
    arr, d = _in_one_dimension("insert", arr, axis)
    n, is_one = arr.shape[d], isinstance(obj, int | np.integer)
    before = _numbers("insert", obj, n, n + 1)
    values = _cast(values, arr.dtype)
    if is_one or len(before) == 1:
        values = np.reshape(values, (1,) * max(arr.ndim - values.ndim, 0) + values.shape)
        values = np.moveaxis(values, 0, d) if is_one else values
        before = np.repeat(before, shape_of(values)[d])
    positions = before[np.argsort(before, kind="stable")] + np.arange(len(before))
    runs = _runs_between(positions, n + len(before))
    shape = (*arr.shape[:d], n + len(before), *arr.shape[d + 1 :])
    gap = (*arr.shape[:d], len(before), *arr.shape[d + 1 :])
    _check_fits(shape_of(values), gap)
    result = call(new_like, arr, shape, arr.dtype)
    if runs is None:
        result[_at(d, np.setdiff1d(np.arange(shape[d]), positions, assume_unique=True))] = arr
    start = 0
    for low, high in runs or ():
        result[cut(d, low, high)] = arr[cut(d, start, start + high - low)]
        start += high - low
    by_cell = np.empty(len(before), np.int64)
    by_cell[np.argsort(before, kind="stable")] = positions
    result[_at(d, by_cell)] = values
    return result


def _in_one_dimension(name: str, arr: Operand, axis: int | None) -> tuple[Operand, int]:
    if isinstance(arr, np.ndarray):
        raise NotImplementedError(f"{name} in a plain array by sharded arguments")
    return (np.ravel(arr), 0) if axis is None else (arr, one_axis(name, axis, arr.ndim))


def _runs_between(numbers: np.ndarray, extent: int) -> list[tuple[int, int]] | None:
    """The runs of cells between ascending ``numbers``, as (start, stop); None but for few runs of a long dimension."""
    starts, stops = np.append(0, numbers + 1), np.append(numbers, extent)
    kept = stops > starts
    if extent < _LONG or not 0 < np.count_nonzero(kept) <= _FEW_RUNS:
        return None
    return list(zip(starts[kept].tolist(), stops[kept].tolist()))


def _cast(values: Operand, dtype: np.dtype) -> Operand:
    return values.astype(dtype) if hasattr(values, "astype") else np.asarray(values).astype(dtype)


def _numbers(name: str, obj: Any, extent: int, stop: int) -> np.ndarray:
    """The numbers that ``obj`` names, none negative, all below ``stop``.  Raises CellIndexError and ShapeError."""
    if is_array(obj):
        raise NotImplementedError(f"{name} by a list that is spread over processes")
    if isinstance(obj, slice):
        return np.arange(*obj.indices(extent))
    found = np.asarray(obj)
    if found.dtype == np.dtype(bool) and found.shape == (extent,):
        return np.flatnonzero(found)
    if found.ndim > 1 or (found.dtype.kind not in "iu" and found.size):
        raise ShapeError(
            f"{name}: obj has shape {found.shape} and dtype {found.dtype}; it must be an integer, a slice, a list of"
            f" integers, or {extent} bools"
        )
    numbers = np.atleast_1d(found).astype(np.int64)
    for wrong in numbers[(numbers < -extent) | (numbers >= stop)]:
        raise CellIndexError(f"{name}: index {wrong} is out of bounds for a dimension of extent {extent}")
    return np.where(numbers < 0, numbers + extent, numbers)


def _check_fits(found: tuple[int, ...], gap: tuple[int, ...]) -> None:
    try:
        fits = np.broadcast_shapes(found, gap) == gap
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"insert: values have shape {found}; they must broadcast to {gap}")


def _at(dim: int, numbers: np.ndarray) -> tuple[Any, ...]:
    return (*[slice(None)] * dim, numbers)
