"""Slices of sharded arrays: which cells of which block they name, and how the result is spread.

A slice first selects, on each device, the cells of its own block: that moves nothing, and what the devices then hold is
an array of the slice's shape with uneven blocks.  From there a resharding leads to the sharding of the result, which is
the source's, dimension by dimension.  So a shifted slice moves the cells at the borders of blocks and no others.

    a[1:], 7 cells on 3 devices      0 1 2 | 3 4 5 | 6
    selected by each device            1 2 | 3 4 5 | 6        no message
    by the block rule, 6 cells         1 2 | 3 4 | 5 6        cell 5 moves
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from spmd_grid.compute.apply import sharded_like
from spmd_grid.compute.index import Selection, as_selection
from spmd_grid.compute.splits import ArrayOnGrid, block_starts, is_sharded, plain_sharding
from spmd_grid.errors import DTypeError, OutputError, ShapeError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["get", "number_of", "put"]

_MOST_KEPT = 1024


class _Course:
    """The way arrays of one layout are indexed by one key, on one process; found once."""

    __slots__ = ("_cells", "_held", "_kept", "_moves", "_result", "_selection")

    def __init__(self, layout: Layout, selection: Selection, coords: MultiIndex):
        whole = plain_sharding(layout.sharding)
        shape = layout.global_shape
        in_core = selection.local_slices(Layout(whole, shape), coords)
        starts = layout.core_in_local(coords).starts
        self._cells = tuple([slice(each.start + at, each.stop + at, each.step) for each, at in zip(in_core, starts)])
        self._held = held_sharding(whole, shape, selection)
        self._kept = kept_sharding(whole, shape, selection)
        self._moves = self._kept.grid != layout.grid or not _cut_alike(self._held, self._kept, selection.counts)
        self._result = Layout(_result_sharding(whole, shape, selection), selection.result_shape())
        self._selection = selection

    def run(self, a: ArrayOnGrid) -> Any:
        """The selected cells.  Collective over a's grid, if cells move."""
        return a.grid.process.gate.run("getitem", self.run_in_gate, a) if self._moves else self.run_in_gate(a)

    def run_in_gate(self, a: ArrayOnGrid) -> Any:
        """As `run`, within an operation."""
        block = a.local[self._cells]
        if self._moves:
            block = reshard_local(np.ascontiguousarray(block), self._held, self._kept, a.grid, self._selection.counts)
        return sharded_like(a, self._selection.view(block), self._result, (a.local,))


def get(a: ArrayOnGrid, key: Any) -> Any:
    """``a[key]``: a new array without halos, or a number.  Collective over a's grid."""
    known = _key_of(key, a.layout)
    kept = a.grid.functions
    course = None if known is None else kept.get(known)
    if course is None:
        selection = as_selection(key, a.shape)
        if a.sharding.partial_axes:
            return get(a.grid.process.gate.run("getitem", _combined_in_gate, a), key)
        course = _Course(a.layout, selection, a.grid.own_coords)
        if known is not None:
            if len(kept) >= _MOST_KEPT:
                kept.clear()
            kept[known] = course
    return course.run(a)


def number_of(a: ArrayOnGrid) -> Any:
    """The number in an array without dimensions.  Collective over a's grid, if it holds partial values."""
    return (a.grid.process.gate.run("getitem", _combined_in_gate, a) if a.sharding.partial_axes else a).core[()]


def _combined_in_gate(a: ArrayOnGrid) -> ArrayOnGrid:
    """The array with its partial values combined.  Collective over a's grid."""
    whole = plain_sharding(a.sharding)
    return type(a)(reshard_local(a.local, a.sharding, whole, a.grid, a.shape), Layout(whole, a.shape), a.grid)


def _key_of(key: Any, layout: Layout) -> tuple[Any, ...] | None:
    """Equal for equal keys of equal layouts; None for keys that are not compared.  Slices cannot be hashed."""
    entries: list[Any] = ["getitem", layout]
    for each in key if type(key) is tuple else (key,):
        found = type(each)
        if found is slice:
            for bound in (each.start, each.stop, each.step):
                if type(bound) is not int and bound is not None:
                    return None
            entries.append((each.start, each.stop, each.step))
        elif found is int or each is None or each is Ellipsis:
            entries.append(each)
        else:
            return None
    return tuple(entries)


def put(a: ArrayOnGrid, key: Any, value: Any) -> None:
    """``a[key] = value``: the cells of the core; halos are not refreshed.  Collective over a's grid."""
    if a.sharding.partial_axes:
        raise OutputError(
            "setitem: the array holds partial values; reshard it to a sharding without partial_axes first"
        )
    if not a.local.flags.writeable:
        raise OutputError("setitem: the array is read-only")
    for other in (key, value):
        if is_sharded(other):
            a.grid.check_same_program(other.grid, "setitem")
    if is_sharded(key):
        a.grid.process.gate.run("setitem", _put_masked, a, key, value)
        return
    selection = as_selection(key, a.shape)
    shape = selection.result_shape()
    found = value.shape if is_sharded(value) else np.shape(value)
    extra = max(len(found) - len(shape), 0)
    if found[:extra] != (1,) * extra or not _broadcasts(found[extra:], shape):
        raise ShapeError(f"setitem: value has shape {found}; it must broadcast to {shape}")
    dtype = value.dtype if is_sharded(value) else np.asarray(value).dtype
    if dtype.kind not in "biufc" and not np.can_cast(dtype, a.dtype, "same_kind"):
        raise DTypeError(f"setitem: value has dtype {dtype}; it cannot be cast to {a.dtype}")
    if is_sharded(value) and extra > 0:
        value = get(value, (0,) * extra)
    a.grid.process.gate.run("setitem", _put, a, selection, value)


def _broadcasts(shape: Shape, target: Shape) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def _put(a: ArrayOnGrid, selection: Selection, value: Any) -> None:
    layout = Layout(plain_sharding(a.sharding), a.shape)
    cells: tuple[Any, ...] = (*selection.local_slices(layout, a.grid.own_coords), ...)  # a view also of no dimensions
    target = a.core[cells]
    if is_sharded(value):
        piece = _piece_of_sharded(a, selection, value)
    elif np.ndim(value):
        piece = _piece_of_plain(a, selection, np.asarray(value))
    else:
        piece = value
    target[...] = piece
    a.mark_dirty()


def _piece_of_plain(a: ArrayOnGrid, selection: Selection, value: np.ndarray) -> np.ndarray:
    """This device's part of a plain array, which every process passes alike."""
    whole = np.broadcast_to(value, selection.result_shape()) if value.ndim <= len(selection.result_shape()) else value
    whole = whole.reshape(whole.shape[whole.ndim - len(selection.result_shape()) :])
    whole = np.squeeze(whole, selection.new)
    whole = np.expand_dims(whole, selection.dropped)
    whole = whole[tuple([slice(None, None, -1) if d in selection.flipped else slice(None) for d in range(whole.ndim)])]
    box = Layout(held_sharding(plain_sharding(a.sharding), a.shape, selection), selection.counts).core_box(
        a.grid.own_coords
    )
    return whole[box.slices()]


def _piece_of_sharded(a: ArrayOnGrid, selection: Selection, value: ArrayOnGrid) -> np.ndarray:
    """This device's part of a sharded array.  Collective."""
    if selection.flipped or selection.new:
        backwards = [
            slice(None, None, -1) if d in selection.flipped else slice(None) for d in range(len(selection.counts))
        ]
        walked = [each for d, each in enumerate(backwards) if d not in selection.dropped]
        for position in selection.new:
            walked.insert(position, slice(None))
        extra = len(walked) - value.ndim
        key = [each if n > 1 else slice(None) for each, n in zip(walked[extra:], value.shape)]
        if value.sharding.partial_axes:
            value = _combined_in_gate(value)
        value = _Course(value.layout, as_selection(tuple(key), value.shape), value.grid.own_coords).run_in_gate(value)
    held = held_sharding(plain_sharding(a.sharding), a.shape, selection)
    # Dimension by dimension of the selection, those that the value does not have, or has once, being repeated.
    rows = [d for d in range(len(selection.counts)) if d not in selection.dropped]
    positions: list[int | None] = list(rows)
    for position in selection.new:
        positions.insert(position, None)
    positions = positions[len(positions) - value.ndim :]
    axes: list[tuple[int, ...]] = []
    offsets = []
    for d, n in zip(positions, value.shape):
        axes.append(held.axes_of(d) if d is not None and n == selection.counts[d] else ())
        if d is not None and axes[-1]:
            offsets.append(block_starts(held, d, n))
    target = Sharding(held.grid, axes, sharded_dims_offsets=offsets or None)
    piece = reshard_local(value.local, value.sharding, target, value.grid, value.shape)
    # In the order of the selection's dimensions; None: extent 1.
    piece = np.squeeze(piece, tuple([axis for axis, d in enumerate(positions) if d is None]))
    present = [d for d in positions if d is not None]
    return np.expand_dims(piece, tuple([d for d in range(len(selection.counts)) if d not in present]))


def _put_masked(a: ArrayOnGrid, mask: ArrayOnGrid, value: Any) -> None:
    if mask.shape != a.shape or mask.dtype != np.dtype(bool):
        raise ShapeError(
            f"setitem: the mask has shape {mask.shape} and dtype {mask.dtype}; it must be {a.shape} and bool"
        )
    if is_sharded(value) or np.ndim(value):
        raise ShapeError("setitem: behind a mask the value must be a number; for arrays use np.where")
    sharding = plain_sharding(a.sharding)
    block = mask.core
    if mask.sharding.grid != sharding.grid or plain_sharding(mask.sharding) != sharding or mask.sharding.partial_axes:
        block = reshard_local(mask.local, mask.sharding, sharding, mask.grid, mask.shape)
    a.core[block] = value
    a.mark_dirty()


# -- shardings -----------------------------------------------------------------------------------------------------


@lru_cache(4096)
def held_sharding(sharding: Sharding, shape: Shape, selection: Selection) -> Sharding:
    """The sharding of the selected cells where each device has those of its own block."""
    offsets = []
    for dim in sharding.sharded_dims:
        starts = block_starts(sharding, dim, shape[dim])
        offsets.append([selection.held(dim, start, shape[dim])[0] for start in starts[:-1]] + [selection.counts[dim]])
    return Sharding(sharding.grid, sharding.split_axes, sharded_dims_offsets=offsets or None)


@lru_cache(4096)
def kept_sharding(sharding: Sharding, shape: Shape, selection: Selection) -> Sharding:
    """The sharding of the selected cells from which the result's follows without a message.

    Dimensions indexed by an integer are not cut.  Where a dimension is walked backwards, its first block lies on the
    device that will hold the last cells: the grid is taken with the coordinates of its axes reversed.
    """
    result = _result_sharding(sharding, shape, selection)
    kept = [d for d in range(len(shape)) if d not in selection.dropped]
    at = _positions(selection, len(shape))
    axes = [result.axes_of(at[d]) if d in kept else () for d in range(len(shape))]
    offsets = []
    for d in kept:
        if axes[d]:
            starts = block_starts(result, at[d], selection.counts[d])
            if d in selection.flipped:
                starts = tuple([selection.counts[d] - start for start in reversed(starts)])
            offsets.append(starts)
    reversed_axes = frozenset(axis for d in selection.flipped for axis in axes[d])
    return Sharding(_reversed_grid(sharding.grid, reversed_axes), axes, sharded_dims_offsets=offsets or None)


@lru_cache(4096)
def _result_sharding(sharding: Sharding, shape: Shape, selection: Selection) -> Sharding:
    """The source's sharding of each dimension that is left; explicit offsets are those of the selected cells."""
    at = _positions(selection, len(shape))
    n_dims = len(selection.result_shape())
    axes: list[tuple[int, ...]] = [()] * n_dims
    for d, position in at.items():
        axes[position] = sharding.axes_of(d)
    if not sharding.sharded_dims_offsets:
        return Sharding(sharding.grid, axes, blocks=sharding.blocks)
    held = held_sharding(sharding, shape, selection)
    by_position = {}
    for d, position in at.items():
        if axes[position]:
            starts = block_starts(held, d, selection.counts[d])
            if d in selection.flipped:
                starts = tuple([selection.counts[d] - start for start in reversed(starts)])
            by_position[position] = starts
    offsets = [by_position[position] for position in sorted(by_position)]
    return Sharding(sharding.grid, axes, sharded_dims_offsets=offsets or None)


def _positions(selection: Selection, ndim: int) -> dict[int, int]:
    """The dimension of the result that each dimension of the source becomes."""
    positions: list[int | None] = [d for d in range(ndim) if d not in selection.dropped]
    for position in selection.new:
        positions.insert(position, None)
    return {d: position for position, d in enumerate(positions) if d is not None}


@lru_cache(256)
def _reversed_grid(grid: Grid, axes: frozenset[int]) -> Grid:
    if not axes:
        return grid
    numbers = np.array([grid.process(device) for device in range(grid.size)]).reshape(grid.shape)
    numbers = np.flip(numbers, tuple(axes))
    return Grid(grid.shape, axis_names=grid.axis_names, ranks=numbers.ravel().tolist())


def _cut_alike(a: Sharding, b: Sharding, shape: Shape) -> bool:
    return a.split_axes == b.split_axes and all(
        block_starts(a, dim, n) == block_starts(b, dim, n) for dim, n in enumerate(shape)
    )
