"""The ways into a body and out of it: an array becomes the array of its blocks along manual axes, and back.

A dimension of the array is cut by manual axes first, and by free axes within their blocks:

    (16, 32) in [[data, model]]   is   (2, 8, 32) in [[data], [model]]

so that no cell moves.  ``outer_axes`` of both lowerings are the manual axes of each dimension, by which propagation
knows the cut of one from that of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from spmd_grid.compute.splits import Splits, block_starts
from spmd_grid.functions.interface import HELD, PARALLEL, WHOLE, Interface, Iterator
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Operation
from spmd_grid.program.manual.lifting import Blocks
from spmd_grid.program.manual.terms import Side
from spmd_grid.program.partition.builder import Builder
from spmd_grid.program.partition.steps import LocalOperand, LocalValue
from spmd_grid.program.trace.tracer import Tracer
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["enter", "leave"]


def enter(tracer: Tracer, x: Any, side: Side, blocks: Blocks) -> Any:
    """The array of the blocks of ``x``, with their halos, as an operation of the program."""
    block = side.local_shape(x.shape)
    lowering = _Crossing(side, blocks, x.ndim, inwards=True)
    found = tracer.structural(
        "enter manual", [x], [((blocks.count, *block), x.dtype)], lowering.interface(block), lowering
    )
    tracer.annotations.append(blocks.annotation(found.value))
    return found


def leave(tracer: Tracer, x: Any, side: Side, blocks: Blocks) -> Any:
    """The array whose blocks ``x`` holds, as an operation of the program."""
    block = x.shape[1:]
    lowering = _Crossing(side, blocks, len(block), inwards=False)
    parts = [(side.global_shape(block), x.dtype)]
    return tracer.structural("leave manual", [x], parts, lowering.interface(block), lowering)


@dataclass(frozen=True, eq=False)
class _Crossing:
    """The lowering of `enter` (``inwards``), or of `leave`."""

    side: Side
    blocks: Blocks
    ndim: int
    inwards: bool
    is_of_body = True

    @cached_property
    def _before(self) -> tuple[tuple[int, ...], ...]:
        return tuple([self.side.along.axes_of(dim) for dim in range(self.ndim)])

    @property
    def outer_axes(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """The manual axes that cut each dimension of the array outside."""
        return {"operand" if self.inwards else "result": self._before}

    def interface(self, block: Shape) -> Interface:
        """An iterator for the blocks, and one for each dimension; those with halos are whole."""
        halos = [any(self.side.along.halo_of(dim)) for dim in range(self.ndim)]
        others = [Iterator(n, WHOLE if is_wide else PARALLEL) for n, is_wide in zip(block, halos)]
        dims = tuple(range(1, self.ndim + 1))
        outside, inside = dims, (0, *dims)
        iterators = (Iterator(self.blocks.count, HELD), *others)
        if self.inwards:
            return Interface(iterators, (outside,), (inside,))
        return Interface(iterators, (inside,), (outside,))

    def lower(
        self, build: Builder, operation: Operation, operands: Sequence[LocalOperand], splits: Splits
    ) -> list[LocalValue]:
        """The array is moved to where its cut agrees; then its blocks are written as they are."""
        (value,), (x,) = operation.results, operands
        assert isinstance(x, LocalValue)  # constants have become values
        free = Splits(splits.grid, splits.axes[1:], splits.offsets[1:], splits.blocks)
        each = free.sharding(tuple(range(self.ndim)))
        inside = self.blocks.sharding(each)
        outside = self._outside(each, x.shape if self.inwards else value.shape)
        before, after, bind = (outside, inside, _entering) if self.inwards else (inside, outside, _leaving)
        x = build.move(x, before, f"{self.side.name} of manual")
        key = operation.name, after
        return [build.compute(operation.name, bind, [x], value.shape, x.dtype, after, value, key)]

    def _outside(self, each: Sharding, shape: Shape) -> Sharding:
        """The sharding of the array outside, whose blocks are sharded as ``each``."""
        along, grid = self.side.along, self.blocks.grid
        cuts = [(*before, *each.axes_of(dim)) for dim, before in enumerate(self._before)]
        dims = [dim for dim, cut in enumerate(cuts) if cut]
        offsets: list[Any] | None = None
        if each.sharded_dims_offsets:
            offsets = []
            for dim in dims:
                n = prod(along.sizes_of(dim))
                starts = block_starts(each, dim, shape[dim] // n)
                offsets.append(
                    [k * (shape[dim] // n) + start for k in range(n) for start in starts[:-1]] + [shape[dim]]
                )
        return Sharding(
            grid,
            cuts,
            blocks=each.blocks,
            sharded_dims_offsets=offsets,
            halo_sizes=[along.halo_of(dim) for dim in dims] if along.halo_sizes else None,
            partial_axes=along.partial_axes,
            partial_kind=along.partial_kind,
        )


def _entering(coords: MultiIndex) -> Callable[[np.ndarray], np.ndarray]:
    return lambda block: np.asarray(block)[None]


def _leaving(coords: MultiIndex) -> Callable[[np.ndarray], np.ndarray]:
    return lambda block: block[0, ...]
