"""Data type functions of the array API.  Local, but for `astype` and the broadcasts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.array_api.arrays import as_sharded, check_device
from spmd_grid.errors import DTypeError, ShapeError
from spmd_grid.typing import Shape

__all__ = ["astype", "broadcast_arrays", "broadcast_to", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]


class FloatInfo(NamedTuple):
    """Limits of a floating-point type; of a complex type those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype


class IntegerInfo(NamedTuple):
    """Limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: np.dtype


def astype(x: ShardedArray, dtype: DTypeLike, /, *, copy: bool = True, device: Any = None) -> ShardedArray:
    """``x`` with another element type; itself where it has that already and ``copy`` is False.  Collective.

    Raises `DTypeError` for complex numbers that would lose their imaginary parts.
    """
    check_device("astype", device)
    x, wanted = as_sharded("astype", x), np.dtype(dtype)
    if x.dtype.kind == "c" and wanted.kind not in "cb":
        raise DTypeError(f"astype: dtype {x.dtype} is not cast to {wanted}, which has no imaginary part: take real(x)")
    return x.astype(wanted, copy=copy)


def broadcast_to(x: ShardedArray, /, shape: Shape) -> ShardedArray:
    """``x`` repeated along new dimensions and those of extent 1, in memory of its own.  Collective."""
    return np.broadcast_to(as_sharded("broadcast_to", x), tuple(shape))  # type: ignore[return-value]


def broadcast_arrays(*arrays: ShardedArray) -> list[ShardedArray]:
    """The arrays, all of the shape to which they broadcast.  Collective."""
    operands = [as_sharded("broadcast_arrays", x) for x in arrays]
    shapes = [x.shape for x in operands]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(f"broadcast_arrays: arrays have shapes {shapes}; they must broadcast to one shape") from None
    return [broadcast_to(x, shape) for x in operands]


def can_cast(from_: Any, to: DTypeLike, /) -> bool:
    """Whether a dtype, or that of an array, is cast to another without a loss.  Local."""
    return np.can_cast(_dtype_of(from_), to)


def finfo(type: Any, /) -> FloatInfo:
    """Limits of a floating-point type, or that of an array.  Local."""
    found = np.finfo(_dtype_of(type))
    eps, most, least, normal = (float(x) for x in (found.eps, found.max, found.min, found.smallest_normal))
    return FloatInfo(int(found.bits), eps, most, least, normal, found.dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """Limits of an integer type, or that of an array.  Local."""
    found = np.iinfo(_dtype_of(type))
    return IntegerInfo(int(found.bits), int(found.max), int(found.min), np.dtype(found.dtype))


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Whether a dtype is of a kind: another dtype, one of the standard's names, or one of several.  Local."""
    return np.isdtype(np.dtype(dtype), kind)


def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The dtype of a result that is computed from arrays, dtypes and Python's numbers.  Local."""
    if all(type(x) in (bool, int, float, complex) for x in arrays_and_dtypes):
        raise DTypeError("result_type: there is no array and no dtype among the arguments; one must be there")
    return np.result_type(*[x if type(x) in (bool, int, float, complex) else _dtype_of(x) for x in arrays_and_dtypes])


def _dtype_of(x: Any) -> np.dtype:
    return np.dtype(getattr(x, "dtype", x))
