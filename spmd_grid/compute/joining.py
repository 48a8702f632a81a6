"""Functions that put arrays together, or their cells into another shape, by assigning to parts of a new array."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from spmd_grid.compute.apply import sharded_like
from spmd_grid.compute.splits import block_starts, is_sharded, plain_sharding, reference_of
from spmd_grid.errors import AxisError, ShapeError
from spmd_grid.functions.table import composite
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.typing import Shape

__all__ = ["new_like"]


def new_like(a: Any, shape: Shape, dtype: np.dtype) -> Any:
    """A new array of any cells, spread as ``a``; by even blocks where a's offsets are given explicitly.  Local."""
    sharding = plain_sharding(a.sharding)
    if sharding.sharded_dims_offsets:
        sharding = Sharding(sharding.grid, sharding.split_axes)
    layout = Layout(sharding, tuple(shape))
    return type(a)(a.grid.allocate(layout.local_shape(a.grid.coords), dtype), layout, a.grid)


@composite(np.concatenate)
def concatenate(arrays, axis=0, out=None, dtype=None, casting="same_kind"):
    """np.concatenate; the layout is that of the array with the most bytes."""
    arrays = list(arrays)
    ndim = np.ndim(arrays[0]) if not is_sharded(arrays[0]) else arrays[0].ndim
    if axis is None or not -ndim <= axis < ndim:
        raise AxisError(f"concatenate: axis is {axis!r}; it must be one of the {ndim} dimensions of the arrays")
    axis %= ndim
    shapes = [np.shape(x) if not is_sharded(x) else x.shape for x in arrays]
    for shape in shapes:
        if len(shape) != ndim or any(n != shapes[0][d] for d, n in enumerate(shape) if d != axis):
            raise ShapeError(f"concatenate: shapes are {shapes}; they must be equal but for dimension {axis}")
    shape = tuple([sum(each[axis] for each in shapes) if d == axis else n for d, n in enumerate(shapes[0])])
    found = np.dtype(dtype) if dtype is not None else np.result_type(*[x.dtype for x in arrays])
    result, start = new_like(reference_of(arrays), shape, found), 0
    for x, each in zip(arrays, shapes):
        result[(*[slice(None)] * axis, slice(start, start + each[axis]))] = x
        start += each[axis]
    return result


@composite(np.stack)
def stack(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    """np.stack."""
    return np.concatenate([np.expand_dims(x, axis) for x in arrays], axis, dtype=dtype)


@composite(np.vstack)
def vstack(tup, *, dtype=None, casting="same_kind"):
    """np.vstack."""
    return np.concatenate([np.expand_dims(x, 0) if x.ndim == 1 else x for x in tup], 0, dtype=dtype)


@composite(np.hstack)
def hstack(tup, *, dtype=None, casting="same_kind"):
    """np.hstack."""
    return np.concatenate(list(tup), 0 if tup[0].ndim == 1 else 1, dtype=dtype)


@composite(np.split, np.array_split)
def split(ary, indices_or_sections, axis=0):
    """np.split and np.array_split."""
    extent = ary.shape[axis]
    if isinstance(indices_or_sections, int):
        n = indices_or_sections
        sizes = [extent // n + (i < extent % n) for i in range(n)]
        edges = [0, *np.cumsum(sizes).tolist()]
    else:
        edges = [0, *indices_or_sections, extent]
    before = (slice(None),) * (axis % ary.ndim)
    return [ary[(*before, slice(low, high))] for low, high in zip(edges, edges[1:])]


@composite(np.pad)
def pad(array, pad_width, mode="constant", *, constant_values=0):
    """np.pad with a number."""
    if mode != "constant" or np.ndim(constant_values):
        raise ShapeError(f"pad: mode is {mode!r}; sharded arrays are padded with one number ('constant')")
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
    result = new_like(array, tuple([low + n + high for n, (low, high) in zip(array.shape, widths)]), array.dtype)
    result[...] = constant_values
    result[tuple([slice(low, low + n) for n, (low, _) in zip(array.shape, widths)])] = array
    return result


@composite(np.tile)
def tile(A, reps):
    """np.tile."""
    reps = (reps,) if isinstance(reps, int) else tuple(reps)
    reps = (1,) * (A.ndim - len(reps)) + reps
    A = np.expand_dims(A, tuple(range(len(reps) - A.ndim)))
    for axis, n in enumerate(reps):
        A = np.concatenate([A] * n, axis) if n else A[(*[slice(None)] * axis, slice(0, 0))]
    return A


@composite(np.repeat)
def repeat(a, repeats, axis=None):
    """np.repeat of every cell equally often along a dimension."""
    if axis is None or not isinstance(repeats, int):
        raise AxisError("repeat: sharded arrays are repeated a number of times along a dimension")
    axis %= a.ndim
    shape = tuple([n * repeats if d == axis else n for d, n in enumerate(a.shape)])
    result = new_like(a, shape, a.dtype)
    for i in range(repeats):
        result[(*[slice(None)] * axis, slice(i, None, repeats))] = a
    return result


@composite(np.reshape)
def reshape(a, /, shape=None, order="C", *, newshape=None, copy=None):
    """np.reshape in row-major order.

    Leading dimensions that stay as they are keep their axes where the others are not cut; then nothing moves.  Else the
    array is cut along its first dimension, moved as one row of cells, and cut along the first dimension of the result.
    """
    if order != "C":
        raise ShapeError(f"reshape: order is {order!r}; it must be 'C'")
    shape = _full_shape(a, newshape if shape is None else shape)
    return a.grid.process.gate.run("reshape", _reshape, a, shape)


def _reshape(a: Any, shape: Shape) -> Any:
    sharding, same = plain_sharding(a.sharding), 0
    while same < min(len(shape), a.ndim) and shape[same] == a.shape[same]:
        same += 1
    if len(sharding.split_axes) <= same and not a.sharding.partial_axes:
        layout = Layout(sharding, shape)
        return sharded_like(a, a.core.reshape(layout.local_shape(a.grid.coords)), layout)
    axes = [axis for cut in sharding.split_axes for axis in cut]
    rows, result_rows = (Sharding(sharding.grid, [axes] if ndim else []) for ndim in (a.ndim, len(shape)))
    local = reshard_local(a.local, a.sharding, rows, a.grid, a.shape)
    flat, wanted = _flat(rows, a.shape), _flat(result_rows, shape)
    local = reshard_local(np.ascontiguousarray(local).reshape(-1), flat, wanted, a.grid, (a.size,))
    layout = Layout(result_rows, shape)
    return sharded_like(a, local.reshape(layout.local_shape(a.grid.coords)), layout)


def _flat(rows: Sharding, shape: Shape) -> Sharding:
    """The sharding of the row of all cells that follows from cutting along the first dimension."""
    if not rows.split_axes:
        return Sharding(rows.grid, [])
    behind = prod(shape[1:])
    starts = [start * behind for start in block_starts(rows, 0, shape[0])]
    return Sharding(rows.grid, rows.split_axes, sharded_dims_offsets=[starts])


def _full_shape(a: Any, shape: int | Sequence[int]) -> Shape:
    wanted = [shape] if isinstance(shape, int | np.integer) else [int(n) for n in shape]
    known = prod(n for n in wanted if n != -1)
    if wanted.count(-1) == 1 and known and a.size % known == 0:
        wanted[wanted.index(-1)] = a.size // known
    if -1 in wanted or prod(wanted) != a.size:
        raise ShapeError(f"reshape: an array of shape {a.shape} cannot be reshaped to {shape}")
    return tuple(wanted)


@composite(np.ravel)
def ravel(a, order="C"):
    """np.ravel in row-major order."""
    return np.reshape(a, (-1,))
