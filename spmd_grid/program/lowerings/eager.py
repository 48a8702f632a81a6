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

__all__ = ["Eager", "apart", "as_local", "as_sharded"]

# Bytes that a process receives from each other one while all search by halves for the value between two blocks of a
# sorted array (64 numbers), or at a position in the order (64 times a number and the numbers of less and equal cells).
_PER_BLOCK, _PER_POSITION = 512, 1280


@dataclass(frozen=True, eq=False)
class Eager:
    """``function`` of sharded arrays, which gives one array, or a tuple of them.

    Its results are brought to the shardings that were planned.  ``key``: equal for functions that do the same.
    ``positions``: the number of positions in the order that it asks for.
    """

    function: Callable[..., Any]
    key: Any = None
    positions: int = 0

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Eager) and self.key is not None and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key) if self.key is not None else id(self)

    @property
    def called(self) -> Callable[..., Any] | None:
        """The function of numpy that it calls, with the arguments of ``key``; None where it is another one."""
        return getattr(self.function, "called", None)

    @property
    def told(self) -> tuple[str, dict[str, Any]] | None:
        """The name that texts have for a function of the engine's own, with its plain arguments; None of others."""
        return getattr(self.function, "told", None)

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
                arrays = [as_sharded(block, layout, grid) for block, layout in zip(blocks, given)]
                found = function(*arrays)
                found = found if isinstance(found, tuple) else (found,)
                parts = [as_local(each, layout, grid) for each, layout in zip(found, wanted, strict=True)]
                local = tuple([apart(each, blocks) for each in parts])
                return local if len(local) > 1 else local[0]

            return run

        key = None if self.key is None else (self.key, splits)
        build.call(operation, bind, moved, results, key, self._exchanges(operation.name, moved, results))
        return results

    def _exchanges(
        self, name: str, operands: Sequence[LocalOperand], results: Sequence[LocalValue]
    ) -> list[tuple[str, tuple[int, ...], int]]:
        """An upper bound: every cell of every array once, and what processes agree by."""
        arrays = [x for x in (*operands, *results) if isinstance(x, LocalValue)]
        grid = arrays[0].sharding.grid
        cut = {axis for x in arrays for axes in x.sharding.split_axes for axis in axes if grid.shape[axis] > 1}
        if not cut:
            return []
        n = prod(grid.shape[axis] for axis in cut)
        agreement = (n - 1) * (_PER_BLOCK * n + _PER_POSITION * (self.positions + 1))
        return [(name, tuple(sorted(cut)), agreement + sum(prod(x.shape) * x.dtype.itemsize for x in arrays))]


def as_sharded(block: Any, layout: Layout | None, grid: ProcessGrid) -> Any:
    """The sharded array of local blocks; plain constants are what they are."""
    if layout is None:
        return block
    local = np.ascontiguousarray(block).reshape(layout.local_shape(grid.own_coords))
    return ShardedArray(local, layout, grid)


def apart(found: np.ndarray, blocks: Sequence[Any]) -> np.ndarray:
    """``found``, or a copy of it if it shares memory with a block, which may be overwritten while it is needed."""
    shared = any(isinstance(each, np.ndarray) and np.may_share_memory(found, each) for each in blocks)
    return found.copy() if shared else found


def as_local(found: Any, layout: Layout, grid: ProcessGrid) -> np.ndarray:
    """The local array of what a function found, in the planned layout."""
    if not is_sharded(found):
        return np.asarray(found)
    if found.layout != layout:
        found = found.reshard(layout.sharding)  # type: ignore[attr-defined]  # it is a ShardedArray
    local: np.ndarray = found.local
    return local
