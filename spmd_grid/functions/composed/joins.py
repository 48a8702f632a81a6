"""Shapes and element types of joined and reshaped arrays, alike for arrays and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.errors import DTypeError, ShapeError
from spmd_grid.functions.axes import one_axis
from spmd_grid.functions.interface import shape_of
from spmd_grid.functions.table import Operand
from spmd_grid.typing import Shape

__all__ = ["full_shape", "joined"]


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
