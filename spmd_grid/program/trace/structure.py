"""Functions that arrange cells, written down as operations with lowerings of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spmd_grid.compute.functions import joining
from spmd_grid.compute.indexing.index import as_selection, list_in
from spmd_grid.errors import ImplicitGatherError, ShapeError
from spmd_grid.functions.axes import one_axis
from spmd_grid.functions.composed.joins import full_shape, joined
from spmd_grid.functions.interface import Interface, Iterator, shape_of
from spmd_grid.functions.linear.linear_algebra import norm
from spmd_grid.functions.reductions.scans import ASSOCIATIVE, scanned_dtype
from spmd_grid.functions.table import no_rule
from spmd_grid.functions.ways import cells_as_numpy_has_them, reshape_steps
from spmd_grid.plain_arrays import check_plain
from spmd_grid.program.lowerings.concatenation import Concatenate
from spmd_grid.program.lowerings.fresh import Fresh
from spmd_grid.program.lowerings.reshapes import Reshape, reshape_interface
from spmd_grid.program.lowerings.scans import Scan
from spmd_grid.program.lowerings.selections import Put, Select
from spmd_grid.program.trace.eager import pick, pick_by_arrays, put_by_list
from spmd_grid.typing import Shape

__all__ = ["TRACED", "accumulate", "get", "put"]


def get(a: Any, key: Any) -> Any:
    """``a[key]`` for integers, slices, ..., None and one plain list of integers."""
    keys = key if isinstance(key, tuple) else (key,)
    if any(_is_traced(each) for each in keys):
        if len(keys) == a.ndim and all(isinstance(each, int | np.integer) or _is_numbers(each) for each in keys):
            return pick_by_arrays(a, keys)
        if any(_is_numbers(each) for each in keys):
            raise ImplicitGatherError("getitem: by a list of integers of the program all dimensions must be indexed")
        raise ImplicitGatherError("getitem: the shape of a[mask] depends on cells; use np.where(mask, a, other)")
    listed = list_in(key, a.shape)
    if listed is not None:
        rest = a if listed.is_alone else get(a, listed.rest)
        numbers = listed.numbers
        found = pick(rest, listed.axis, numbers)
        return np.moveaxis(found, listed.axis, 0) if listed.leads else found
    selection = as_selection(key, a.shape)
    dims = tuple(range(a.ndim))
    kept: list[int | None] = [d if n == a.shape[d] or n > 1 else None for d, n in enumerate(selection.counts)]
    result: list[int | None] = [kept[d] for d in dims if d not in selection.dropped]
    for position in selection.new:
        result.insert(position, None)
    interface = Interface(tuple(map(Iterator, a.shape)), (dims,), (tuple(result),))
    parts = [(selection.result_shape(), a.dtype)]
    return a.tracer.structural("getitem", [a], parts, interface, Select(selection))


def put(a: Any, key: Any, value: Any) -> Any:
    """The array ``a`` after ``a[key] = value``."""
    check_plain("setitem", "value", value)
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) == 1 and _is_traced(keys[0]):
        mask = keys[0]
        if mask.dtype != bool or mask.shape != a.shape:
            raise ImplicitGatherError(
                f"setitem: an index has dtype {mask.dtype} and shape {mask.shape}; it must be a mask of shape {a.shape}"
            )
        return np.where(mask, value, a).astype(a.dtype, copy=False)
    listed = list_in(key, a.shape)
    if listed is not None:
        return put_by_list(a, key, value, listed.numbers)
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
    return a.tracer.structural("setitem", [a, piece], [(a.shape, a.dtype)], interface, Put(selection))


def _is_traced(x: Any) -> bool:
    return hasattr(x, "tracer")


def _is_numbers(x: Any) -> bool:
    return _is_traced(x) and x.dtype.kind in "iu"


def concatenate(
    arrays: Sequence[Any], axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """np.concatenate."""
    arrays = list(arrays)
    if axis is None:
        arrays, axis = [np.ravel(x) for x in arrays], 0
    first = next(x for x in arrays if _is_traced(x))
    d, shape, wanted = joined(arrays, axis, dtype, casting)
    dims = tuple(range(len(shape)))
    interface = Interface(tuple(map(Iterator, shape)), (dims,) * len(arrays), (dims,))
    return first.tracer.structural("concatenate", arrays, [(shape, wanted)], interface, Concatenate(d))


def reshape(a: Any, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> Any:
    """np.reshape in row-major order, or in column-major order by transposes."""
    if order not in ("C", "F", "A") or shape is None:
        raise no_rule(f"reshape with order={order!r}")
    wanted = full_shape(a.shape, shape)
    if order == "F":
        return np.transpose(reshape(np.transpose(a), wanted[::-1]))
    if wanted == a.shape:
        found: Any = np.copy(a)
    else:
        interface = reshape_interface(a.shape, wanted)
        found = a.tracer.structural("reshape", [a], [(wanted, a.dtype)], interface, Reshape(wanted))
    first, steps = a, list[Any]()
    while first._source is not None:
        steps.insert(0, first._way)
        first = first._source
    for way in () if copy else reshape_steps(cells_as_numpy_has_them(first, steps), wanted):
        found._as_view(a, way)
    return found


def _scan(name: str, function: Callable[..., Any], combine: np.ufunc, a: Any, axis: int | None, dtype: Any) -> Any:
    if axis is None:
        a, axis = np.ravel(a), 0
    d = one_axis(name, axis, a.ndim)
    result = scanned_dtype(name, function, combine, a.dtype, None if dtype is None else np.dtype(dtype))
    dims = tuple(range(a.ndim))
    interface = Interface(tuple(map(Iterator, a.shape)), (dims,), (dims,))
    return a.tracer.structural(name, [a], [(a.shape, result)], interface, Scan(function, combine, d))


def accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None) -> Any:
    """``ufunc.accumulate`` of an associative ufunc."""
    if ufunc not in ASSOCIATIVE:
        raise no_rule(f"{ufunc.__name__}.accumulate")
    return _scan(f"{ufunc.__name__}.accumulate", ufunc.accumulate, ufunc, array, axis, dtype)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """np.cumsum."""
    return _scan("cumsum", np.cumsum, np.add, a, axis, dtype)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """np.cumprod."""
    return _scan("cumprod", np.cumprod, np.multiply, a, axis, dtype)


def new_like(a: Any, shape: Shape, dtype: np.dtype) -> Any:
    """A new array, which is written to before it is read."""
    interface = Interface(tuple(map(Iterator, shape)), (), (tuple(range(len(shape))),))
    return a.tracer.structural("new", [], [(shape, dtype)], interface, Fresh())


# Functions that arrays compute by communication of their own, and programs by operations.
TRACED: dict[Callable[..., Any], Callable[..., Any]] = {
    np.concatenate: concatenate,
    np.reshape: reshape,
    np.cumsum: cumsum,
    np.cumprod: cumprod,
    joining.new_like: new_like,
    np.linalg.norm: norm,
}
