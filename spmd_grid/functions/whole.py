"""Rules of functions that need a dimension whole on a process; and picks by number, which do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spmd_grid.errors import ShapeError
from spmd_grid.functions.axes import one_axis
from spmd_grid.functions.interface import PARALLEL, WHOLE, Application, Interface, Iterator
from spmd_grid.functions.table import Operand, composite, rule

__all__: list[str] = []


def along_whole(
    name: str, a: Operand, axis: object, local: Callable[[np.ndarray], np.ndarray], extent: int | None = None
) -> Application:
    """``local`` applied to blocks that have dimension ``axis`` whole.

    Blocks of the result have ``extent`` cells along it, by default those of the array.
    """
    ndim, d = len(a.shape), one_axis(name, axis, len(a.shape))
    iterators = [Iterator(n, WHOLE if i == d else PARALLEL) for i, n in enumerate(a.shape)]
    result = tuple(range(ndim))
    if extent is not None:
        iterators.append(Iterator(extent, WHOLE))
        result = tuple([ndim if i == d else i for i in range(ndim)])
    interface = Interface(tuple(iterators), (tuple(range(ndim)),), (result,))
    return Application(name, (a,), interface, local)


@rule(np.sort)
def sort(a: Operand, axis: int = -1, kind: Any = None, *, stable: bool | None = None) -> Application:
    """np.sort along a dimension."""
    return along_whole("sort", a, axis, lambda block: np.sort(block, axis, kind, stable=stable))


@rule(np.argsort)
def argsort(a: Operand, axis: int = -1, kind: Any = None, *, stable: bool | None = None) -> Application:
    """np.argsort along a dimension."""
    return along_whole("argsort", a, axis, lambda block: np.argsort(block, axis, kind, stable=stable))


@composite(np.take)
def take(a: Operand, indices: ArrayLike, axis: int | None = None, out: Operand = None) -> Operand:
    """np.take along a dimension, by a plain list of numbers."""
    numbers = np.asarray(indices)
    if not numbers.size and isinstance(indices, list | tuple):  # of no dtype
        numbers = numbers.astype(np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ShapeError(
            f"take: indices have shape {numbers.shape} and dtype {numbers.dtype}; they must be a list of integers"
        )
    if axis is None:
        return np.ravel(a)[numbers]
    return a[(*[slice(None)] * one_axis("take", axis, a.ndim), numbers)]


@composite(np.compress)
def compress(condition: ArrayLike, a: Operand, axis: int | None = None, out: Operand = None) -> Operand:
    """np.compress along a dimension, by a plain list of bools."""
    mask = np.asarray(condition)
    if mask.ndim != 1:
        raise ShapeError(f"compress: condition has shape {mask.shape}; it must be a list of bools")
    return np.take(a, np.flatnonzero(mask), axis)


@rule(np.median)
def median(a: Operand, axis: int | None = None, out: Operand = None, *, keepdims: bool = False) -> Application:
    """np.median along a dimension."""
    d = one_axis("median", axis, len(a.shape))
    iterators = tuple([Iterator(n, WHOLE if i == d else PARALLEL) for i, n in enumerate(a.shape)])
    result = tuple([None if i == d else i for i in range(len(a.shape)) if keepdims or i != d])
    interface = Interface(iterators, (tuple(range(len(a.shape))),), (result,))
    return Application("median", (a,), interface, lambda block: np.median(block, d, keepdims=keepdims))
