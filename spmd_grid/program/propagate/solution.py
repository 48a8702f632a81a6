"""The outcome of propagation: a sharding for every value, a cut for every iterator, and the way that each came."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from spmd_grid.compute.splits import Splits
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Annotation, Operation, Program, Value
from spmd_grid.program.propagate.cuts import WHOLE_CUT, Cut, sharding_of_cuts, splits_of_cuts

__all__ = ["Dimension", "Reason", "Solution", "outer_axes"]


def outer_axes(operation: Operation, of_result: bool) -> tuple[tuple[int, ...], ...]:
    """The manual axes that cut each dimension first, where arrays enter or leave a body; elsewhere none."""
    found = getattr(operation.lowering, "outer_axes", None)
    return () if found is None else found.get("result" if of_result else "operand", ())


class Dimension(NamedTuple):
    """One dimension of a value."""

    value: Value
    dim: int


class Reason(NamedTuple):
    """The origin of a cut: an ``annotation`` of the value itself, or dimension ``source``, through an ``operation``.

    An operation of None stands for a sharding group.
    """

    annotation: Annotation | None
    operation: Operation | None = None
    source: Dimension | None = None


@dataclass
class Solution:
    """The outcome of propagation.  Dimensions not in ``cuts`` are whole; ``dropped``: hints that do not hold."""

    program: Program
    grid: Grid
    annotations: dict[Value, Annotation] = field(default_factory=dict)
    cuts: dict[Dimension, Cut] = field(default_factory=dict)
    reasons: dict[Dimension, Reason] = field(default_factory=dict)
    iterators: dict[Operation, list[Cut | None]] = field(default_factory=dict)
    dropped: list[tuple[Annotation, str]] = field(default_factory=list)

    def sharding(self, value: Value) -> Sharding:
        """The sharding of a value: its required annotation, or what reached it."""
        annotation = self.annotations.get(value)
        cuts = [self.cuts.get(Dimension(value, d), WHOLE_CUT) for d in range(value.ndim)]
        found = sharding_of_cuts(self.grid, cuts, value.shape)
        if annotation is None:
            return found
        wanted = annotation.sharding
        return Sharding(
            found.grid,
            found.split_axes,
            blocks=found.blocks,
            sharded_dims_offsets=found.sharded_dims_offsets,
            # By dimension: propagation may have cut an open one, which has no halo in the annotation.
            halo_sizes=[wanted.halo_of(dim) for dim in found.sharded_dims] if wanted.halo_sizes else None,
            partial_axes=wanted.partial_axes,
            partial_kind=wanted.partial_kind,
        )

    def splits(self, operation: Operation) -> Splits:
        """The axes that cut the iterators of an operation."""
        interface = operation.interface
        found = [cut or WHOLE_CUT for cut in self.iterators[operation]]
        return splits_of_cuts(self.grid, found, tuple([each.extent for each in interface.iterators]))

    def taken(self, operation: Operation, number: int) -> Sharding:
        """The sharding in which an operation takes an operand."""
        found = self.splits(operation).sharding(operation.interface.operands[number])
        before = outer_axes(operation, of_result=False)
        if not any(before):
            return found
        cuts = [(*axes, *found.axes_of(dim)) for dim, axes in enumerate(before)]
        return Sharding(found.grid, cuts, blocks=found.blocks)

    def path(self, at: Dimension) -> list[tuple[Dimension, Reason]]:
        """The dimensions through which a cut came, back to the annotation that it started from."""
        found, seen = [], set()
        while at in self.reasons and at not in seen:
            seen.add(at)
            reason = self.reasons[at]
            found.append((at, reason))
            if reason.source is None:
                break
            at = reason.source
        return found
