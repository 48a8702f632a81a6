"""Functions that arrays compute by communication of their own: at run time blocks stand as sharded arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.compute.splits import Splits, is_sharded
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.program.ir import Operation
from spmd_grid.program.partition.builder import Builder
from spmd_grid.program.partition.steps import LocalOperand, LocalValue

__all__ = ["Eager"]

_AGREEMENT = 2048  # bytes, per process and array: counts and samples by which sorts and lists find their partners


@dataclass(frozen=True, eq=False)
class Eager:
    """``function`` of sharded arrays, which gives one array, or a tuple of them.

    Its results are brought to the shardings that were planned.  ``key``: equal for functions that do the same.
    """

    function: Callable[..., Any]
    key: Any = None

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Eager) and self.key is not None and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key) if self.key is not None else id(self)

    def lower(
        self, build: Builder, operation: Operation, operands: Sequence[LocalOperand], splits: Splits
    ) -> list[LocalValue]:
        """One step, collective over the grid."""
        interface = operation.interface
        moved: list[LocalOperand] = [
            build.move(x, splits.sharding(by), f"{operation.name} takes it so") if isinstance(x, LocalValue) else x
            for x, by in zip(operands, interface.operands)
        ]
        shardings = [splits.sharding(by) for by in interface.results]
        results = [
            LocalValue(value, value.shape, value.dtype, sharding)
            for value, sharding in zip(operation.results, shardings, strict=True)
        ]
        given = [each.layout if isinstance(each, LocalValue) else None for each in moved]
        wanted = [each.layout for each in results]
        function = self.function

        def bind(grid: ProcessGrid) -> Callable[..., Any]:
            def run(*blocks: Any) -> Any:
                arrays = [_as_sharded(block, layout, grid) for block, layout in zip(blocks, given)]
                found = function(*arrays)
                found = found if isinstance(found, tuple) else (found,)
                local = tuple([_as_local(each, layout, grid) for each, layout in zip(found, wanted, strict=True)])
                return local if len(local) > 1 else local[0]

            return run

        axes = tuple([axis for axis, n in enumerate(build.grid.shape) if n > 1])
        key = None if self.key is None else (self.key, splits)
        received = _most_received(build.grid.size, moved, results)
        build.call(operation, bind, moved, results, key, [(operation.name, axes, received)] if axes else [])
        return results


def _most_received(n_devices: int, operands: Sequence[LocalOperand], results: Sequence[LocalValue]) -> int:
    """An upper bound: every cell of every array once, and what processes agree by."""
    arrays = [x for x in (*operands, *results) if isinstance(x, LocalValue)]
    return sum(prod(x.shape) * x.dtype.itemsize + _AGREEMENT * n_devices for x in arrays)


def _as_sharded(block: Any, layout: Layout | None, grid: ProcessGrid) -> Any:
    """The sharded array of local blocks; plain constants are what they are."""
    if layout is None:
        return block
    local = np.ascontiguousarray(block).reshape(layout.local_shape(grid.own_coords))
    return ShardedArray(local, layout, grid)


def _as_local(found: Any, layout: Layout, grid: ProcessGrid) -> np.ndarray:
    """The local array of what a function found, in the planned layout."""
    if not is_sharded(found):
        return np.asarray(found)
    if found.layout != layout:
        found = found.reshard(layout.sharding)  # type: ignore[attr-defined]  # it is a ShardedArray
    local: np.ndarray = found.local
    return local
