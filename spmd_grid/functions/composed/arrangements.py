"""Functions that arrange arrays, made of others: stacks, splits, diagonals, grids of coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.errors import AxisError, ShapeError
from spmd_grid.functions.axes import cut, one_axis, several_axes
from spmd_grid.functions.composites import distance_from_diagonal
from spmd_grid.functions.interface import shape_of
from spmd_grid.functions.table import Operand, composite

__all__: list[str] = []


def _with_ndim(x: Operand, ndim: int) -> Operand:
    """``x`` with dimensions of extent 1 in front, to have at least ``ndim``."""
    x = x if hasattr(x, "ndim") else np.asarray(x)
    return np.expand_dims(x, tuple(range(ndim - x.ndim))) if x.ndim < ndim else x


def _each(arrays: tuple[Operand, ...], found: list[Operand]) -> Any:
    return found[0] if len(arrays) == 1 else tuple(found)


@composite(np.atleast_1d)
def atleast_1d(*arys: Operand) -> Any:
    """np.atleast_1d."""
    return _each(arys, [_with_ndim(x, 1) for x in arys])


@composite(np.atleast_2d)
def atleast_2d(*arys: Operand) -> Any:
    """np.atleast_2d."""
    return _each(arys, [_with_ndim(x, 2) for x in arys])


@composite(np.atleast_3d)
def atleast_3d(*arys: Operand) -> Any:
    """np.atleast_3d."""
    return _each(arys, [np.expand_dims(x, 2) if np.ndim(x) == 2 else _last_of_3(x) for x in arys])


def _last_of_3(x: Operand) -> Operand:
    return np.expand_dims(_with_ndim(x, 1), (0, 2)) if np.ndim(x) < 2 else x


@composite(np.dstack)
def dstack(tup: Sequence[Operand]) -> Operand:
    """np.dstack."""
    return np.concatenate([np.atleast_3d(x) for x in tup], 2)


@composite(np.column_stack)
def column_stack(tup: Sequence[Operand]) -> Operand:
    """np.column_stack."""
    return np.concatenate([np.expand_dims(_with_ndim(x, 1), 1) if np.ndim(x) < 2 else x for x in tup], 1)


@composite(np.append)
def append(arr: Operand, values: Operand, axis: int | None = None) -> Operand:
    """np.append."""
    values = values if hasattr(values, "ndim") else np.asarray(values)
    return np.concatenate([np.ravel(arr), np.ravel(values)] if axis is None else [arr, values], axis or 0)


@composite(np.block)
def block(arrays: Any) -> Operand:
    """np.block."""
    depth = _depth(arrays)
    ndim = max(depth, *[np.ndim(x) for x in _leaves(arrays)])
    return _joined(arrays, depth, ndim)


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(each) for each in arrays}
    if len(depths) != 1:
        raise ValueError("block: lists must be nested equally deep, and have entries")
    return 1 + depths.pop()


def _leaves(arrays: Any) -> list[Any]:
    return [leaf for each in arrays for leaf in _leaves(each)] if isinstance(arrays, list) else [arrays]


def _joined(arrays: Any, depth: int, ndim: int) -> Operand:
    if not depth:
        return _with_ndim(arrays, ndim)
    return np.concatenate([_joined(each, depth - 1, ndim) for each in arrays], ndim - depth)


@composite(np.hsplit)
def hsplit(ary: Operand, indices_or_sections: int | Sequence[int]) -> list[Operand]:
    """np.hsplit."""
    return np.split(ary, indices_or_sections, 0 if ary.ndim == 1 else 1)


@composite(np.vsplit)
def vsplit(ary: Operand, indices_or_sections: int | Sequence[int]) -> list[Operand]:
    """np.vsplit."""
    if ary.ndim < 2:
        raise ValueError(f"vsplit: the array has shape {ary.shape}; it must have at least two dimensions")
    return np.split(ary, indices_or_sections, 0)


@composite(np.dsplit)
def dsplit(ary: Operand, indices_or_sections: int | Sequence[int]) -> list[Operand]:
    """np.dsplit."""
    if ary.ndim < 3:
        raise ValueError(f"dsplit: the array has shape {ary.shape}; it must have at least three dimensions")
    return np.split(ary, indices_or_sections, 2)


@composite(np.rot90)
def rot90(m: Operand, k: int = 1, axes: Sequence[int] = (0, 1)) -> Operand:
    """np.rot90, by flips and a transpose."""
    plane = several_axes("rot90", axes, m.ndim)
    if len(plane) != 2:
        raise AxisError(f"rot90: axes is {axes!r}; it must name two dimensions")
    if k % 4 == 2:
        return np.flip(m, plane)
    if k % 4 == 0:
        return np.copy(m)
    turned = np.swapaxes(np.flip(m, plane[1]) if k % 4 == 1 else m, *plane)
    return turned if k % 4 == 1 else np.flip(turned, plane[1])


@composite(np.broadcast_arrays)
def broadcast_arrays(*args: Operand, subok: bool = False) -> tuple[Operand, ...]:
    """np.broadcast_arrays; the results have memory of their own."""
    shape = np.broadcast_shapes(*[np.shape(x) for x in args])
    return tuple([np.broadcast_to(x, shape) for x in args])


@composite(np.meshgrid)
def meshgrid(*xi: Operand, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Operand, ...]:
    """np.meshgrid; each result is cut as its list is."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is {indexing!r}; it must be 'xy' or 'ij'")
    order = list(range(len(xi)))
    if indexing == "xy" and len(xi) > 1:
        order[:2] = 1, 0
    lists = [np.ravel(x) for x in xi]
    shape = tuple([shape_of(lists[i])[0] for i in order])
    found = []
    for i, x in enumerate(lists):
        d = order.index(i)
        laid = np.expand_dims(x, tuple([e for e in range(len(xi)) if e != d]))
        found.append(laid if sparse else np.broadcast_to(laid, shape))
    return tuple(found)


# -- diagonals -----------------------------------------------------------------------------------------------------


@composite(np.diagonal)
def diagonal(a: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Operand:
    """np.diagonal: each cell of it is alone in its column; the result has memory of its own."""
    first, second = one_axis("diagonal", axis1, a.ndim), one_axis("diagonal", axis2, a.ndim)
    a = np.moveaxis(a, (first, second), (-2, -1))
    on_it = np.where(distance_from_diagonal("diagonal", a, offset) == 0, a, a.dtype.type(0))
    rows, columns = a.shape[-2:]
    start = max(offset, 0)
    return np.sum(on_it, axis=-2, dtype=a.dtype)[
        ..., start : start + max(min(rows + min(offset, 0), columns - start), 0)
    ]


@composite(np.diag)
def diag(v: Operand, k: int = 0) -> Operand:
    """np.diag: the diagonal of a matrix, or a matrix of a diagonal, cut into rows as that is."""
    if v.ndim == 2:
        return np.diagonal(v, k)
    if v.ndim != 1:
        raise ShapeError(f"diag: the array has shape {v.shape}; it must have one or two dimensions")
    row = np.pad(v, (max(-k, 0), max(k, 0))) if k else v
    n = row.shape[0]
    columns = np.zeros_like(row, dtype=np.int64) + np.arange(k, n + k)
    return np.where(np.expand_dims(columns, 1) == np.arange(n), np.expand_dims(row, 1), row.dtype.type(0))


@composite(np.diagflat)
def diagflat(v: Operand, k: int = 0) -> Operand:
    """np.diagflat."""
    return np.diag(np.ravel(v), k)


@composite(np.vander)
def vander(x: Operand, N: int | None = None, increasing: bool = False) -> Operand:
    """np.vander, cut into rows as ``x`` is."""
    if x.ndim != 1:
        raise ShapeError(f"vander: the array has shape {x.shape}; it must have one dimension")
    powers = np.arange(x.shape[0] if N is None else N)
    base = np.expand_dims(x, 1).astype(np.promote_types(x.dtype, int))
    return base ** (powers if increasing else powers[::-1])


@composite(np.ediff1d)
def ediff1d(ary: Operand, to_end: Operand = None, to_begin: Operand = None) -> Operand:
    """np.ediff1d."""
    row = np.ravel(ary)
    parts = [row[cut(0, 1, None)] - row[cut(0, None, -1)]]
    if to_begin is not None:
        parts.insert(0, np.ravel(np.asarray(to_begin) if np.ndim(to_begin) == 0 else to_begin))
    if to_end is not None:
        parts.append(np.ravel(np.asarray(to_end) if np.ndim(to_end) == 0 else to_end))
    return np.concatenate(parts, dtype=ary.dtype) if len(parts) > 1 else parts[0]
