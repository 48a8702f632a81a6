"""The steps of a Fourier transform along several dimensions: which are made whole when, by the fewest bytes.

Whatever can be transformed without a message is.  Then grid axes that cut dimensions which are still to be transformed
move to others (one transpose of pencils, or of slabs), or a dimension is transformed while it stays cut.  Of all orders
the cheapest is found by Dijkstra's algorithm; all processes find the same, since layouts and links alone decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from heapq import heappop, heappush
from math import log2, prod
from threading import RLock
from typing import NamedTuple

import numpy as np

from spmd_grid.compute.contractions.scheme import least_received, same_cells
from spmd_grid.compute.fourier.row_plan import Row, plan_row
from spmd_grid.compute.fourier.shardings import cells_of, cut_dims, devices_of, moved, regular
from spmd_grid.compute.splits import plain_sharding
from spmd_grid.functions.linear.transforms import Line
from spmd_grid.grid.sharding import Sharding
from spmd_grid.links.model import LinkModel
from spmd_grid.typing import Shape

__all__ = ["Move", "Step", "Way", "choose_way"]

# Arrays of up to this many bytes are staging: a dimension in place of which no other can be cut is gathered.
_STAGING = 1 << 16

# Blocks on the way have at most this many times the cells of an equal share, unless the operand's own have more.
_MOST_UNEQUAL = 2

# Additions and multiplications per second of one process: to compare ways, as the numbers of `LinkModel`.
_RATE = 2e9

# Simulated ranks, which are threads, ask for the same way at the same time: one finds it.
_one_at_a_time = RLock()


class Move(NamedTuple):
    """A resharding of an array of ``shape`` and ``dtype``."""

    source: Sharding
    target: Sharding
    shape: Shape
    dtype: np.dtype


Step = Move | Row | Line


class Way(NamedTuple):
    """The steps of a transform, and the sharding, shape and dtype of its result."""

    steps: tuple[Step, ...]
    sharding: Sharding
    shape: Shape
    dtype: np.dtype


class _State(NamedTuple):
    """The numbers of the lines that are done, and the sharding."""

    done: frozenset[int]
    sharding: Sharding


def choose_way(
    lines: tuple[Line, ...],
    sharding: Sharding,
    shape: Shape,
    dtype: np.dtype,
    requested: Sharding | None,
    links: LinkModel,
) -> Way | None:
    """The cheapest way to transform an array; None where no way keeps to the memory of its blocks.

    Plans only.  ``sharding``: that of the array, with partial axes, without halos.  ``requested``: that of the result;
    None leaves the result where it costs least.
    """
    with _one_at_a_time:
        return _choose(lines, sharding, shape, dtype, requested, links)


@lru_cache(256)
def _choose(
    lines: tuple[Line, ...],
    sharding: Sharding,
    shape: Shape,
    dtype: np.dtype,
    requested: Sharding | None,
    links: LinkModel,
) -> Way | None:
    search = _Search(lines, sharding, shape, dtype, requested, links)
    heap: list[tuple[float, int, _State, tuple[Step, ...]]] = [(0.0, 0, _State(frozenset(), sharding), ())]
    seen: set[_State] = set()
    number = 0
    while heap:
        cost, _, state, steps = heappop(heap)
        if state in seen:
            continue
        seen.add(state)
        if search.is_end(state):
            return Way(steps, state.sharding, *search.after(state.done))
        for price, after, step in search.edges(state):
            number += 1
            heappush(heap, (cost + price, number, after, (*steps, *step)))
    return None


class _Search:
    def __init__(
        self,
        lines: tuple[Line, ...],
        sharding: Sharding,
        shape: Shape,
        dtype: np.dtype,
        requested: Sharding | None,
        links: LinkModel,
    ):
        self._lines, self._source, self._shape, self._dtype, self._requested = lines, sharding, shape, dtype, requested
        self._link = links.between(sharding.grid, range(sharding.grid.ndim))
        self._own_bytes = cells_of(sharding, shape) * dtype.itemsize

    def after(self, done: frozenset[int]) -> tuple[Shape, np.dtype]:
        """The shape and the dtype of the array once these lines are done."""
        shape, dtype = self._shape, self._dtype
        for number in sorted(done):
            shape, dtype = self._lines[number].shape_after(shape), self._lines[number].dtype_after(dtype)
        return shape, dtype

    def is_end(self, state: _State) -> bool:
        """Whether all is done, in the sharding that is requested."""
        if len(state.done) < len(self._lines) or (state.sharding.partial_axes and self._requested is None):
            return False
        shape, _ = self.after(state.done)
        return state.sharding == (self._requested or regular(state.sharding, self._source, shape))

    def edges(self, state: _State) -> Iterator[tuple[float, _State, tuple[Step, ...]]]:
        """(price, the state after it, its steps) of all that can be done next."""
        shape, dtype = self.after(state.done)
        sharding = state.sharding
        ready = self._ready(state.done)
        cut = cut_dims(sharding)
        for number in [] if sharding.partial_axes else ready:
            if self._lines[number].dim not in cut:
                yield self._local(state, number, shape)
                return
        if len(state.done) == len(self._lines):
            target = self._requested or regular(plain_sharding(sharding), self._source, shape)
            yield self._move(state, target, shape, dtype)
            return
        plain = plain_sharding(sharding)
        if sharding.partial_axes:
            yield self._move(state, plain, shape, dtype)
        left = {line.dim for number, line in enumerate(self._lines) if number not in state.done}
        waiting = [d for d in cut if d in left]
        wanted = {self._lines[number].dim for number in ready}
        for target, drops in moved(plain, shape, waiting):
            if not wanted.issubset(cut_dims(target)) and self._fits(target, shape, dtype, drops):
                yield self._move(state, target, shape, dtype)
        for number in [] if sharding.partial_axes else ready:
            yield self._row(state, number, shape, dtype)

    def _ready(self, done: frozenset[int]) -> list[int]:
        """The lines that can be next: those of real numbers keep their place, those of one dimension their order."""
        lines = self._lines

        def waits_for(i: int, j: int) -> bool:
            return lines[i].dim == lines[j].dim or not (lines[i].is_complex and lines[j].is_complex)

        left = [i for i in range(len(lines)) if i not in done]
        return [i for i in left if not any(j < i and waits_for(i, j) for j in left)]

    def _local(self, state: _State, number: int, shape: Shape) -> tuple[float, _State, tuple[Step, ...]]:
        line = self._lines[number]
        price = cells_of(state.sharding, shape) * log2(line.n + 1) / _RATE
        return price, _State(state.done | {number}, state.sharding), (line,)

    def _move(
        self, state: _State, target: Sharding, shape: Shape, dtype: np.dtype
    ) -> tuple[float, _State, tuple[Step, ...]]:
        after = _State(state.done, target)
        if not state.sharding.partial_axes and same_cells(state.sharding, target, shape) and not target.partial_axes:
            return 0.0, after, ()
        return self._seconds(state.sharding, target, shape, dtype), after, (Move(state.sharding, target, shape, dtype),)

    def _row(self, state: _State, number: int, shape: Shape, dtype: np.dtype) -> tuple[float, _State, tuple[Step, ...]]:
        line = self._lines[number]
        row = plan_row(state.sharding, shape, line)
        element = np.result_type(line.dtype_after(dtype), np.complex64)
        price = self._seconds(row.held, row.aligned, row.taken, dtype)
        price += row.transposes * self._seconds(row.by_rows, row.by_columns, row.matrix, element)
        price += row.transposes * cells_of(row.by_rows, row.matrix) * log2(line.n + 1) / _RATE
        return price, _State(state.done | {number}, row.result), (row,)

    def _seconds(self, source: Sharding, target: Sharding, shape: Shape, dtype: np.dtype) -> float:
        received = least_received(source, target, shape) * dtype.itemsize
        return self._link.latency * max(1, source.grid.size - 1) + received / self._link.bandwidth

    def _fits(self, target: Sharding, shape: Shape, dtype: np.dtype, drops: bool) -> bool:
        """Whether no device holds more than its share of the array, or what counts as staging."""
        held = cells_of(target, shape) * dtype.itemsize
        if drops:
            return held <= _STAGING
        share = -(-prod(shape) // max(1, devices_of(self._source))) * dtype.itemsize
        return held <= max(_MOST_UNEQUAL * share, self._own_bytes, _STAGING)
