"""The steps of a Fourier transform along several dimensions: which are made whole when, by the fewest bytes.

Whatever can be transformed without a message is.  Then grid axes that cut dimensions which are still to be transformed
move to others (one transpose of pencils, or of slabs), or a dimension is transformed while it stays cut.  Dijkstra's
algorithm finds the cheapest order; all processes find the same, since layouts and links alone decide.
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
from spmd_grid.compute.fourier.row_plan import CutTransform, plan_cut_transform
from spmd_grid.compute.fourier.shardings import cut_dims, devices_of, most_cells, moved, regular
from spmd_grid.compute.splits import plain_sharding
from spmd_grid.functions.linear.transforms import Transform
from spmd_grid.grid.sharding import Sharding
from spmd_grid.links.model import LinkModel
from spmd_grid.typing import Shape

__all__ = ["Resharding", "Step", "TransformPlan", "choose_transform"]

# Arrays of up to this many bytes are staging: a dimension in place of which no other can be cut is gathered.
_STAGING = 1 << 16

# Blocks on the way have at most this many times the cells of an equal share, unless the operand's own have more.
_MOST_UNEQUAL = 2

# Additions and multiplications per second of one process: to compare ways, as the numbers of `LinkModel`.
_RATE = 2e9

# Simulated ranks, which are threads, ask for the same way at the same time: one finds it.
_one_at_a_time = RLock()


class Resharding(NamedTuple):
    """A resharding of an array of ``shape`` and ``dtype``."""

    source: Sharding
    target: Sharding
    shape: Shape
    dtype: np.dtype


Step = Resharding | CutTransform | Transform


class TransformPlan(NamedTuple):
    """The steps of a transform, and the sharding, shape and dtype of its result."""

    steps: tuple[Step, ...]
    sharding: Sharding
    shape: Shape
    dtype: np.dtype


class _State(NamedTuple):
    """The numbers of the transforms that are done, and the sharding."""

    done: frozenset[int]
    sharding: Sharding


def choose_transform(
    transforms: tuple[Transform, ...],
    sharding: Sharding,
    shape: Shape,
    dtype: np.dtype,
    requested: Sharding | None,
    links: LinkModel,
) -> TransformPlan | None:
    """The cheapest way to transform an array; None where no way keeps to the memory of its blocks.

    Plans only.  ``sharding``: that of the array, with partial axes, without halos.  ``requested``: that of the result;
    None leaves the result where it costs least.
    """
    with _one_at_a_time:
        return _choose(transforms, sharding, shape, dtype, requested, links)


@lru_cache(256)
def _choose(
    transforms: tuple[Transform, ...],
    sharding: Sharding,
    shape: Shape,
    dtype: np.dtype,
    requested: Sharding | None,
    links: LinkModel,
) -> TransformPlan | None:
    search = _Search(transforms, sharding, shape, dtype, requested, links)
    heap: list[tuple[float, int, _State, tuple[Step, ...]]] = [(0.0, 0, _State(frozenset(), sharding), ())]
    seen: set[_State] = set()
    number = 0
    while heap:
        cost, _, state, steps = heappop(heap)
        if state in seen:
            continue
        seen.add(state)
        if search.is_end(state):
            return TransformPlan(steps, state.sharding, *search.after(state.done))
        for price, after, step in search.edges(state):
            number += 1
            heappush(heap, (cost + price, number, after, (*steps, *step)))
    return None


class _Search:
    def __init__(
        self,
        transforms: tuple[Transform, ...],
        sharding: Sharding,
        shape: Shape,
        dtype: np.dtype,
        requested: Sharding | None,
        links: LinkModel,
    ):
        self._transforms, self._source, self._requested = transforms, sharding, requested
        self._shape, self._dtype = shape, dtype
        self._link = links.between(sharding.grid, range(sharding.grid.ndim))
        self._own_bytes = most_cells(sharding, shape) * dtype.itemsize

    def after(self, done: frozenset[int]) -> tuple[Shape, np.dtype]:
        """The shape and the dtype of the array once these transforms are done."""
        shape, dtype = self._shape, self._dtype
        for number in sorted(done):
            shape, dtype = self._transforms[number].shape_after(shape), self._transforms[number].dtype_after(dtype)
        return shape, dtype

    def is_end(self, state: _State) -> bool:
        """Whether all is done, in the sharding that is requested."""
        if len(state.done) < len(self._transforms) or (state.sharding.partial_axes and self._requested is None):
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
            if self._transforms[number].dim not in cut:
                yield self._local(state, number, shape)
                return
        if len(state.done) == len(self._transforms):
            target = self._requested or regular(plain_sharding(sharding), self._source, shape)
            yield self._move(state, target, shape, dtype)
            return
        plain = plain_sharding(sharding)
        if sharding.partial_axes:
            yield self._move(state, plain, shape, dtype)
        left = {transform.dim for number, transform in enumerate(self._transforms) if number not in state.done}
        waiting = [d for d in cut if d in left]
        wanted = {self._transforms[number].dim for number in ready}
        for target, drops in moved(plain, shape, waiting):
            if not wanted.issubset(cut_dims(target)) and self._fits(target, shape, dtype, drops):
                yield self._move(state, target, shape, dtype)
        for number in [] if sharding.partial_axes else ready:
            yield self._row(state, number, shape, dtype)

    def _ready(self, done: frozenset[int]) -> list[int]:
        """The next candidates: transforms of real numbers keep their place, those of one dimension their order."""
        transforms = self._transforms

        def waits_for(i: int, j: int) -> bool:
            return transforms[i].dim == transforms[j].dim or not (transforms[i].is_complex and transforms[j].is_complex)

        left = [i for i in range(len(transforms)) if i not in done]
        return [i for i in left if not any(j < i and waits_for(i, j) for j in left)]

    def _local(self, state: _State, number: int, shape: Shape) -> tuple[float, _State, tuple[Step, ...]]:
        transform = self._transforms[number]
        price = most_cells(state.sharding, shape) * log2(transform.n + 1) / _RATE
        return price, _State(state.done | {number}, state.sharding), (transform,)

    def _move(
        self, state: _State, target: Sharding, shape: Shape, dtype: np.dtype
    ) -> tuple[float, _State, tuple[Step, ...]]:
        after = _State(state.done, target)
        if not state.sharding.partial_axes and same_cells(state.sharding, target, shape) and not target.partial_axes:
            return 0.0, after, ()
        return (
            self._seconds(state.sharding, target, shape, dtype),
            after,
            (Resharding(state.sharding, target, shape, dtype),),
        )

    def _row(self, state: _State, number: int, shape: Shape, dtype: np.dtype) -> tuple[float, _State, tuple[Step, ...]]:
        transform = self._transforms[number]
        row = plan_cut_transform(state.sharding, shape, transform)
        element = np.result_type(transform.dtype_after(dtype), np.complex64)
        price = self._seconds(row.held, row.aligned, row.taken, dtype)
        price += row.transposes * self._seconds(row.by_rows, row.by_columns, row.matrix, element)
        price += row.transposes * most_cells(row.by_rows, row.matrix) * log2(transform.n + 1) / _RATE
        return price, _State(state.done | {number}, row.result), (row,)

    def _seconds(self, source: Sharding, target: Sharding, shape: Shape, dtype: np.dtype) -> float:
        received = least_received(source, target, shape) * dtype.itemsize
        return self._link.latency * max(1, source.grid.size - 1) + received / self._link.bandwidth

    def _fits(self, target: Sharding, shape: Shape, dtype: np.dtype, drops: bool) -> bool:
        """Whether no device holds more than its share of the array, or what counts as staging."""
        held = most_cells(target, shape) * dtype.itemsize
        if drops:
            return held <= _STAGING
        share = -(-prod(shape) // max(1, devices_of(self._source))) * dtype.itemsize
        return held <= max(_MOST_UNEQUAL * share, self._own_bytes, _STAGING)
