"""Running sums and their like: blocks are scanned, and what they end with is carried into the blocks after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spmd_grid.compute.splits import Splits, block_starts
from spmd_grid.functions.axes import cut
from spmd_grid.functions.reductions.scans import added, scanned
from spmd_grid.grid.derived_starts import with_extents
from spmd_grid.grid.sharding import Sharding
from spmd_grid.grid.starts import BlockStarts
from spmd_grid.program.ir import Operation
from spmd_grid.program.partition.builder import Builder
from spmd_grid.program.partition.steps import LocalOperand, LocalValue
from spmd_grid.typing import MultiIndex

__all__ = ["Scan"]


@dataclass(frozen=True)
class Scan:
    """``function`` along dimension ``axis``; ``combine`` is associative, and carries from block to block."""

    function: Callable[..., Any]
    combine: np.ufunc
    axis: int

    def lower(
        self, build: Builder, operation: Operation, operands: Sequence[LocalOperand], splits: Splits
    ) -> list[LocalValue]:
        """The scan of every block, combined with what the blocks before it end with."""
        (value,), axis, dtype = operation.results, self.axis, operation.results[0].dtype
        (x,) = operands
        assert isinstance(x, LocalValue)
        sharding = splits.sharding(operation.interface.operands[0])
        x = build.move(x, sharding, f"{operation.name} takes it so")
        function, combine = self.function, self.combine

        def scan(coords: MultiIndex) -> Callable[..., Any]:
            return lambda block: scanned(function, combine, block, axis, dtype)

        def lasts(coords: MultiIndex) -> Callable[..., Any]:
            return lambda block: np.ascontiguousarray(block[cut(axis, -1, None)])

        found = build.compute("scan", scan, [x], value.shape, dtype, sharding, value, ("scan", self, dtype))
        if all(n == 1 for n in sharding.sizes_of(axis)):
            return [found]
        starts = block_starts(sharding, axis, value.shape[axis])
        ends = with_extents(starts, lambda extent: min(extent, 1))
        shape = tuple([ends[-1] if d == axis else n for d, n in enumerate(value.shape)])
        by_ends = _with_starts(sharding, axis, ends, value.shape)
        totals = build.compute(
            "ends of blocks", lasts, [found], shape, dtype, by_ends, value, ("ends", self, sharding, value.shape)
        )
        whole = Sharding(
            sharding.grid,
            [() if d == axis else sharding.axes_of(d) for d in range(value.ndim)],
            **_blocks(sharding, axis, value.shape),
        )
        totals = build.move(totals, whole, "what the blocks before end with")

        def carry(coords: MultiIndex) -> Callable[..., Any]:
            index = 0
            for grid_axis in sharding.axes_of(axis):
                index = index * sharding.grid.shape[grid_axis] + coords[grid_axis]
            n_before = ends[index]

            def add(block: np.ndarray, ends_of_all: np.ndarray) -> np.ndarray:
                before = np.moveaxis(ends_of_all, axis, 0)[:n_before]
                if not n_before:
                    return block
                return added(combine, before, block, axis)

            return add

        key = "carry", self, sharding, value.shape
        return [build.compute("carry", carry, [found, totals], value.shape, dtype, sharding, value, key)]


def _with_starts(sharding: Sharding, axis: int, starts: BlockStarts, shape: Sequence[int]) -> Sharding:
    offsets = [starts if d == axis else block_starts(sharding, d, shape[d]) for d in sharding.sharded_dims]
    return Sharding(sharding.grid, sharding.split_axes, sharded_dims_offsets=offsets)


def _blocks(sharding: Sharding, axis: int, shape: Sequence[int]) -> dict[str, Any]:
    """The blocks of the other dimensions."""
    if not sharding.sharded_dims_offsets:
        return {"blocks": sharding.blocks}
    offsets = [block_starts(sharding, d, shape[d]) for d in sharding.sharded_dims if d != axis]
    return {"sharded_dims_offsets": offsets or None}
