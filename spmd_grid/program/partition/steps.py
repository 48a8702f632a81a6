"""Partitioned programs as data: computations on blocks, and moves from sharding to sharding.

A `LocalValue` is an array as the devices hold it.  A `Move` changes its sharding and not its cells, so it may start
from any local value of the same array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from spmd_grid.compute.splits import Splits
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Constant, Operation, Value
from spmd_grid.reshard.plan import Plan, plan_reshard
from spmd_grid.typing import Shape

__all__ = ["Bind", "Compute", "Exchange", "LocalOperand", "LocalValue", "Move", "Step", "Wait"]

# From the coordinates of a device, the function that computes its blocks; of a step that communicates from the grid.
Bind = Callable[[Any], Callable[..., Any]]
# The name of a communication, the grid axes of its groups, and the bytes that a process receives at most.
Exchange = tuple[str, tuple[int, ...], int]


@dataclass(frozen=True, eq=False)
class LocalValue:
    """An array of a global ``shape`` in a ``sharding``.  ``value``: that of the program which it belongs to."""

    value: Value
    shape: Shape
    dtype: np.dtype
    sharding: Sharding

    @property
    def layout(self) -> Layout:
        """The sharding with the global shape."""
        return Layout(self.sharding, self.shape)

    @property
    def is_partial(self) -> bool:
        """Whether devices hold contributions that are still to be combined."""
        return any(self.sharding.grid.shape[axis] > 1 for axis in self.sharding.partial_axes)

    def __repr__(self) -> str:
        return f"%{self.value.name}: {self.dtype}{list(self.shape)} {self.sharding}"


LocalOperand = LocalValue | Constant


@dataclass(frozen=True, eq=False)
class Compute:
    """Blocks of the results from blocks of the operands.

    ``key``: equal for computations that give equal blocks of equal operands; None where this is not known.  ``splits``:
    the axes that cut the iterators of the ``operation``, where the blocks are computed by its ``local``.
    ``exchanges``: None for computations of a device by itself.  Others are collective over the grid: these are their
    communications, and ``bind`` takes the `ProcessGrid` in place of coordinates.
    """

    name: str
    bind: Bind
    operands: tuple[LocalOperand, ...]
    results: tuple[LocalValue, ...]
    operation: Operation
    key: Any = None
    splits: Splits | None = None
    exchanges: tuple[Exchange, ...] | None = None

    @property
    def inputs(self) -> list[LocalValue]:
        """The operands that are local values."""
        return [each for each in self.operands if isinstance(each, LocalValue)]

    def __repr__(self) -> str:
        results, operands = (", ".join(map(repr, each)) for each in (self.results, self.operands))
        return f"{results} = {self.name}({operands})"


@dataclass(frozen=True, eq=False)
class Move:
    """The same array in another sharding.

    ``reason``: the requirement that asks for it, in words.  ``together``: moves side by side of one number, other than
    0, run as one communication.  ``is_started``: it is only started where it stands; a `Wait` ends it.
    """

    source: LocalValue
    target: LocalValue
    operation: Operation | None
    reason: str = field(default="", compare=False)
    together: int = 0
    is_started: bool = False

    @cached_property
    def plan(self) -> Plan:
        """The cheapest plan; a chain of named collectives where that moves as little and takes no longer."""
        return replace(self._cheapest(), name=self.name)

    def _cheapest(self) -> Plan:
        arguments = self.source.sharding, self.target.sharding, self.source.shape, self.source.dtype
        best = plan_reshard(*arguments)
        if best.chosen == "basis":
            return best
        basis = plan_reshard(*arguments, "basis")
        is_short = len(basis.steps) <= 1 and basis.totals().received <= best.totals().received
        return basis if is_short else best

    @property
    def name(self) -> str:
        """Its name in reports and traces: the value, and the operation and the line that it is for."""
        operation, value = self.operation, self.source.value.name
        if operation is None:
            return f"reshard of %{value} for {self.reason or 'the caller'}"
        relation = "for" if self.source.value in operation.operands else "after"
        return f"reshard of %{value} {relation} {operation.short_title}"

    @property
    def inputs(self) -> list[LocalValue]:
        """The only operand."""
        return [self.source]

    @property
    def results(self) -> tuple[LocalValue, ...]:
        """The only result."""
        return (self.target,)

    def __repr__(self) -> str:
        return f"{self.target!r} = move({self.source!r})"


@dataclass(frozen=True, eq=False)
class Wait:
    """The end of a started move.  Until here its source must stay as it is, and its target may not be read."""

    move: Move

    @property
    def operation(self) -> Operation | None:
        """The operation that the move is for."""
        return self.move.operation

    @property
    def inputs(self) -> list[LocalValue]:
        """The arrays of the move: both live until here."""
        return [self.move.source, self.move.target]

    @property
    def results(self) -> tuple[LocalValue, ...]:
        """None: the target is a result of the move."""
        return ()

    def __repr__(self) -> str:
        return f"wait({self.move.target!r})"


Step = Compute | Move | Wait
