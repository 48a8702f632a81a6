"""Arrays put one after the other along a dimension: every block of the result is made of pieces of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spmd_grid.compute.splits import Splits, block_starts
from spmd_grid.grid.derived_starts import mapped, with_end, with_start
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Operation
from spmd_grid.program.partition.builder import Builder
from spmd_grid.program.partition.steps import LocalOperand, LocalValue
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["Concatenate"]


@dataclass(frozen=True)
class Concatenate:
    """The operands, one after the other along dimension ``axis``."""

    axis: int

    def lower(
        self, build: Builder, operation: Operation, operands: Sequence[LocalOperand], splits: Splits
    ) -> list[LocalValue]:
        """Each operand is moved to where its cells lie in the result's blocks; the pieces are joined there."""
        (result,), axis = operation.results, self.axis
        sharding, start = splits.sharding(operation.interface.results[0]), 0
        pieces: list[LocalOperand] = []
        shardings: list[Sharding] = []
        for x in operands:
            piece = _piece(sharding, result.shape, x.shape, axis, start)
            shardings.append(piece)
            pieces.append(build.move(x, piece, "its place in the result") if isinstance(x, LocalValue) else x)
            start += x.shape[axis]
        shapes = [x.shape for x in operands]
        dtype = result.dtype

        def bind(coords: MultiIndex) -> Callable[..., Any]:
            cells = [each.core_slices(shape, coords) for each, shape in zip(shardings, shapes)]
            is_plain = [not isinstance(x, LocalValue) for x in operands]

            def join(*blocks: np.ndarray) -> np.ndarray:
                own = [block[cut] if plain else block for block, cut, plain in zip(blocks, cells, is_plain)]
                return np.concatenate(own, axis, dtype=dtype)

            return join

        key = "concatenate", axis, sharding, tuple(shapes), dtype
        return [build.compute("concatenate", bind, pieces, result.shape, dtype, sharding, result, key)]


def _piece(sharding: Sharding, shape: Shape, own: Shape, axis: int, start: int) -> Sharding:
    """The sharding of an operand, which begins at ``start``, by the blocks of the result."""
    offsets = []
    for dim in sharding.sharded_dims:
        starts = block_starts(sharding, dim, shape[dim])
        if dim == axis:
            starts = mapped(
                starts,
                lambda each: min(max(each - start, 0), own[axis]),
                [start, start + own[axis]],
            )
            starts = with_start(with_end(starts, own[axis]), 0)
        offsets.append(starts)
    return Sharding(sharding.grid, sharding.split_axes, sharded_dims_offsets=offsets or None)
