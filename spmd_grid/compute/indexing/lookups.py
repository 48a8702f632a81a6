"""Lookups: the cells of an array that sharded arrays of numbers name, as in ``a[i, 3, j]`` and ``np.take(a, i)``.

Every process needs the cells that its own numbers name.  It tells each process that holds some of them their
positions in that process's block, and gets the cells back in the same order.  So each cell moves once to each process
that needs it, and a number at most once; no process holds more than its blocks and these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.compute.cores import core_in
from spmd_grid.compute.course.apply import sharded_like
from spmd_grid.compute.indexing.requests import Requests, most_at_once
from spmd_grid.compute.splits import ArrayOnGrid, block_starts, is_sharded, plain_sharding
from spmd_grid.errors import CellIndexError, ShapeError
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.typing import Shape

__all__ = ["cells_named", "holders", "look_up"]


def cells_named(op: str, key: Any, shape: Shape) -> Any:
    """The row-major numbers, in an array of ``shape``, of the cells that ``key`` names.

    None unless ``key`` has an integer or an array of integers for every dimension, and one of them is sharded.
    Collective over its grid.  Raises CellIndexError, and ShapeError for arrays that do not broadcast.
    """
    entries = key if type(key) is tuple else (key,)
    if not any(is_sharded(each) for each in entries) or len(entries) != len(shape):
        return None
    if not all(isinstance(each, int | np.integer) or _is_integers(each) for each in entries):
        return None
    shapes = [np.shape(each) for each in entries]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(f"{op}: lists of numbers have shapes {shapes}; they must broadcast to one") from None
    found: Any = 0
    for dim, (each, extent) in enumerate(zip(entries, shape)):
        found = found * extent + from_zero(each, dim, extent)
    return found


def _is_integers(entry: Any) -> bool:
    return (is_sharded(entry) or isinstance(entry, np.ndarray)) and entry.dtype.kind in "iu"


def from_zero(numbers: Any, dim: int, extent: int) -> Any:
    """Numbers without negative ones.  Collective over their grid, if they are sharded.  Raises CellIndexError."""
    if np.size(numbers) and not (-extent <= np.min(numbers) and np.max(numbers) < extent):
        raise CellIndexError(f"an index is out of bounds for dimension {dim} with extent {extent}")
    if isinstance(numbers, int | np.integer):
        return int(numbers) % extent
    return numbers.astype(np.int64) % max(extent, 1)


def look_up(a: ArrayOnGrid, numbers: ArrayOnGrid) -> Any:
    """The cells of ``a`` at ``numbers``, row-major and not negative, laid out as these.  Collective over a's grid."""
    a.grid.check_same_program(numbers.grid, "getitem")
    return a.grid.process.gate.run("getitem", _look_up, a, numbers)


def _look_up(a: ArrayOnGrid, numbers: ArrayOnGrid) -> Any:
    held, spread = plain_sharding(a.sharding), plain_sharding(numbers.sharding)
    core, own = core_in(a, held), core_in(numbers, spread)
    axes = tuple([axis for cut in held.split_axes for axis in cut if a.grid.shape[axis] > 1])
    wanted, position = np.unique(own, return_inverse=True)
    owners, offsets = holders(wanted, held, a.shape)
    cells = np.empty(len(wanted), a.dtype)
    requests = Requests(owners, a.grid, axes, most_at_once(a, numbers))
    requests.ask(offsets, lambda asked: _at(core, asked), cells)
    return sharded_like(a, cells[position].reshape(own.shape), Layout(spread, numbers.shape), (a.stored,))


def holders(numbers: np.ndarray, sharding: Sharding, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """The member that holds each cell, in the group over all axes that split, and where in its block.  Plans only."""
    owners, offsets = np.zeros((2, len(numbers)), np.int64)
    left = np.prod(shape, dtype=np.int64)
    for dim, extent in enumerate(shape):
        left //= max(extent, 1)
        at = numbers // max(left, 1) % max(extent, 1)
        starts = np.array(block_starts(sharding, dim, extent))
        block = np.searchsorted(starts, at, side="right") - 1  # of blocks with one start, the last has cells
        owners = owners * (len(starts) - 1) + block
        offsets = offsets * np.diff(starts)[block] + at - starts[block]
    return owners, offsets


def _at(block: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The cells of a block at row-major ``offsets``, without a copy of the block."""
    return block[np.unravel_index(offsets, block.shape)] if len(offsets) else np.empty(0, block.dtype)
