"""Selections: the cells that an index names, read from numpy's notation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spmd_grid.errors import ImplicitGatherError
from spmd_grid.grid.layout import Layout
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["Selection", "as_selection"]


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
        """The numbers (first, behind the last) of the selected cells within cells ``[start, stop)`` of a dimension."""
        low, step, count = self.starts[dim], self.steps[dim], self.counts[dim]
        return min(max(-((low - start) // step), 0), count), min(max(-((low - stop) // step), 0), count)

    def local_slices(self, layout: Layout, coords: MultiIndex) -> tuple[slice, ...]:
        """The selected cells in the core of a device."""
        box, slices = layout.core_box(coords), []
        for dim, (start, stop) in enumerate(zip(box.starts, box.stops)):
            first, behind = self.held(dim, start, stop)
            begin = self.starts[dim] + first * self.steps[dim] - start
            end = begin + (behind - first - 1) * self.steps[dim] + 1 if behind > first else begin
            slices.append(slice(begin, end, self.steps[dim]))
        return tuple(slices)

    def view(self, block: np.ndarray) -> np.ndarray:
        """A block of the selected cells with the dimensions of the result."""
        key: list[Any] = [
            0 if d in self.dropped else slice(None, None, -1) if d in self.flipped else slice(None)
            for d in range(len(self.counts))
        ]
        return np.expand_dims(block[tuple(key)], self.new)


def as_selection(key: Any, shape: Shape) -> Selection:
    """The selection that ``key`` names in an array of ``shape``.  Raises IndexError and ImplicitGatherError."""
    entries = list(key) if isinstance(key, tuple) else [key]
    n_given = sum(each is not None and each is not Ellipsis for each in entries)
    if sum(each is Ellipsis for each in entries) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if n_given > len(shape):
        raise IndexError(f"too many indices: the array has {len(shape)} dimensions, the index {n_given}")
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
    if isinstance(entry, int | np.integer) and not isinstance(entry, bool | np.bool_):
        if not -extent <= entry < extent:
            raise IndexError(f"index {entry} is out of bounds for dimension {dim} with extent {extent}")
        return int(entry) % extent, 1, 1, True
    raise ImplicitGatherError(
        f"an index has {type(entry).__name__} for dimension {dim}; sharded arrays take integers, slices, ... and None,"
        " and masks of their own layout for assignment: to_global() gathers the array (collective)"
    )
