"""Slices of sharded arrays: which cells of which block they name, and how the result is spread.

A slice first selects, on each device, the cells of its own block.  That moves nothing, and gives an array of the
slice's shape with uneven blocks.  A resharding then leads to the sharding of the result, which is the source's,
dimension by dimension.  So a shifted slice moves the cells at the borders of blocks and no others.

    a[1:], 7 cells on 3 devices      0 1 2 | 3 4 5 | 6
    selected by each device            1 2 | 3 4 5 | 6        no message
    by the block rule, 6 cells         1 2 | 3 4 | 5 6        cell 5 moves

Where the halos of all devices reach far enough, nothing is resharded: see ``indexing/fresh.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.compute.course.apply import sharded_like
from spmd_grid.compute.indexing.cell_puts import cells_to_put, put_cells
from spmd_grid.compute.indexing.fresh import cells_in_local, is_ready, refresh
from spmd_grid.compute.indexing.index import Listed, Selection, as_selection, list_in
from spmd_grid.compute.indexing.lookups import cells_named, look_up
from spmd_grid.compute.indexing.masks import as_mask, get_masked, put_masked
from spmd_grid.compute.indexing.picks import layout_of_picks, pick, put_picks
from spmd_grid.compute.indexing.puts import PutCourse
from spmd_grid.compute.indexing.rows import get_rows, layout_to_put, put_rows
from spmd_grid.compute.indexing.shardings import (
    cut_alike,
    held_sharding,
    kept_sharding,
    permuted_sharding,
    positions_of,
    result_sharding,
)
from spmd_grid.compute.indexing.values import check_dtype, fitting, plain_value
from spmd_grid.compute.plain_operands import note_operands
from spmd_grid.compute.splits import ArrayOnGrid, block_starts, is_sharded, one_layout, plain_sharding
from spmd_grid.compute.views import attach, refuse_read_only
from spmd_grid.errors import OutputError
from spmd_grid.functions.ways import Sliced
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.plain_arrays import check_plain
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.typing import MultiIndex

__all__ = ["get", "number_of", "put"]

_MOST_KEPT = 1024
_BOUNDS = int, type(None)


class _Course:
    """The way arrays of one layout are indexed by one key, on one process; found once.  ``moves``: whether cells do."""

    __slots__ = (
        *("_cells", "_held", "_is_in_place", "_is_view", "_kept", "_reads_halos", "_result", "_selection"),
        *("_steps", "_view", "moves"),
    )

    def __init__(self, layout: Layout, selection: Selection, coords: MultiIndex, key: Any = None):
        whole = plain_sharding(layout.sharding)
        shape = layout.global_shape
        self._cells = selection.slices_in_local(layout, coords) or (...,)  # of no dimensions a view, not a number
        self._held = held_sharding(whole, shape, selection)
        self._kept = kept_sharding(whole, shape, selection)
        self.moves = self._kept.grid != layout.grid or not cut_alike(self._held, self._kept, selection.counts)
        self._result = one_layout(Layout(result_sharding(whole, shape, selection), selection.result_shape()))
        self._selection = selection
        self._view = selection.view_key()
        self._reads_halos = False
        if self.moves and layout.sharding.halo_sizes is not None:
            cells = cells_in_local(layout, self._result, selection, positions_of(selection, layout.ndim), coords)
            if cells is not None:
                self._cells, self.moves, self._reads_halos = cells, False, True
        self._is_view = not self.moves and self._view is None and self._result.ndim > 0
        self._is_in_place = not self.moves and not self._reads_halos
        self._steps = (Sliced(key),)

    def run(self, a: ArrayOnGrid) -> Any:
        """The selected cells.  Collective over a's grid, if cells move."""
        if self.moves or (self._reads_halos and not is_ready(a)):
            return a.grid.process.gate.run("getitem", self.run_in_gate, a)
        if self._is_view:  # the rest of `_cells_of`, in short
            return self._borrowed(a, a.stored[self._cells])
        return self._cells_of(a)

    def run_in_gate(self, a: ArrayOnGrid) -> Any:
        """As `run`, within an operation."""
        if self._reads_halos:
            refresh(a)
        return self._cells_of(a)

    def _cells_of(self, a: ArrayOnGrid) -> Any:
        block = a.stored[self._cells]
        if self.moves:
            block = reshard_local(np.ascontiguousarray(block), self._held, self._kept, a.grid, self._selection.counts)
            found = sharded_like(a, block if self._view is None else block[self._view], self._result)
            return found if not self._result.ndim else attach(found, a, self._steps)
        if self._view is not None:
            block = block[self._view]
        if not self._result.global_shape:
            if a.ndim:
                return sharded_like(a, block, self._result)
        return self._borrowed(a, block)

    def _borrowed(self, a: ArrayOnGrid, block: np.ndarray) -> Any:
        result: Any = type(a)(block, self._result, a.grid)
        result._borrows, result._reads_halos = True, self._reads_halos
        return attach(result, a, self._steps, self._is_in_place)


def get(a: ArrayOnGrid, key: Any) -> Any:
    """``a[key]``: a view without halos, a new array for masks and lists, or a number.  Collective over a's grid."""
    known = _key_of("getitem", key, a.layout)
    kept = a.grid.functions
    course = None if known is None else kept.get(known)
    if course is None:
        check_plain("getitem", "the index", key)
        if not is_sharded(key):
            note_operands(a.grid, "getitem", key)
        cells = cells_named("getitem", key, a.shape) if known is None else None
        if cells is not None:
            return look_up(a, cells)
        mask = _mask_in("getitem", key, a) if known is None else None
        listed = list_in(key, a.shape) if known is None and mask is None else None
        selection = as_selection(... if mask is not None else key if listed is None else listed.rest, a.shape)
        if a.sharding.partial_axes:
            found = get(a.grid.process.gate.run("getitem", _combined_in_gate, a), key)
            return attach(found, a, (Sliced(key),)) if is_sharded(found) and found._view is not None else found
        if mask is not None:
            return get_masked(a, mask)
        if listed is not None:
            return _get_listed(a, listed)
        course = _Course(a.layout, selection, a.grid.own_coords, key)
        _keep(kept, known, course)
        if course.moves and a.grid.settle is not None:
            a.grid.process.gate.run("getitem", a.grid.settle)
    return course.run(a)


def _keep(kept: dict[tuple[Any, ...], Any], known: tuple[Any, ...] | None, course: _Course | PutCourse) -> None:
    if known is not None:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        kept[known] = course


def _mask_in(op: str, key: Any, a: ArrayOnGrid) -> ArrayOnGrid | None:
    """The mask that ``key`` is; None if it is none."""
    if type(key) is tuple and len(key) == 1:
        key = key[0]
    if not a.ndim and isinstance(key, bool | np.bool_):  # of an array without dimensions a bool is a mask
        key = np.asarray(key)
    is_plain = isinstance(key, np.ndarray) and key.dtype == np.dtype(bool) and key.ndim == a.ndim
    is_list = is_sharded(key) and key.ndim == 1 and (key.dtype.kind in "iu" or a.ndim > 1)
    return as_mask(op, key, a) if is_plain or (is_sharded(key) and not is_list) else None


def _get_listed(a: ArrayOnGrid, listed: Listed) -> Any:
    part, numbers = a if listed.is_alone else get(a, listed.rest), listed.numbers
    found = get_rows(part, numbers, listed.axis) if is_sharded(numbers) else pick(part, numbers, listed.axis)
    return np.moveaxis(found, listed.axis, 0) if listed.leads else found


def number_of(a: ArrayOnGrid) -> Any:
    """The number in an array without dimensions.  Collective over a's grid, if it holds partial values."""
    return (a.grid.process.gate.run("getitem", _combined_in_gate, a) if a.sharding.partial_axes else a).stored_core[()]


def _combined_in_gate(a: ArrayOnGrid) -> ArrayOnGrid:
    """The array with its partial values combined.  Collective over a's grid."""
    whole = plain_sharding(a.sharding)
    return type(a)(reshard_local(a.stored, a.sharding, whole, a.grid, a.shape), Layout(whole, a.shape), a.grid)


def _key_of(op: str, key: Any, layout: Layout) -> tuple[Any, ...] | None:
    """Equal for equal keys of equal layouts; None for keys that are not compared.  Slices cannot be hashed."""
    entries: list[Any] = [op, layout]
    for each in key if type(key) is tuple else (key,):
        found = type(each)
        if found is slice:
            bounds = start, stop, step = each.start, each.stop, each.step
            if type(start) not in _BOUNDS or type(stop) not in _BOUNDS or type(step) not in _BOUNDS:
                return None
            entries.append(bounds)
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
    refuse_read_only("setitem", a)
    check_plain("setitem", "the index", key)
    known = None
    if type(value) is type(a) and value.grid is a.grid:
        known = _key_of("setitem", key, a.layout)
    if known is not None:
        known = (*known, value.layout, value.dtype, a.dtype)
        course = a.grid.functions.get(known)
        if course is not None:
            course.run(a, value)
            return
    if is_sharded(value):
        a.grid.check_same_program(value.grid, "setitem")
    else:
        value = plain_value(value)
    mask = _mask_in("setitem", key, a)
    if mask is not None:
        check_dtype(a, value)
        put_masked(a, mask, value)
        return
    cells = cells_to_put(key, a)
    if cells is not None:
        put_cells(a, cells, fitting(a, value, cells.shape))
        return
    listed = list_in(key, a.shape)
    if listed is not None:
        _put_listed(a, listed, value)
        return
    selection = as_selection(key, a.shape)
    shape = selection.result_shape()
    value = fitting(a, value, shape)
    if known is not None and selection.view_key() is None and value.shape == selection.counts:
        course = PutCourse(a.layout, selection, value.layout, a.grid.own_coords)
        _keep(a.grid.functions, known, course)
        course.run(a, value)
    else:
        a.grid.process.gate.run("setitem", _put, a, selection, value)


def _put_listed(a: ArrayOnGrid, listed: Listed, value: Any) -> None:
    """``a[key] = value`` with a list of numbers in the key."""
    shape = list(as_selection(listed.rest, a.shape).result_shape())
    del shape[listed.axis]
    numbers = listed.numbers
    shape.insert(0 if listed.leads else listed.axis, numbers.shape[0])
    value = fitting(a, value, tuple(shape))
    part: Any = a if listed.is_alone else get(a, listed.rest)
    is_spread = is_sharded(numbers)
    if is_spread:
        layout = layout_to_put(part, numbers.shape[0], listed.axis)
    else:
        layout = layout_of_picks(part, listed.axis, len(numbers))
    if is_sharded(value) or listed.leads or (is_spread and np.ndim(value)):
        if listed.leads:
            order = (listed.axis, *[d for d in range(layout.ndim) if d != listed.axis])
            layout = Layout(permuted_sharding(layout.sharding, layout.global_shape, order), tuple(shape))
        spread: Any = type(a)(a.grid.allocate(layout.local_shape(a.grid.own_coords), a.dtype), layout, a.grid)
        spread[...] = value
        value = np.moveaxis(spread, 0, listed.axis) if listed.leads else spread
    (put_rows if is_spread else put_picks)(part, numbers, listed.axis, value)


def _put(a: ArrayOnGrid, selection: Selection, value: Any) -> None:
    layout = Layout(plain_sharding(a.sharding), a.shape)
    cells: tuple[Any, ...] = (*selection.local_slices(layout, a.grid.own_coords), ...)  # a view also of no dimensions
    target = a.core_to_write()[cells]
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
    whole = np.squeeze(np.broadcast_to(value, selection.result_shape()), selection.new)
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
    piece = reshard_local(value.stored, value.sharding, target, value.grid, value.shape)
    # In the order of the selection's dimensions; None: extent 1.
    piece = np.squeeze(piece, tuple([axis for axis, d in enumerate(positions) if d is None]))
    present = [d for d in positions if d is not None]
    return np.expand_dims(piece, tuple([d for d in range(len(selection.counts)) if d not in present]))
