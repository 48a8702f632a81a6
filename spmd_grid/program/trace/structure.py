"""Functions that arrange cells, written down as operations with lowerings of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from spmd_grid.compute.indexing.index import as_selection, list_in
from spmd_grid.errors import DTypeError, ImplicitGatherError, ShapeError
from spmd_grid.functions.axes import one_axis
from spmd_grid.functions.interface import Interface, Iterator, shape_of
from spmd_grid.functions.table import call, no_rule
from spmd_grid.functions.whole import along_whole, argsort_along, sort_along
from spmd_grid.program.lowerings.concatenation import Concatenate
from spmd_grid.program.lowerings.reshapes import Reshape, reshape_interface
from spmd_grid.program.lowerings.scans import Scan
from spmd_grid.program.lowerings.selections import Put, Select

__all__ = ["TRACED", "accumulate", "get", "put"]

# Associative ufuncs: what blocks end with can be combined.
_ASSOCIATIVE = {
    *(np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp, np.logaddexp2, np.hypot),
    *(np.logical_and, np.logical_or, np.logical_xor, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.gcd, np.lcm),
}


def get(a: Any, key: Any) -> Any:
    """``a[key]`` for integers, slices, ..., None and one plain list of integers."""
    if any(_is_traced(each) for each in (key if isinstance(key, tuple) else (key,))):
        raise ImplicitGatherError("getitem: the shape of a[mask] depends on cells; use np.where(mask, a, other)")
    listed = list_in(key, a.shape)
    if listed is not None:
        rest = a if listed.is_alone else get(a, listed.rest)
        numbers = listed.numbers
        found = a.tracer.apply(
            along_whole("take", rest, listed.axis, lambda block: block.take(numbers, listed.axis), len(numbers)),
            ("take", listed.axis, numbers.tobytes()),
        )
        return np.moveaxis(found, listed.axis, 0) if listed.leads else found
    selection = as_selection(key, a.shape)
    dims = tuple(range(a.ndim))
    kept: list[int | None] = [d if n == a.shape[d] or n > 1 else None for d, n in enumerate(selection.counts)]
    result: list[int | None] = [kept[d] for d in dims if d not in selection.dropped]
    for position in selection.new:
        result.insert(position, None)
    interface = Interface(tuple(map(Iterator, a.shape)), (dims,), (tuple(result),))
    return a.tracer.structural("getitem", [a], selection.result_shape(), a.dtype, interface, Select(selection))


def put(a: Any, key: Any, value: Any) -> Any:
    """The array ``a`` after ``a[key] = value``."""
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) == 1 and _is_traced(keys[0]):
        mask = keys[0]
        if mask.dtype != bool or mask.shape != a.shape:
            raise ImplicitGatherError(
                f"setitem: an index has dtype {mask.dtype} and shape {mask.shape}; it must be a mask of shape {a.shape}"
            )
        return np.where(mask, value, a).astype(a.dtype, copy=False)
    if list_in(key, a.shape) is not None:
        raise ImplicitGatherError("setitem: lists of numbers are not traced; use slices, or np.where with a mask")
    selection = as_selection(key, a.shape)
    shape = selection.result_shape()
    found = shape_of(value)
    extra = max(len(found) - len(shape), 0)
    try:
        fits = found[:extra] == (1,) * extra and np.broadcast_shapes(found[extra:], shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"setitem: value has shape {found}; it must broadcast to {shape}")
    piece: Any = np.asarray(value)[()] if isinstance(value, list) else value
    if found:
        piece = np.broadcast_to(piece[(0,) * extra] if extra else piece, shape)
        piece = np.squeeze(piece, selection.new) if selection.new else piece
        piece = np.expand_dims(piece, selection.dropped) if selection.dropped else piece
        if selection.flipped:
            piece = np.flip(piece, selection.flipped)
        if not _is_traced(piece):
            piece = np.asarray(piece)
        piece = piece.astype(a.dtype, copy=False)
    dims = tuple(range(a.ndim))
    same: list[int | None] = [d if n == a.shape[d] else None for d, n in enumerate(selection.counts)]
    maps = (dims, tuple(same) if found else ())
    interface = Interface(tuple(map(Iterator, a.shape)), maps, (dims,))
    return a.tracer.structural("setitem", [a, piece], a.shape, a.dtype, interface, Put(selection))


def _is_traced(x: Any) -> bool:
    return hasattr(x, "tracer")


def concatenate(
    arrays: Sequence[Any], axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """np.concatenate."""
    arrays = list(arrays)
    if axis is None:
        arrays, axis = [np.ravel(x) for x in arrays], 0
    first = next(x for x in arrays if _is_traced(x))
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
    shape = tuple([sum(each[d] for each in shapes) if i == d else n for i, n in enumerate(shapes[0])])
    dims = tuple(range(ndim))
    interface = Interface(tuple(map(Iterator, shape)), (dims,) * len(arrays), (dims,))
    return first.tracer.structural("concatenate", arrays, shape, wanted, interface, Concatenate(d))


def reshape(a: Any, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> Any:
    """np.reshape in row-major order, or in column-major order by transposes."""
    if order not in ("C", "F", "A") or shape is None:
        raise no_rule(f"reshape with order={order!r}")
    wanted = _full_shape(a.shape, shape)
    if order == "F":
        return np.transpose(reshape(np.transpose(a), wanted[::-1]))
    if wanted == a.shape:
        return a
    return a.tracer.structural("reshape", [a], wanted, a.dtype, reshape_interface(a.shape, wanted), Reshape(wanted))


def _full_shape(held: tuple[int, ...], shape: Any) -> tuple[int, ...]:
    wanted = [int(shape)] if isinstance(shape, int | np.integer) else [int(n) for n in shape]
    known = prod(n for n in wanted if n != -1)
    if wanted.count(-1) == 1 and known and prod(held) % known == 0:
        wanted[wanted.index(-1)] = prod(held) // known
    if min(wanted, default=0) < 0 or prod(wanted) != prod(held):
        raise ShapeError(f"reshape: an array of shape {held} cannot be reshaped to {shape}")
    return tuple(wanted)


def _scan(name: str, function: Callable[..., Any], combine: np.ufunc, a: Any, axis: int | None, dtype: Any) -> Any:
    if axis is None:
        a, axis = np.ravel(a), 0
    d = one_axis(name, axis, a.ndim)
    try:
        result = function(np.ones(1, a.dtype), dtype=dtype).dtype
    except TypeError as error:
        raise DTypeError(f"{name}: {error}") from None
    dims = tuple(range(a.ndim))
    interface = Interface(tuple(map(Iterator, a.shape)), (dims,), (dims,))
    return a.tracer.structural(name, [a], a.shape, result, interface, Scan(function, combine, d))


def accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None) -> Any:
    """``ufunc.accumulate`` of an associative ufunc."""
    if ufunc not in _ASSOCIATIVE:
        raise no_rule(f"{ufunc.__name__}.accumulate")
    return _scan(f"{ufunc.__name__}.accumulate", ufunc.accumulate, ufunc, array, axis, dtype)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """np.cumsum."""
    return _scan("cumsum", np.cumsum, np.add, a, axis, dtype)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """np.cumprod."""
    return _scan("cumprod", np.cumprod, np.multiply, a, axis, dtype)


def sort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: bool | None = None) -> Any:
    """np.sort along a dimension that is made whole."""
    return (
        call(sort_along, np.ravel(a), 0, kind, stable=stable)
        if axis is None
        else call(sort_along, a, axis, kind, stable=stable)
    )


def argsort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: bool | None = None) -> Any:
    """np.argsort along a dimension that is made whole."""
    return (
        call(argsort_along, np.ravel(a), 0, kind, stable=stable)
        if axis is None
        else call(argsort_along, a, axis, kind, stable=stable)
    )


# Functions that arrays compute by communication of their own, and programs by operations.
TRACED: dict[Callable[..., Any], Callable[..., Any]] = {
    np.concatenate: concatenate,
    np.reshape: reshape,
    np.cumsum: cumsum,
    np.cumprod: cumprod,
    np.sort: sort,
    np.argsort: argsort,
}
