"""A builder: the steps of a partitioned program, recorded one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.compute.contractions.scheme import same_cells
from spmd_grid.compute.course.windows import target_of
from spmd_grid.compute.splits import Splits
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Operation, Value
from spmd_grid.program.partition.binding import bind_local, reads_neighbours
from spmd_grid.program.partition.steps import Bind, Compute, Exchange, LocalOperand, LocalValue, Move, Step
from spmd_grid.typing import Shape

__all__ = ["Builder", "applied", "is_at_rest", "with_partial"]


def is_at_rest(x: LocalValue, sharding: Sharding) -> bool:
    """Whether devices hold in ``x`` what ``sharding`` gives them."""
    owed = [{axis for axis in each.partial_axes if each.grid.shape[axis] > 1} for each in (x.sharding, sharding)]
    is_owed_alike = owed[0] == owed[1] and (not owed[0] or x.sharding.partial_kind == sharding.partial_kind)
    return is_owed_alike and same_cells(x.sharding, sharding, x.shape)


class Builder:
    """Records steps.  Moves of one value to one sharding are made once."""

    def __init__(self, grid: Grid):
        self.grid = grid
        self.steps: list[Step] = []
        self._operation: Operation | None = None
        self._moved: dict[tuple[int, Sharding], LocalValue] = {}

    def begin(self, operation: Operation) -> None:
        """The steps that follow are those of ``operation``."""
        self._operation = operation

    def move(self, x: LocalValue, sharding: Sharding, reason: str = "") -> LocalValue:
        """``x`` in ``sharding``: itself where nothing moves."""
        if is_at_rest(x, sharding):
            return x
        key = id(x), sharding
        found = self._moved.get(key)
        if found is None:
            found = self._moved[key] = LocalValue(x.value, x.shape, x.dtype, sharding)
            self.steps.append(Move(x, found, self._operation, reason))
        return found

    def compute(
        self,
        name: str,
        bind: Bind,
        operands: Sequence[LocalOperand],
        shape: Shape,
        dtype: np.dtype,
        sharding: Sharding,
        value: Value,
        key: Any = None,
    ) -> LocalValue:
        """A computation that is a part of an operation's lowering."""
        assert self._operation is not None  # begun
        result = LocalValue(value, shape, dtype, sharding)
        self.steps.append(Compute(name, bind, tuple(operands), (result,), self._operation, key))
        return result

    def call(
        self,
        operation: Operation,
        bind: Bind,
        operands: Sequence[LocalOperand],
        results: Sequence[LocalValue],
        key: Any,
        exchanges: Sequence[Exchange],
    ) -> None:
        """A step that is collective over the grid, and moves what ``exchanges`` say."""
        operands, results, exchanges = tuple(operands), tuple(results), tuple(exchanges)
        self.steps.append(Compute(operation.name, bind, operands, results, operation, key, exchanges=exchanges))

    def whole(self, operation: Operation, operands: Sequence[LocalOperand], splits: Splits) -> list[LocalValue]:
        """An operation that is one call of its ``local``: operands are moved to what its blocks need."""
        interface = operation.interface
        moved: list[LocalOperand] = []
        for number, x in enumerate(operands):
            if isinstance(x, LocalValue):
                wanted, reason = splits.sharding(interface.operands[number]), f"{operation.name} takes it so"
                steps = interface.steps_of(number)
                if reads_neighbours(interface, number) and 0 not in steps:
                    wanted = target_of(x.shape, wanted, steps, interface.halos[number])
                    reason = f"{operation.name} reads it so, with the cells beside"
                x = self.move(x, wanted, reason)
            moved.append(x)
        step = applied(operation, moved, splits)
        self.steps.append(step)
        return list(step.results)


def applied(operation: Operation, operands: Sequence[LocalOperand], splits: Splits) -> Compute:
    """One call of the operation's ``local`` on blocks; its operands are in the shardings that the splits need.

    Where operands are partial, and the operation may be applied to contributions, so are its results.
    """
    interface = operation.interface
    owed = {axis for x in operands if isinstance(x, LocalValue) for axis in x.sharding.partial_axes}
    owed |= set(splits.axes_of_reductions(interface))
    cut = [axis for axis in sorted(owed) if splits.grid.shape[axis] > 1]
    kinds = {x.sharding.partial_kind for x in operands if isinstance(x, LocalValue) and x.is_partial}
    kind = operation.kind if splits.axes_of_reductions(interface) else min(kinds, default="sum")
    results = []
    for value, by in zip(operation.results, interface.results):
        sharding = splits.sharding(by)
        results.append(
            LocalValue(value, value.shape, value.dtype, with_partial(sharding, cut, kind) if cut else sharding)
        )
    key = None if operation.key is None else (operation.key, splits)
    return Compute(
        operation.name, bind_local(operation, splits), tuple(operands), tuple(results), operation, key, splits
    )


def with_partial(sharding: Sharding, axes: Sequence[int], kind: str) -> Sharding:
    """``sharding`` of values that are partial along more axes."""
    return Sharding(
        sharding.grid,
        sharding.split_axes,
        blocks=sharding.blocks,
        sharded_dims_offsets=sharding.sharded_dims_offsets,
        partial_axes=axes,
        partial_kind=kind,
    )
