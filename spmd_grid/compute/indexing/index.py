"""Selections: the cells that an index names, read from numpy's notation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.compute.indexing.lookups import from_zero
from spmd_grid.compute.splits import is_sharded
from spmd_grid.errors import CellIndexError, ImplicitGatherError
from spmd_grid.grid.derived_starts import mapped, with_end
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.starts import BlockStarts
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["Listed", "Selection", "as_selection", "list_in"]


@dataclass(frozen=True)
class Selection:
    """The cells that an index names: per dimension ``start + k * step`` for k from 0 to ``count``, ``step`` positive.

    ``flipped``: dimensions that are walked backwards.  ``dropped``: those indexed by an integer.  ``new``: where in the
    result dimensions of extent 1 are put in.
    """

    starts: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    flipped: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    new: tuple[int, ...] = ()

    def result_shape(self) -> Shape:
        """The shape of the result."""
        shape = [n for d, n in enumerate(self.counts) if d not in self.dropped]
        for position in self.new:
            shape.insert(position, 1)
        return tuple(shape)

    def held(self, dim: int, start: int, stop: int) -> tuple[int, int]:
        """The numbers [first, end) of the selected cells that are within cells ``[start, stop)`` of a dimension."""
        low, step, count = self.starts[dim], self.steps[dim], self.counts[dim]
        return min(max(-((low - start) // step), 0), count), min(max(-((low - stop) // step), 0), count)

    def held_starts(self, dim: int, starts: BlockStarts) -> BlockStarts:
        """For each block of a dimension, the first selected cell that is not before it; then the number of them."""
        low, step, count = self.starts[dim], self.steps[dim], self.counts[dim]
        breaks = low, low + (count - 1) * step, low + count * step

        def first(start: int) -> int:
            return min(max(-((low - start) // step), 0), count)

        return with_end(mapped(starts, first, breaks, step), count)

    def local_slices(self, layout: Layout, coords: MultiIndex) -> tuple[slice, ...]:
        """The selected cells in the core of a device."""
        box, slices = layout.core_box(coords), []
        for dim, (start, stop) in enumerate(zip(box.starts, box.stops)):
            first, end = self.held(dim, start, stop)
            low, step = self.starts[dim] + first * self.steps[dim] - start, self.steps[dim]
            slices.append(slice(low, low + (end - first - 1) * step + 1 if end > first else low, step))
        return tuple(slices)

    def slices_in_local(self, layout: Layout, coords: MultiIndex) -> tuple[slice, ...]:
        """The selected cells in the core of a device, as slices of its local array with halos."""
        starts = layout.core_in_local(coords).starts
        in_core = self.local_slices(layout, coords)
        return tuple([slice(each.start + at, each.stop + at, each.step) for each, at in zip(in_core, starts)])

    def view_key(self) -> tuple[Any, ...] | None:
        """The index that gives a block of the selected cells the dimensions of the result; None where it has them."""
        if not (self.flipped or self.dropped or self.new):
            return None
        key: list[Any] = []
        new, position = list(self.new), 0
        for d in range(len(self.counts)):
            while new and new[0] == position:
                del new[0]
                key.append(None)
                position += 1
            key.append(0 if d in self.dropped else slice(None, None, -1) if d in self.flipped else slice(None))
            position += d not in self.dropped
        return (*key, *[None] * len(new))


def as_selection(key: Any, shape: Shape) -> Selection:
    """The selection that ``key`` names in an array of ``shape``.  Raises CellIndexError and ImplicitGatherError."""
    entries = list(key) if isinstance(key, tuple) else [key]
    n_given = sum(each is not None and each is not Ellipsis for each in entries)
    if sum(each is Ellipsis for each in entries) > 1:
        raise CellIndexError("an index can only have a single ellipsis ('...')")
    if n_given > len(shape):
        raise CellIndexError(f"too many indices: the array has {len(shape)} dimensions, the index {n_given}")
    if Ellipsis not in [each if each is Ellipsis else None for each in entries]:
        entries.append(Ellipsis)
    at = next(i for i, each in enumerate(entries) if each is Ellipsis)
    entries[at : at + 1] = [slice(None)] * (len(shape) - n_given)
    starts: list[int] = []
    counts: list[int] = []
    steps: list[int] = []
    flipped: list[int] = []
    dropped: list[int] = []
    new: list[int] = []
    position = 0
    for each in entries:
        if each is None:
            new.append(position)
            position += 1
            continue
        dim = len(starts)
        start, count, step, is_integer = _along(each, dim, shape[dim])
        if step < 0:
            start, step = start + (count - 1) * step, -step
            if count > 1:
                flipped.append(dim)
        if is_integer:
            dropped.append(dim)
        else:
            position += 1
        starts.append(start if count else 0)
        counts.append(count)
        steps.append(step if count > 1 else 1)
    return Selection(*map(tuple, (starts, counts, steps, flipped, dropped, new)))


def _along(entry: Any, dim: int, extent: int) -> tuple[int, int, int, bool]:
    """(start, count, step) of one entry of an index, and whether it is an integer."""
    if isinstance(entry, slice):
        start, stop, step = entry.indices(extent)
        return start, len(range(start, stop, step)), step, False
    if _is_integer(entry):
        if not -extent <= entry < extent:
            raise CellIndexError(f"index {entry} is out of bounds for dimension {dim} with extent {extent}")
        return int(entry) % extent, 1, 1, True
    raise ImplicitGatherError(
        f"an index has {type(entry).__name__} for dimension {dim}; sharded arrays take integers, slices, ..., None,"
        " one plain list of integers, and masks of their own layout: to_global() gathers the array (collective)"
    )


class Listed(NamedTuple):
    """An index with a list of ``numbers``, plain or sharded.

    ``rest`` is the index with a slice in its place; dimension ``axis`` of what that selects is indexed by the list.
    ``leads``: whether the list's dimension comes first in the result, as numpy has it where integers stand apart.
    """

    numbers: Any
    axis: int
    rest: tuple[Any, ...]
    leads: bool

    @property
    def is_alone(self) -> bool:
        """Whether the rest selects all cells of all dimensions."""
        return all(each is Ellipsis or each == slice(None) for each in self.rest)


def list_in(key: Any, shape: Shape) -> Listed | None:
    """The list of numbers in an index of an array of ``shape``; None where there is none.

    Numbers are counted from the start; bools become the numbers of those that are true.  Raises CellIndexError and
    ImplicitGatherError.  Collective over the grid of a sharded list.
    """
    entries = list(key) if isinstance(key, tuple) else [key]
    lists = [
        i
        for i, each in enumerate(entries)
        if isinstance(each, list) or (isinstance(each, np.ndarray) and each.ndim) or is_sharded(each)
    ]
    if not lists:
        return None
    at, n_given = lists[0], sum(each is not None and each is not Ellipsis for each in entries)
    if len(lists) > 1 or n_given > len(shape):
        raise ImplicitGatherError(
            f"an index has {len(lists)} lists and {n_given} entries for {len(shape)} dimensions; sharded arrays take"
            " one list of integers, along one dimension: to_global() gathers the array (collective)"
        )
    after = sum(each is not None and each is not Ellipsis for each in entries[at:])
    before = sum(each is not None and each is not Ellipsis for each in entries[:at])
    follows = any(each is Ellipsis for each in entries[:at])
    dim = len(shape) - after if follows else before
    numbers = (
        spread_numbers(entries[at], dim, shape[dim])
        if is_sharded(entries[at])
        else _numbers(entries[at], dim, shape[dim])
    )
    integers = [i for i, each in enumerate(entries) if _is_integer(each)]
    others = dim - before  # dimensions that the ellipsis stands for, where it comes first
    axis = others + sum(i not in integers and each is not Ellipsis for i, each in enumerate(entries[:at]))
    advanced = sorted([*integers, at])
    leads = advanced[-1] - advanced[0] >= len(advanced)
    return Listed(numbers, axis, (*entries[:at], slice(None), *entries[at + 1 :]), leads)


def _numbers(entry: Any, dim: int, extent: int) -> np.ndarray:
    found = np.asarray(entry, dtype=np.int64 if isinstance(entry, list) and not entry else None)
    if found.ndim != 1 or found.dtype.kind not in "iub":
        raise ImplicitGatherError(
            f"an index has an array of shape {found.shape} and dtype {found.dtype} for dimension {dim}; it must be a"
            " list of integers, or a mask of the array's own shape: to_global() gathers the array (collective)"
        )
    if found.dtype.kind == "b":
        if len(found) != extent:
            raise CellIndexError(
                f"an index has {len(found)} bools for dimension {dim} with extent {extent}; it must have one per cell"
            )
        return np.flatnonzero(found)
    least, most = (int(found.min()), int(found.max())) if len(found) else (0, -1)
    if least < -extent or most >= extent:
        wrong = found[(found < -extent) | (found >= extent)]
        raise CellIndexError(f"index {wrong[0]} is out of bounds for dimension {dim} with extent {extent}")
    found = found.astype(np.int64)
    return np.where(found < 0, found + extent, found) if least < 0 else found


def spread_numbers(entry: Any, dim: int, extent: int) -> Any:
    """A sharded list of numbers, of which none is negative; bools become the numbers of those that are true.

    Collective over its grid.  Raises CellIndexError and ImplicitGatherError.
    """
    if len(entry.shape) != 1 or entry.dtype.kind not in "iub":
        raise ImplicitGatherError(
            f"an index has a sharded array of shape {entry.shape} and dtype {entry.dtype} for dimension {dim}; beside"
            " slices it must be a list of integers: to_global() gathers the array (collective)"
        )
    if entry.dtype.kind == "b":
        if entry.shape[0] != extent:
            n = entry.shape[0]
            raise CellIndexError(
                f"an index has {n} bools for dimension {dim} with extent {extent}; it must have one per cell"
            )
        return np.flatnonzero(entry)
    return from_zero(entry, dim, extent)


def _is_integer(entry: Any) -> bool:
    return isinstance(entry, int | np.integer) and not isinstance(entry, bool | np.bool_)
