"""Rules of functions that need a dimension whole on a process; and picks by number, which do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spmd_grid.errors import DTypeError, ShapeError
from spmd_grid.functions.axes import as_row, one_axis
from spmd_grid.functions.interface import PARALLEL, WHOLE, Application, Interface, Iterator, broadcast_maps
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


@rule()
def sort_along(a: Operand, axis: int = -1, kind: Any = None, *, stable: bool | None = None) -> Application:
    """np.sort along a dimension."""
    return along_whole("sort", a, axis, lambda block: np.sort(block, axis, kind, stable=stable))


@rule()
def argsort_along(a: Operand, axis: int = -1, kind: Any = None, *, stable: bool | None = None) -> Application:
    """np.argsort along a dimension."""
    return along_whole("argsort", a, axis, lambda block: np.argsort(block, axis, kind, stable=stable))


@composite(np.take)
def take(a: Operand, indices: ArrayLike, axis: int | None = None, out: Operand = None) -> Operand:
    """np.take along a dimension, by plain numbers of any shape or a sharded array of them."""
    if hasattr(indices, "sharding"):
        return _take_by_array(a, indices, axis)
    numbers = np.asarray(indices)
    if not numbers.size and isinstance(indices, list | tuple):  # of no dtype
        numbers = numbers.astype(np.int64)
    if numbers.dtype.kind not in "iu":
        raise DTypeError(f"take: indices have dtype {numbers.dtype}; they must be integers")
    a = np.ravel(a) if axis is None else as_row(a, axis)
    d = 0 if axis is None else one_axis("take", axis, a.ndim)
    found = a[(*[slice(None)] * d, numbers.ravel() if numbers.ndim else int(numbers))]
    return found if numbers.ndim < 2 else np.reshape(found, (*a.shape[:d], *numbers.shape, *a.shape[d + 1 :]))


def _take_by_array(a: Operand, indices: Operand, axis: int | None) -> Operand:
    if axis is None or a.ndim == 1:
        one_axis("take", axis or 0, a.ndim)
        return np.ravel(a)[indices]
    if indices.ndim != 1:
        raise NotImplementedError(f"take along a dimension, by an array of {indices.ndim} dimensions,")
    d = one_axis("take", axis, a.ndim)
    if a.sharding is not None:  # it is not being traced
        return a[(*[slice(None)] * d, indices)]
    return np.take_along_axis(a, np.reshape(indices, [-1 if i == d else 1 for i in range(a.ndim)]), d)


@rule()
def median_along(a: Operand, axis: int, keepdims: bool = False) -> Application:
    """np.median along a dimension."""
    return _collapsing("median", a, axis, lambda block, d: np.median(block, d, keepdims=keepdims), keepdims)


@rule(np.nanmedian)
def nanmedian(a: Operand, axis: int | None = None, out: Operand = None, *, keepdims: bool = False) -> Application:
    """np.nanmedian along a dimension."""
    return _collapsing("nanmedian", a, axis, lambda block, d: np.nanmedian(block, d, keepdims=keepdims), keepdims)


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
    may_fail: bool = False,
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
    return Application(name, (a,), interface, lambda block: local(block, d), may_fail=may_fail)


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

    return _collapsing("apply_along_axis", arr, axis, local, False, last=shape, may_fail=True)


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

    def local(a: np.ndarray, at: np.ndarray) -> np.ndarray:
        return np.take_along_axis(a, _within(at, a.shape[d]), d)

    return Application("take_along_axis", (arr, indices), interface, local)


def _within(indices: np.ndarray, extent: int) -> np.ndarray:
    """Indices for a dimension; where it has one cell, that one, also for the ones by which dtypes are found."""
    return np.zeros_like(indices) if extent == 1 else indices


@rule()
def put_along(arr: Operand, indices: Operand, values: Operand, axis: int) -> Application:
    """The array that np.put_along_axis makes, of indices that have been checked."""
    d = one_axis("put_along_axis", axis, len(arr.shape))
    if any(n != arr.shape[i] for i, n in enumerate(indices.shape) if i != d):
        required = f"it must be the array's, {arr.shape}, except along dimension {d}"
        raise ShapeError(f"put_along_axis: indices have shape {indices.shape}; {required}")

    def local(a: np.ndarray, at: np.ndarray, values: np.ndarray) -> np.ndarray:
        a = a.copy()
        np.put_along_axis(a, _within(at, a.shape[d]), values, d)
        return a

    n = len(arr.shape)
    of_arr = tuple(range(n))
    of_others = tuple([n if i == d else i for i in range(n)])
    iterators = [Iterator(extent, WHOLE if i == d else PARALLEL) for i, extent in enumerate(arr.shape)]
    interface = Interface((*iterators, Iterator(indices.shape[d], WHOLE)), (of_arr, of_others, of_others), (of_arr,))
    return Application("put_along_axis", (arr, indices, values), interface, local)
