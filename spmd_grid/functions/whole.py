"""Rules of functions that need a dimension whole on a process: sorts, and picks by number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spmd_grid.errors import ShapeError
from spmd_grid.functions.axes import one_axis
from spmd_grid.functions.interface import PARALLEL, WHOLE, Application, Interface, Iterator, broadcast_maps
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


@rule()
def sort_along(a: Operand, axis: int = -1, kind: Any = None, *, stable: bool | None = None) -> Application:
    """np.sort along a dimension."""
    return along_whole("sort", a, axis, lambda block: np.sort(block, axis, kind, stable=stable))


@rule()
def argsort_along(a: Operand, axis: int = -1, kind: Any = None, *, stable: bool | None = None) -> Application:
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


@rule()
def compress_along(condition: ArrayLike, a: Operand, axis: int | None = None) -> Application:
    """np.compress along a dimension, by a plain list of bools."""
    mask = np.asarray(condition)
    if mask.ndim != 1:
        raise ShapeError(f"compress: condition has shape {mask.shape}; it must be a list of bools")
    d = 0 if axis is None and len(a.shape) == 1 else one_axis("compress", axis, len(a.shape))
    kept = np.flatnonzero(mask)
    if len(kept) and kept[-1] >= a.shape[d]:
        raise IndexError(f"compress: index {kept[-1]} is out of bounds for dimension {d} with extent {a.shape[d]}")
    return along_whole("compress", a, d, lambda block: np.take(block, kept, d), len(kept))


@rule()
def median_along(a: Operand, axis: int, keepdims: bool = False) -> Application:
    """np.median along a dimension."""
    return _collapsing("median", a, axis, lambda block, d: np.median(block, d, keepdims=keepdims), keepdims)


@rule()
def quantile_along(a: Operand, q: Any, axis: int, method: str = "linear", keepdims: bool = False) -> Application:
    """np.quantile along a dimension; the dimensions of ``q`` come first."""

    def local(block: np.ndarray, d: int) -> Any:
        return np.quantile(block, q, axis=d, method=method, keepdims=keepdims)  # type: ignore[call-overload]

    return _collapsing("quantile", a, axis, local, keepdims, np.shape(q))


def _collapsing(
    name: str,
    a: Operand,
    axis: object,
    local: Callable[[np.ndarray, int], Any],
    keepdims: bool,
    first: tuple[int, ...] = (),
    last: tuple[int, ...] = (),
) -> Application:
    """``local(block, axis)`` turns dimension ``axis`` into new ones: ``first`` in front, ``last`` in its place."""
    ndim, d = len(a.shape), one_axis(name, axis, len(a.shape))
    iterators = [Iterator(n, WHOLE if i == d else PARALLEL) for i, n in enumerate(a.shape)]
    iterators += [Iterator(n, WHOLE) for n in (*first, *last)]
    new = list(range(ndim, len(iterators)))
    result: list[int | None] = [*range(d), *new[len(first) :], *range(d + 1, ndim)]
    if keepdims:
        result.insert(d, None)
    interface = Interface(tuple(iterators), (tuple(range(ndim)),), ((*new[: len(first)], *result),))
    return Application(name, (a,), interface, lambda block: local(block, d))


@rule(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Operand, *args: Any, **kwargs: Any) -> Application:
    """np.apply_along_axis; ``func1d`` is also called with ones, for the shape of what it gives."""
    d = one_axis("apply_along_axis", axis, len(arr.shape))
    shape = np.shape(func1d(np.ones(arr.shape[d], arr.dtype), *args, **kwargs))

    def local(block: np.ndarray, d: int) -> Any:
        if block.size:
            return np.apply_along_axis(func1d, d, block, *args, **kwargs)
        ones = np.ones([n if i == d else 1 for i, n in enumerate(block.shape)], block.dtype)
        found = np.apply_along_axis(func1d, d, ones, *args, **kwargs)
        return np.empty((*block.shape[:d], *shape, *block.shape[d + 1 :]), found.dtype)

    return _collapsing("apply_along_axis", arr, axis, local, False, last=shape)


@rule()
def take_along(arr: Operand, indices: Operand, axis: int) -> Application:
    """np.take_along_axis, of indices that have been checked."""
    ndim, d = len(arr.shape), one_axis("take_along_axis", axis, len(arr.shape))
    ones = [tuple([1 if i == d else n for i, n in enumerate(x.shape)]) for x in (arr, indices)]
    shape, maps = broadcast_maps("take_along_axis", ones)
    iterators = [Iterator(n) for n in shape]
    iterators[d] = Iterator(arr.shape[d], WHOLE)
    iterators.append(Iterator(indices.shape[d], WHOLE))
    of_indices, result = ([ndim if i == d else at for i, at in enumerate(each)] for each in (maps[1], range(ndim)))
    operands = tuple([d if i == d else at for i, at in enumerate(maps[0])]), tuple(of_indices)
    interface = Interface(tuple(iterators), operands, (tuple(result),))
    return Application("take_along_axis", (arr, indices), interface, lambda a, i: np.take_along_axis(a, i, d))


@rule()
def put_along(arr: Operand, indices: Operand, values: Operand, axis: int) -> Application:
    """The array that np.put_along_axis makes, of indices that have been checked."""
    d = one_axis("put_along_axis", axis, len(arr.shape))
    if any(n != arr.shape[i] for i, n in enumerate(indices.shape) if i != d):
        raise ShapeError(f"put_along_axis: indices have shape {indices.shape}; the array has {arr.shape}")

    def local(a: np.ndarray, at: np.ndarray, values: np.ndarray) -> np.ndarray:
        a = a.copy()
        np.put_along_axis(a, at, values, d)
        return a

    n = len(arr.shape)
    of_arr = tuple(range(n))
    of_others = tuple([n if i == d else i for i in range(n)])
    iterators = [Iterator(extent, WHOLE if i == d else PARALLEL) for i, extent in enumerate(arr.shape)]
    interface = Interface((*iterators, Iterator(indices.shape[d], WHOLE)), (of_arr, of_others, of_others), (of_arr,))
    return Application("put_along_axis", (arr, indices, values), interface, local)
