"""Reshapes: blocks keep their cells where the cut of every dimension survives; else cells move as one row.

Dimensions of source and result fall into groups of equal numbers of cells.  Within a group, a cut of the first
dimension survives where the axes divide the first extents of both sides:

    (4, 6) -> (2, 2, 6)      groups (4) -> (2, 2) and (6) -> (6); 2 devices along the first: rows 0, 1 | rows 2, 3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from spmd_grid.compute.functions.joining import flat_sharding
from spmd_grid.compute.splits import Splits, block_starts
from spmd_grid.functions.interface import PARALLEL, WHOLE, IndexingMap, Interface, Iterator
from spmd_grid.grid.derived_starts import extents_of
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Operation
from spmd_grid.program.partition.builder import Builder
from spmd_grid.program.partition.steps import LocalOperand, LocalValue
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["Reshape", "reshape_interface"]


def groups_of(source: Shape, result: Shape) -> list[tuple[list[int], list[int]]]:
    """The smallest runs of dimensions of both shapes that have equal numbers of cells, in order.

    >>> groups_of((4, 6), (2, 2, 6))
    [([0], [0, 1]), ([1], [2])]
    """
    groups, i, j = [], 0, 0
    while i < len(source) or j < len(result):
        left, right = [i] if i < len(source) else [], [j] if j < len(result) else []
        i, j = i + len(left), j + len(right)
        while prod(source[d] for d in left) != prod(result[d] for d in right):
            if j < len(result) and (prod(source[d] for d in left) > prod(result[d] for d in right) or i == len(source)):
                right.append(j)
                j += 1
            else:
                left.append(i)
                i += 1
        groups.append((left, right))
    return groups


def _first(dims: list[int], shape: Shape) -> int | None:
    """The first dimension of more than one cell."""
    return next((d for d in dims if shape[d] != 1), None)


def reshape_interface(source: Shape, result: Shape) -> Interface:
    """An iterator for the first dimensions of each group; the others are whole."""
    iterators: list[Iterator] = []
    of_source: list[int | None] = [None] * len(source)
    of_result: list[int | None] = [None] * len(result)
    groups = groups_of(source, result) if 0 not in source else []
    for left, right in groups:
        first, second = _first(left, source), _first(right, result)
        if first is not None and second is not None:
            of_source[first] = of_result[second] = len(iterators)
            iterators.append(Iterator(source[first], PARALLEL))
    for by, shape in ((of_source, source), (of_result, result)):
        for d, n in enumerate(shape):
            if by[d] is None and n != 1:
                by[d] = len(iterators)
                iterators.append(Iterator(n, WHOLE))
    maps: tuple[IndexingMap, IndexingMap] = tuple(of_source), tuple(of_result)
    return Interface(tuple(iterators), (maps[0],), (maps[1],))


@dataclass(frozen=True)
class Reshape:
    """The cells in row-major order in ``shape``."""

    shape: Shape

    def lower(
        self, build: Builder, operation: Operation, operands: Sequence[LocalOperand], splits: Splits
    ) -> list[LocalValue]:
        """The blocks in their new shape, where all cuts survive; else by way of one row of cells."""
        (value,), (x,) = operation.results, operands
        assert isinstance(x, LocalValue)
        interface, grid = operation.interface, build.grid
        wanted, result = splits.sharding(interface.operands[0]), splits.sharding(interface.results[0])
        if _survives(wanted, result, x.shape, self.shape):
            x = build.move(x, wanted, f"{operation.name} takes it so")
            return [_reshaped(build, x, value.shape, result, operation)]
        axes = [axis for cut in x.sharding.split_axes for axis in cut]
        rows, result_rows = (Sharding(grid, [axes] if len(shape) else []) for shape in (x.shape, self.shape))
        x = build.move(x, rows, "its cells are taken in rows")
        flat, wanted = flat_sharding(rows, x.shape), flat_sharding(result_rows, self.shape)
        row = _reshaped(build, x, (prod(x.shape),), flat, operation)
        row = build.move(row, wanted, "rows of the new shape")
        return [_reshaped(build, row, value.shape, result_rows, operation)]


def _survives(source: Sharding, result: Sharding, source_shape: Shape, result_shape: Shape) -> bool:
    """Whether the blocks of both hold the same cells in the same order."""
    found: list[tuple[int, int]] = []
    for sharding, shape in ((source, source_shape), (result, result_shape)):
        n_cut = 0
        for dim in sharding.sharded_dims:
            n = prod(sharding.sizes_of(dim))
            if n > 1:
                n_cut += 1
                starts = block_starts(sharding, dim, shape[dim])
                if set(extents_of(starts)) != {shape[dim] // n} or shape[dim] % n:
                    if source_shape[: dim + 1] != result_shape[: dim + 1]:
                        return False
        found.append((n_cut, len(shape)))
    return found[0][0] == found[1][0]


def _reshaped(build: Builder, x: LocalValue, shape: Shape, sharding: Sharding, operation: Operation) -> LocalValue:
    def bind(coords: MultiIndex) -> Callable[..., Any]:
        local = sharding.local_shape(shape, coords)
        return lambda block: np.ascontiguousarray(block).reshape(local)

    (value,) = operation.results
    return build.compute("reshape", bind, [x], shape, x.dtype, sharding, value, ("reshape", shape, sharding, x.shape))
