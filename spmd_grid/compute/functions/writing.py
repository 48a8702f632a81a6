"""Functions that write into an array that they are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.errors import CellIndexError, DTypeError, OutputError, ShapeError
from spmd_grid.functions.axes import one_axis
from spmd_grid.functions.composites import distance_from_diagonal
from spmd_grid.functions.table import Operand, call, composite, is_array
from spmd_grid.functions.whole import put_along, take_along

__all__: list[str] = []


def _check_target(name: str, target: Any) -> None:
    if not is_array(target):
        raise OutputError(f"{name}: the array that is written to is {type(target).__name__}; it must be a ShardedArray")


@composite(np.copyto)
def copyto(dst: Operand, src: Operand, casting: Any = "same_kind", where: Operand = True) -> None:
    """np.copyto."""
    _check_target("copyto", dst)
    source: Any = src if is_array(src) else np.asarray(src)
    is_number = type(src) in (int, float, complex, bool)
    found = np.result_type(src, dst.dtype) if is_number else source.dtype
    if not np.can_cast(found, dst.dtype, casting):
        raise DTypeError(f"copyto: dtype {found} cannot be cast to {dst.dtype} by the rule {casting!r}")
    if where is True:
        dst[...] = src
        return
    chosen = np.where(where, source.astype(dst.dtype), dst)
    if chosen.shape != dst.shape:
        raise ShapeError(
            f"copyto: src and where have shapes {source.shape}, {np.shape(where)}; they must fit {dst.shape}"
        )
    dst[...] = chosen


@composite(np.fill_diagonal)
def fill_diagonal(a: Operand, val: Any, wrap: bool = False) -> None:
    """np.fill_diagonal of a matrix by one number."""
    _check_target("fill_diagonal", a)
    if a.ndim != 2 or wrap or np.ndim(val):
        raise NotImplementedError("fill_diagonal of other arrays than matrices, by lists, or wrapped,")
    a[distance_from_diagonal("fill_diagonal", a, 0) == 0] = val


@composite(np.take_along_axis)
def take_along_axis(arr: Operand, indices: Operand, axis: int | None = -1) -> Operand:
    """np.take_along_axis; the dimension is made whole, but for that of a row, of which cells are looked up."""
    d = _checked_indices("take_along_axis", arr, indices, axis)
    if arr.ndim == 1:
        return arr[indices]
    return call(take_along, arr, indices, d)


@composite(np.put_along_axis)
def put_along_axis(arr: Operand, indices: Operand, values: Operand, axis: int | None) -> None:
    """np.put_along_axis; the dimension is made whole."""
    _check_target("put_along_axis", arr)
    d = _checked_indices("put_along_axis", arr, indices, axis)
    if not is_array(values):
        values = np.asarray(values, arr.dtype)
    arr[...] = call(put_along, arr, indices, np.broadcast_to(values, indices.shape), d)


def _checked_indices(name: str, arr: Operand, indices: Operand, axis: int | None) -> int:
    """The dimension; indices out of bounds are refused on every process, whichever holds them."""
    if axis is None:
        raise NotImplementedError(f"{name} of a flattened array")
    d = one_axis(name, axis, arr.ndim)
    if np.ndim(indices) != arr.ndim or indices.dtype.kind not in "iu":
        raise ShapeError(
            f"{name}: indices have {np.ndim(indices)} dimensions and dtype {indices.dtype}; they must be whole numbers,"
            f" and have the {arr.ndim} dimensions of the array"
        )
    n = arr.shape[d]
    if indices.size and not (-n <= np.min(indices) and np.max(indices) < n):
        raise CellIndexError(f"{name}: an index is out of bounds for dimension {d} with extent {n}")
    return d
