"""Functions that find cells: the result has one cell for each, on the process that finds it in its own block.

The processes exchange their numbers of cells; the result is cut by these, and no cell of it moves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spmd_grid.compute.cores import core_in, cut_by_counts
from spmd_grid.compute.splits import ArrayOnGrid, block_starts, is_sharded, plain_sharding
from spmd_grid.errors import DTypeError, ShapeError
from spmd_grid.functions.table import Operand, composite
from spmd_grid.grid.groups import group_index
from spmd_grid.grid.sharding import Sharding

__all__: list[str] = []


def _rows(a: ArrayOnGrid) -> Sharding:
    """a's sharding if nothing but its first dimension is cut, else one that cuts that by all its axes."""
    sharding = plain_sharding(a.sharding)
    axes = [axis for cut in sharding.split_axes for axis in cut]
    return sharding if len(sharding.split_axes) < 2 else Sharding(sharding.grid, [axes])


def _found(a: ArrayOnGrid, as_rows: bool) -> Any:
    rows = _rows(a)
    axes = tuple([axis for axis in rows.axes_of(0) if a.grid.shape[axis] > 1])
    start = block_starts(rows, 0, a.shape[0])[group_index(a.grid.grid, a.grid.own_coords, axes)]
    cells = np.argwhere(core_in(a, rows))
    cells[:, 0] += start
    if as_rows:
        return cut_by_counts(a, cells, axes)[0]
    return tuple([cut_by_counts(a, np.ascontiguousarray(column), axes)[0] for column in cells.T])


@composite(np.nonzero)
def nonzero(a: Operand) -> tuple[Operand, ...]:
    """np.nonzero; an array that is cut along other dimensions than the first is brought to rows, as bools."""
    if not a.ndim:
        raise ShapeError("nonzero: the array has no dimensions; it must have one or more")
    found: tuple[Operand, ...] = a.grid.process.gate.run("nonzero", _found, _as_bools(a), False)
    return found


@composite(np.argwhere)
def argwhere(a: Operand) -> Operand:
    """np.argwhere, laid out as by np.nonzero."""
    if not a.ndim:
        raise ShapeError("argwhere: the array has no dimensions; it must have one or more")
    return a.grid.process.gate.run("argwhere", _found, _as_bools(a), True)


@composite(np.flatnonzero)
def flatnonzero(a: Operand) -> Operand:
    """np.flatnonzero, laid out as by np.nonzero."""
    strides = [int(np.prod(a.shape[d + 1 :], dtype=np.int64)) for d in range(a.ndim)]
    found = np.nonzero(a) if a.ndim else np.nonzero(np.ravel(a))
    return sum([index * n for index, n in zip(found, strides)][1:], found[0] * strides[0]) if a.ndim else found[0]


def _as_bools(a: Operand) -> Operand:
    return a if a.dtype == np.dtype(bool) else a != np.zeros((), a.dtype)[()]


# -- cells under a mask --------------------------------------------------------------------------------------------


@composite(np.compress)
def compress(condition: ArrayLike | Operand, a: Operand, axis: int | None = None, out: Operand = None) -> Operand:
    """np.compress: by a plain list along a dimension; by a sharded mask cells of an array with one."""
    if not is_sharded(condition):
        mask = np.asarray(condition)
        if mask.ndim != 1:
            raise ShapeError(f"compress: condition has shape {mask.shape}; it must be a list of bools")
        return np.take(a, np.flatnonzero(mask), axis)
    if axis is None:
        a = np.ravel(a)
    if condition.shape != a.shape or a.ndim != 1:
        raise ShapeError(
            f"compress: a sharded condition has shape {condition.shape}, and the array {a.shape}; both must have one"
            " dimension, of the same extent"
        )
    if condition.dtype != np.dtype(bool):
        raise DTypeError(f"compress: condition has dtype {condition.dtype}; it must be bool")
    return a.grid.process.gate.run("compress", _kept, condition, a)


def _kept(mask: ArrayOnGrid, a: ArrayOnGrid) -> Any:
    sharding = plain_sharding(a.sharding)
    axes = tuple([axis for axis in sharding.axes_of(0) if a.grid.shape[axis] > 1])
    return cut_by_counts(a, core_in(a, sharding)[core_in(mask, sharding)], axes)[0]


@composite(np.extract)
def extract(condition: Operand, arr: Operand) -> Operand:
    """np.extract."""
    if condition.shape != arr.shape:
        raise ShapeError(
            f"extract: condition has shape {condition.shape}, and the array {arr.shape}; they must be equal"
        )
    mask = condition if condition.dtype == np.dtype(bool) else condition != 0
    return np.compress(np.ravel(mask), np.ravel(arr))
