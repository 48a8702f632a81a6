"""Operations of a body become operations of the program around it: their arrays get a dimension of blocks in front.

The blocks of a body along its manual axes, of shape (8, 32) say, are one array of shape (n, 8, 32), of which the manual
axes cut the first dimension, so that each device holds its own block.  All else in the program then sees arrays as any
others: propagation cuts the other dimensions by free axes, and moves never mix blocks.  Since what is lifted is an
ordinary operation, the bodies of bodies are lifted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from spmd_grid.compute.splits import Splits
from spmd_grid.functions.interface import HELD, Interface, Iterator
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.open import OPEN
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Annotation, Operand, Operation, Value
from spmd_grid.program.partition.builder import Builder
from spmd_grid.program.partition.steps import Bind, Exchange, LocalOperand, LocalValue
from spmd_grid.program.trace.tracer import Tracer
from spmd_grid.typing import Shape

__all__ = ["Blocks", "lift"]


@dataclass(frozen=True)
class Blocks:
    """The dimension of blocks along the manual ``axes`` of a grid."""

    grid: Grid
    axes: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of blocks."""
        return prod(self.grid.shape[axis] for axis in self.axes)

    def sharding(self, each: Sharding, opens: Sequence[int] = ()) -> Sharding:
        """The sharding of the array of blocks, of which one has sharding ``each``; dimensions ``opens`` are open."""
        cuts: list[Any] = list(each.split_axes) + [()] * (max(opens, default=-1) + 1 - len(each.split_axes))
        for dim in opens:
            cuts[dim] = [*cuts[dim], OPEN]
        offsets: list[Any] | None = None
        if each.sharded_dims_offsets:
            offsets = [each.offsets_of(dim) for dim in each.sharded_dims]
            offsets = [range(self.count + 1), *offsets] if self.axes else offsets
        halos: list[tuple[int, int]] | None = None
        if each.halo_sizes:
            halos = [(0, 0)] * bool(self.axes) + [each.halo_of(dim) for dim in each.sharded_dims]
        return Sharding(
            each.grid,  # another order of the same devices where a slice runs backwards
            [self.axes, *cuts],
            blocks=each.blocks,
            sharded_dims_offsets=offsets,
            halo_sizes=halos,
            partial_axes=each.partial_axes,
            partial_kind=each.partial_kind,
        )

    def of_one(self, sharding: Sharding) -> Sharding:
        """The sharding of one block."""
        dims = [dim for dim in sharding.sharded_dims if dim]
        offsets: list[Any] | None = [sharding.offsets_of(dim) for dim in dims]
        offsets = offsets if sharding.sharded_dims_offsets else None
        return Sharding(
            sharding.grid,
            sharding.split_axes[1:],
            blocks=sharding.blocks,
            sharded_dims_offsets=offsets,
            halo_sizes=[sharding.halo_of(dim) for dim in dims] if sharding.halo_sizes else None,
            partial_axes=sharding.partial_axes,
            partial_kind=sharding.partial_kind,
        )

    def annotation(self, value: Value) -> Annotation:
        """The requirement that blocks stay with their devices; other axes may cut them."""
        sharding = self.sharding(Sharding(self.grid, []), range(value.ndim - 1))
        return Annotation(value, sharding, True, 0, (), value.site, "manual")


def lift(
    tracer: Tracer,
    blocks: Blocks,
    known: dict[Value, Value],
    operations: Sequence[Operation],
    annotations: Sequence[Annotation],
) -> None:
    """Write operations on blocks as operations of ``tracer``.  ``known``: the value of all blocks by that of one."""
    required: set[Value] = set()
    for operation in operations:
        results = []
        for value in operation.results:
            shape = (blocks.count, *value.shape)
            name = tracer.new_value(shape, value.dtype).name
            known[value] = Value(name, shape, value.dtype, value.site)
            results.append(known[value])
        operands = [known[x] if isinstance(x, Value) else x for x in operation.operands]
        tracer.operations.append(_lifted(operation, tuple(operands), tuple(results), blocks))
    for each in annotations:
        value, sharding = known[each.value], each.sharding
        found = blocks.sharding(sharding, sharding.open_dims)
        required |= {value} if each.required else set()
        tracer.annotations.append(
            Annotation(value, found, each.required, each.priority, each.replicated_axes, each.site, each.origin)
        )
    made = [known[value] for operation in operations for value in operation.results]
    tracer.annotations += [blocks.annotation(value) for value in made if value not in required]


def _lifted(
    operation: Operation, operands: tuple[Operand, ...], results: tuple[Value, ...], blocks: Blocks
) -> Operation:
    """One operation on the blocks of all devices."""
    name, kind, site, located = operation.name, operation.kind, operation.site, operation.located
    interface = _interface(operation, blocks.count)
    if operation.lowering is not None:
        lowering = _Lifted(operation, blocks)
        return Operation(name, operands, results, interface, None, site, kind, key=None, lowering=lowering)
    local, key, function = operation.local, operation.key, operation.function
    if not _is_by_cells(operation):
        assert local is not None  # it has no lowering
        local = _OfBlocks(local, [isinstance(x, Value) for x in operation.operands], located)
        key, function = None if key is None else ("of blocks", key), None
    return Operation(name, operands, results, interface, local, site, kind, located, key, function)


def _interface(operation: Operation, count: int) -> Interface:
    interface = operation.interface
    is_value = [isinstance(x, Value) for x in operation.operands]
    maps = [tuple([None if i is None else i + 1 for i in by]) for by in interface.operands]
    halos = [((0, 0), *each) if value else each for each, value in zip(interface.halos, is_value)]
    return Interface(
        (Iterator(count, HELD), *interface.iterators),
        tuple([(0, *by) if value else by for by, value in zip(maps, is_value)]),
        tuple([(0, *[None if i is None else i + 1 for i in by]) for by in interface.results]),
        tuple(halos),
    )


def _is_by_cells(operation: Operation) -> bool:
    """Whether the function computes cell by cell, so that it works on several blocks as on one."""
    local, maps = operation.local, {*operation.interface.results}
    is_ufunc = isinstance(local, partial) and isinstance(local.func, np.ufunc) and local.func.signature is None
    if operation.key != "constrain" and not is_ufunc:
        return False
    alike = [by if isinstance(x, Value) else () for x, by in zip(operation.operands, operation.interface.operands)]
    maps |= {by for by, x in zip(alike, operation.operands) if isinstance(x, Value)}
    plain = [x for x in operation.operands if not isinstance(x, Value)]
    return len(maps) == 1 and not operation.kind and not operation.located and all(not x.shape for x in plain)


class _OfBlocks:
    """``local``, which computes one block, where blocks have a dimension in front."""

    def __init__(self, local: Callable[..., Any], is_block: Sequence[bool], located: bool = False):
        self._local = local
        self._is_block = [False] * located + list(is_block)
        self._located = located

    def __call__(self, *given: Any) -> Any:
        arguments = [x[0, ...] if is_block else x for x, is_block in zip(given, self._is_block, strict=True)]
        if self._located:
            arguments[0] = arguments[0][1:]  # the first steps of the other iterators
        found = self._local(*arguments)
        if isinstance(found, tuple):
            return tuple([np.asarray(each)[None] for each in found])
        return np.asarray(found)[None]


@dataclass(frozen=True, eq=False)
class _Lifted:
    """The lowering of an operation ``inner`` of a body on all blocks."""

    inner: Operation
    blocks: Blocks
    is_of_body = True

    @property
    def outer_axes(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """The manual axes of its dimensions, where it is a border of another body: see `crossing`."""
        found = getattr(self.inner.lowering, "outer_axes", {})
        return {side: ((), *each) for side, each in found.items()}

    def lower(
        self, build: Builder, operation: Operation, operands: Sequence[LocalOperand], splits: Splits
    ) -> list[LocalValue]:
        """The steps of the inner operation, lifted."""
        inside = _BuilderOfBlocks(build, self.blocks, operation, self.inner)
        own = Splits(splits.grid, splits.axes[1:], splits.offsets[1:], splits.blocks)
        given = [inside.one(x) if isinstance(x, LocalValue) else x for x in operands]
        assert self.inner.lowering is not None  # `_lifted` has seen it
        found = self.inner.lowering.lower(inside, self.inner, given, own)
        return [inside.all(each) for each in (found if isinstance(found, list | tuple) else [found])]


class _BuilderOfBlocks:
    """A `Builder` for the lowering of an operation on one block: it records the steps on all blocks."""

    def __init__(self, build: Builder, blocks: Blocks, operation: Operation, inner: Operation):
        self.grid = build.grid
        self._build = build
        self._blocks = blocks
        self._operation = operation
        self._values = dict(zip(inner.results, operation.results))
        self._held: dict[int, tuple[LocalValue, LocalValue]] = {}

    def one(self, x: LocalValue) -> LocalValue:
        """The local value that stands for one block of ``x``."""
        found = LocalValue(x.value, x.shape[1:], x.dtype, self._blocks.of_one(x.sharding))
        self._held[id(found)] = found, x
        return found

    def all(self, x: LocalValue) -> LocalValue:
        """The local value of all blocks."""
        return self._held[id(x)][1]

    def move(self, x: LocalValue, sharding: Sharding, reason: str = "") -> LocalValue:
        """As `Builder.move`."""
        before = self.all(x)
        found = self._build.move(before, self._blocks.sharding(sharding), reason)
        return x if found is before else self.one(found)

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
        """As `Builder.compute`."""
        whole = self._blocks.count, *shape
        key = None if key is None else ("of blocks", self._blocks, key)
        given, value = self._given(operands), self._values.get(value, value)
        by = self._blocks.sharding(sharding)
        call = self._bound(bind, operands)
        return self.one(self._build.compute(f"{name} of blocks", call, given, whole, dtype, by, value, key))

    def call(
        self,
        operation: Operation,
        bind: Bind,
        operands: Sequence[LocalOperand],
        results: Sequence[LocalValue],
        key: Any,
        exchanges: Sequence[Exchange],
    ) -> None:
        """As `Builder.call`."""
        made = []
        for each in results:
            value, shape = self._values.get(each.value, each.value), (self._blocks.count, *each.shape)
            made.append(LocalValue(value, shape, each.dtype, self._blocks.sharding(each.sharding)))
            self._held[id(each)] = each, made[-1]
        key = None if key is None else ("of blocks", self._blocks, key)
        self._build.call(self._operation, self._bound(bind, operands), self._given(operands), made, key, exchanges)

    def _given(self, operands: Sequence[LocalOperand]) -> list[LocalOperand]:
        return [self.all(x) if isinstance(x, LocalValue) else x for x in operands]

    def _bound(self, bind: Bind, operands: Sequence[LocalOperand]) -> Bind:
        is_block = [isinstance(x, LocalValue) for x in operands]
        return lambda at: _OfBlocks(bind(at), is_block)
