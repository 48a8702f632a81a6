"""Shapes and element types of joined, reshaped and scanned arrays, alike for arrays and for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.errors import DTypeError, ShapeError
from spmd_grid.functions.axes import one_axis
from spmd_grid.functions.interface import shape_of
from spmd_grid.functions.table import Operand
from spmd_grid.typing import Shape

__all__ = ["ASSOCIATIVE", "full_shape", "joined", "scanned_dtype"]

# Ufuncs f with f(f(a, b), c) == f(a, f(b, c)): what blocks end with can be combined.
ASSOCIATIVE = {
    *(np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp, np.logaddexp2, np.hypot),
    *(np.logical_and, np.logical_or, np.logical_xor, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.gcd, np.lcm),
}


def joined(arrays: Sequence[Operand], axis: int, dtype: DTypeLike | None, casting: Any) -> tuple[int, Shape, np.dtype]:
    """The dimension, the shape and the dtype of arrays that are concatenated.  Raises ShapeError and DTypeError."""
    shapes = [shape_of(x) for x in arrays]
    ndim = len(shapes[0])
    d = one_axis("concatenate", axis, ndim)
    for shape in shapes:
        if len(shape) != ndim or any(n != shapes[0][i] for i, n in enumerate(shape) if i != d):
            raise ShapeError(f"concatenate: shapes are {shapes}; they must be equal but for dimension {d}")
    found = np.result_type(*[x.dtype for x in arrays])
    wanted = found if dtype is None else np.dtype(dtype)
    if not np.can_cast(found, wanted, casting):
        raise DTypeError(f"concatenate: dtype {found} cannot be cast to {wanted} by the rule {casting!r}")
    return d, tuple([sum(each[d] for each in shapes) if i == d else n for i, n in enumerate(shapes[0])]), wanted


def full_shape(held: Shape, shape: int | Sequence[int]) -> Shape:
    """The new shape of an array of shape ``held``, with -1 filled in.  Raises ShapeError."""
    wanted = [int(shape)] if isinstance(shape, int | np.integer) else [int(n) for n in shape]
    known = prod(n for n in wanted if n != -1)
    if wanted.count(-1) == 1 and known and prod(held) % known == 0:
        wanted[wanted.index(-1)] = prod(held) // known
    if min(wanted, default=0) < 0 or prod(wanted) != prod(held):
        raise ShapeError(f"reshape: an array of shape {held} cannot be reshaped to {shape}")
    return tuple(wanted)


def scanned_dtype(name: str, function: Callable[..., Any], held: np.dtype, dtype: DTypeLike | None) -> np.dtype:
    """The dtype of a running sum or the like, by ``function``, of cells of dtype ``held``.  Raises DTypeError."""
    try:
        found: np.dtype = function(np.ones(1, held), dtype=dtype).dtype
    except TypeError as error:
        raise DTypeError(f"{name}: {error}") from None
    return found
