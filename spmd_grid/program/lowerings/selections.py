"""Slices of values, and values with a slice replaced.

Each device selects the cells of its own block; from there a move leads to the sharding of the result, so that only the
cells at the borders of blocks move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spmd_grid.compute.indexing.index import Selection
from spmd_grid.compute.indexing.shardings import held_sharding, kept_sharding, result_sharding
from spmd_grid.compute.splits import Splits
from spmd_grid.grid.layout import Layout
from spmd_grid.program.ir import Constant, Operation
from spmd_grid.program.partition.builder import Builder
from spmd_grid.program.partition.steps import LocalOperand, LocalValue
from spmd_grid.typing import MultiIndex

__all__ = ["Put", "Select", "cutter"]


def cutter(selection: Selection, layout: Layout) -> Callable[[MultiIndex], Callable[..., Any]]:
    """Make the function that gives each device, by its coordinates, what cuts the selected cells out of its block."""

    def bind(coords: MultiIndex) -> Callable[..., Any]:
        cells = selection.slices_in_local(layout, coords)
        return lambda block: block[cells]

    return bind


@dataclass(frozen=True)
class Select:
    """The cells that an index names."""

    selection: Selection

    def lower(
        self, build: Builder, operation: Operation, operands: Sequence[LocalOperand], splits: Splits
    ) -> list[LocalValue]:
        """The selected cells of every block, moved to the sharding of the result, and its dimensions."""
        selection, (value,) = self.selection, operation.results
        (x,) = operands
        assert isinstance(x, LocalValue)
        source = build.move(x, splits.sharding(operation.interface.operands[0]), "its blocks are sliced")
        sharding, shape = source.sharding, source.shape
        layout = Layout(sharding, shape)
        held, kept = held_sharding(sharding, shape, selection), kept_sharding(sharding, shape, selection)
        cut, site = cutter(selection, layout), ("select", selection, layout)
        found = build.compute("select", cut, [source], selection.counts, x.dtype, held, value, site)
        found = build.move(found, kept, "cells next to the borders of blocks")
        key = selection.view_key()
        result = result_sharding(sharding, shape, selection)
        if key is None:
            return [found]  # in blocks that are those of ``result``

        def view(coords: MultiIndex) -> Callable[..., Any]:
            return lambda block: block[key]

        return [build.compute("view", view, [found], value.shape, x.dtype, result, value, ("view", selection, layout))]


@dataclass(frozen=True)
class Put:
    """An array with the cells that an index names replaced by those of another array of their shape, or by a number."""

    selection: Selection

    def lower(
        self, build: Builder, operation: Operation, operands: Sequence[LocalOperand], splits: Splits
    ) -> list[LocalValue]:
        """A copy of every block, into which the cells of the value are written that lie in it."""
        selection, (result,) = self.selection, operation.results
        x, value = operands
        sharding = splits.sharding(operation.interface.operands[0])
        if isinstance(x, LocalValue):
            x = build.move(x, sharding, "its blocks are written to")
        layout = Layout(sharding, result.shape)
        held = held_sharding(sharding, result.shape, selection)
        is_plain = isinstance(value, Constant) and bool(value.shape)
        if isinstance(value, LocalValue):
            value = build.move(value, held, "cells go to the blocks that they are written to")

        def bind(coords: MultiIndex) -> Callable[..., Any]:
            cells = selection.slices_in_local(layout, coords)
            own = held.core_slices(selection.counts, coords) if is_plain else ...

            def put(block: np.ndarray, piece: Any) -> np.ndarray:
                copy = np.array(block, order="C")
                copy[cells] = piece[own] if is_plain else piece
                return copy

            return put

        key = "put", selection, layout
        return [build.compute("put", bind, [x, value], result.shape, result.dtype, sharding, result, key)]
