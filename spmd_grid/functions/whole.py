"""Rules of functions that need a dimension whole on a process: sorts, and picks by number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spmd_grid.errors import ShapeError
from spmd_grid.functions.axes import one_axis
from spmd_grid.functions.interface import PARALLEL, WHOLE, Application, Interface, Iterator
from spmd_grid.functions.table import Operand, rule

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


@rule(np.take)
def take(a: Operand, indices: ArrayLike, axis: int | None = None, out: Operand = None) -> Application:
    """np.take along a dimension, by a plain list of numbers."""
    numbers = np.asarray(indices)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ShapeError(
            f"take: indices have shape {numbers.shape} and dtype {numbers.dtype}; they must be a list of integers"
        )
    d = 0 if axis is None and len(a.shape) == 1 else one_axis("take", axis, len(a.shape))
    extent = a.shape[d]
    if len(numbers) and not (-extent <= numbers.min() and numbers.max() < extent):
        raise IndexError(f"take: an index is out of bounds for dimension {d} with extent {extent}")
    return along_whole("take", a, d, lambda block: np.take(block, numbers, d), len(numbers))


@rule(np.compress)
def compress(condition: ArrayLike, a: Operand, axis: int | None = None, out: Operand = None) -> Application:
    """np.compress along a dimension, by a plain list of bools."""
    mask = np.asarray(condition)
    if mask.ndim != 1:
        raise ShapeError(f"compress: condition has shape {mask.shape}; it must be a list of bools")
    d = 0 if axis is None and len(a.shape) == 1 else one_axis("compress", axis, len(a.shape))
    kept = np.flatnonzero(mask)
    if len(kept) and kept[-1] >= a.shape[d]:
        raise IndexError(f"compress: index {kept[-1]} is out of bounds for dimension {d} with extent {a.shape[d]}")
    return along_whole("compress", a, d, lambda block: np.take(block, kept, d), len(kept))


def _of_middle(function: Callable[..., Any]) -> None:
    """Register ``function``, which reduces a dimension that is whole."""

    @rule(function)
    def of_middle(a: Operand, axis: int | None = None, out: Operand = None, *, keepdims: bool = False) -> Application:
        d = one_axis(function.__name__, axis, len(a.shape))
        iterators = tuple([Iterator(n, WHOLE if i == d else PARALLEL) for i, n in enumerate(a.shape)])
        result = tuple([None if i == d else i for i in range(len(a.shape)) if keepdims or i != d])
        interface = Interface(iterators, (tuple(range(len(a.shape))),), (result,))
        return Application(function.__name__, (a,), interface, lambda block: function(block, d, keepdims=keepdims))


_of_middle(np.median)
_of_middle(np.nanmedian)
