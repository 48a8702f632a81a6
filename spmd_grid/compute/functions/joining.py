"""Functions that put arrays together, or their cells into another shape, by assigning to parts of a new array."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.compute.course.apply import check_operands, sharded_like
from spmd_grid.compute.splits import ArrayOnGrid, block_starts, is_sharded, plain_sharding, reference_of
from spmd_grid.compute.views import attach, cells_of
from spmd_grid.errors import ArgumentError
from spmd_grid.functions.axes import cut, one_axis
from spmd_grid.functions.composed.joins import full_shape, joined
from spmd_grid.functions.table import Operand, composite
from spmd_grid.functions.ways import reshape_steps
from spmd_grid.grid.derived_starts import with_extents
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.typing import Shape

__all__ = ["flat_sharding", "new_like"]


@composite()
def new_like(a: Operand, shape: Shape, dtype: np.dtype) -> Any:
    """A new array of any cells, spread as ``a``; by even blocks where a's offsets are given explicitly.  Local."""
    sharding = plain_sharding(a.sharding)
    if sharding.sharded_dims_offsets:
        sharding = Sharding(sharding.grid, sharding.split_axes)
    layout = Layout(sharding, tuple(shape))
    layout.check_addressable(dtype.itemsize)
    return type(a)(a.grid.allocate(layout.local_shape(a.grid.own_coords), dtype), layout, a.grid)


@composite(np.concatenate)
def concatenate(
    arrays: Sequence[Operand],
    axis: int | None = 0,
    out: Operand = None,
    *,
    dtype: DTypeLike | None = None,
    casting: Any = "same_kind",
) -> Operand:
    """np.concatenate; the layout is that of the array with the most bytes."""
    arrays = list(arrays)
    check_operands("concatenate", arrays)
    if axis is None:
        arrays, axis = [np.ravel(x) for x in arrays], 0
    d, shape, wanted = joined(arrays, axis, dtype, casting)
    result, start = new_like(reference_of(arrays), shape, wanted), 0
    for x in arrays:
        result[cut(d, start, start + x.shape[d])] = x
        start += x.shape[d]
    return result


@composite(np.stack)
def stack(
    arrays: Sequence[Operand],
    axis: int = 0,
    out: Operand = None,
    *,
    dtype: DTypeLike | None = None,
    casting: Any = "same_kind",
) -> Operand:
    """np.stack."""
    check_operands("stack", arrays)
    return np.concatenate([np.expand_dims(x, axis) for x in arrays], axis, dtype=dtype, casting=casting)


@composite(np.vstack)
def vstack(tup: Sequence[Operand], *, dtype: DTypeLike | None = None, casting: Any = "same_kind") -> Operand:
    """np.vstack."""
    check_operands("vstack", tup)
    rows = [np.expand_dims(x, 0) if x.ndim == 1 else x for x in tup]
    return np.concatenate(rows, 0, dtype=dtype, casting=casting)


@composite(np.hstack)
def hstack(tup: Sequence[Operand], *, dtype: DTypeLike | None = None, casting: Any = "same_kind") -> Operand:
    """np.hstack."""
    check_operands("hstack", tup)
    return np.concatenate(list(tup), 0 if tup[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@composite(np.array_split)
def array_split(ary: Operand, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Operand]:
    """np.array_split."""
    d = one_axis("split", axis, ary.ndim)
    extent = ary.shape[d]
    if isinstance(indices_or_sections, int | np.integer):
        n = int(indices_or_sections)
        if n < 1:
            raise ArgumentError(f"split: the number of sections is {n}; it must be positive")
        edges = [0, *np.cumsum([extent // n + (i < extent % n) for i in range(n)]).tolist()]
    else:
        edges = [0, *indices_or_sections, extent]
    return [ary[cut(d, low, high)] for low, high in zip(edges, edges[1:])]


@composite(np.split)
def split(ary: Operand, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Operand]:
    """np.split."""
    d = one_axis("split", axis, ary.ndim)
    if isinstance(indices_or_sections, int | np.integer):
        n = int(indices_or_sections)
        if n > 0 and ary.shape[d] % n:
            raise ArgumentError(f"split: {n} sections do not divide the {ary.shape[d]} cells of dimension {d} evenly")
    return np.array_split(ary, indices_or_sections, d)


@composite(np.tile)
def tile(A: Operand, reps: int | Sequence[int]) -> Operand:
    """np.tile."""
    counts = (int(reps),) if isinstance(reps, int | np.integer) else tuple(reps)
    counts = (1,) * (A.ndim - len(counts)) + counts
    tiled = np.expand_dims(A, tuple(range(len(counts) - A.ndim)))  # a copy
    shape = tuple([extent * n for extent, n in zip(tiled.shape, counts, strict=True)])
    Layout(Sharding(Grid((1,)), []), shape).check_addressable(A.dtype.itemsize)
    for axis, n in enumerate(counts):
        if n != 1:
            tiled = np.concatenate([tiled] * n, axis) if n else tiled[cut(axis, 0, 0)]
    return tiled


@composite(np.reshape)
def reshape(
    a: Operand, shape: int | Sequence[int] | None = None, order: str = "C", *, copy: bool | None = None
) -> Operand:
    """np.reshape; in column-major order by transposes.

    Leading dimensions that stay as they are keep their axes if the others are not cut; then nothing moves.  Otherwise
    the array is cut along its first dimension, moved as one row of cells, and cut along the first dimension of the
    result.  The result is a view where numpy gives one, which depends on how the cells of a view lie in its source.
    """
    if order not in ("C", "F", "A") or copy is False or shape is None:
        raise NotImplementedError(f"reshape with order={order!r}, or into a view,")
    if order == "F":
        return np.transpose(np.reshape(np.transpose(a), full_shape(a.shape, shape)[::-1]))
    wanted = full_shape(a.shape, shape)
    found = a.grid.process.gate.run("reshape", _reshape, a, wanted)
    way = () if copy or not is_sharded(found) else reshape_steps(cells_of(a), wanted)
    return attach(found, a, way) if way else found


def _reshape(a: ArrayOnGrid, shape: Shape) -> Any:
    sharding, same = plain_sharding(a.sharding), 0
    while same < min(len(shape), a.ndim) and shape[same] == a.shape[same]:
        same += 1
    if len(sharding.split_axes) <= same and not a.sharding.partial_axes:
        layout = Layout(sharding, shape)
        return sharded_like(a, a.stored_core.reshape(layout.local_shape(a.grid.own_coords)), layout, (a.stored,))
    axes = [axis for cut in sharding.split_axes for axis in cut]
    rows, result_rows = (Sharding(sharding.grid, [axes] if ndim else []) for ndim in (a.ndim, len(shape)))
    local = reshard_local(a.stored, a.sharding, rows, a.grid, a.shape)
    flat, wanted = flat_sharding(rows, a.shape), flat_sharding(result_rows, shape)
    local = reshard_local(np.ascontiguousarray(local).reshape(-1), flat, wanted, a.grid, (a.size,))
    layout = Layout(result_rows, shape)
    return sharded_like(a, local.reshape(layout.local_shape(a.grid.own_coords)), layout)


def flat_sharding(rows: Sharding, shape: Shape) -> Sharding:
    """The sharding of the row of all cells that follows from cutting along the first dimension."""
    if not rows.split_axes:
        return Sharding(rows.grid, [])
    per_row = prod(shape[1:])
    starts = with_extents(block_starts(rows, 0, shape[0]), lambda extent: extent * per_row)
    return Sharding(rows.grid, rows.split_axes, sharded_dims_offsets=[starts])


@composite(np.ravel)
def ravel(a: Operand, order: Any = "C") -> Operand:
    """np.ravel; arrays lie in row-major order, which is what order "A" and "K" ask for."""
    return np.reshape(a, (-1,), order="C" if order == "K" else order)
