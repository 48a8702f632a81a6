"""A builder: the steps of a partitioned program, recorded one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from spmd_grid.compute.contractions.scheme import same_cells
from spmd_grid.compute.splits import Splits
from spmd_grid.functions.interface import Iterator
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Constant, Operation, Value
from spmd_grid.program.partition.steps import Bind, Compute, LocalOperand, LocalValue, Move, Step
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["Builder", "is_at_rest", "local_call", "plain_blocks", "with_partial"]


def is_at_rest(x: LocalValue, sharding: Sharding) -> bool:
    """Whether devices hold in ``x`` what ``sharding`` gives them."""
    owed = [{axis for axis in each.partial_axes if each.grid.shape[axis] > 1} for each in (x.sharding, sharding)]
    return owed[0] == owed[1] and same_cells(x.sharding, sharding, x.shape)


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

    def whole(self, operation: Operation, operands: Sequence[LocalOperand], splits: Splits) -> list[LocalValue]:
        """An operation that is one call of its ``local``: operands are moved to what its blocks need."""
        interface = operation.interface
        moved: list[LocalOperand] = []
        for number, x in enumerate(operands):
            if isinstance(x, LocalValue):
                wanted = splits.sharding(interface.operands[number])
                x = self.move(x, wanted, f"{operation.name} takes it so")
            moved.append(x)
        cut = [axis for axis in splits.axes_of_reductions(interface) if self.grid.shape[axis] > 1]
        results = []
        for value, by in zip(operation.results, interface.results):
            sharding = splits.sharding(by)
            if cut:
                sharding = with_partial(sharding, cut, operation.kind)
            results.append(LocalValue(value, value.shape, value.dtype, sharding))
        bind = _bind(operation, splits)
        key = None if operation.key is None else (operation.key, splits)
        self.steps.append(Compute(operation.name, bind, tuple(moved), tuple(results), operation, key, splits))
        return results


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


def _bind(operation: Operation, splits: Splits) -> Bind:
    """The operation's ``local`` for a device: plain arrays are cut to its blocks, first steps put in."""

    def bind(coords: MultiIndex) -> Callable[..., Any]:
        call = local_call(operation, splits, coords)
        blocks = plain_blocks(operation, splits, coords)
        if not blocks:
            return call

        def with_plain(*given: Any) -> Any:
            return call(*[blocks.get(i, x) for i, x in enumerate(given)])

        return with_plain

    return bind


def local_call(operation: Operation, splits: Splits, coords: MultiIndex) -> Callable[..., Any]:
    """The operation's ``local`` for the device at ``coords``, its first steps put in where it takes them."""
    assert operation.local is not None  # only operations with a lowering of their own have none
    if not operation.located:
        return operation.local
    iterators = operation.interface.iterators
    every = splits.sharding(tuple(range(len(iterators))))
    return partial(operation.local, every.core_box(_extents(iterators), coords).starts)


def plain_blocks(operation: Operation, splits: Splits, coords: MultiIndex) -> dict[int, np.ndarray]:
    """The blocks of the device at ``coords`` of the operands that are plain arrays, by the operands' numbers."""
    blocks = {}
    for i, (x, by) in enumerate(zip(operation.operands, operation.interface.operands)):
        if isinstance(x, Constant) and x.shape:
            blocks[i] = np.ascontiguousarray(x.value[splits.sharding(by).core_slices(x.shape, coords)])
    return blocks


def _extents(iterators: Sequence[Iterator]) -> Shape:
    return tuple([each.extent for each in iterators])
