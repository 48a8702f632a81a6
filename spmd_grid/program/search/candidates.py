"""Candidates: partitions that differ from one in the cut of an operation or an argument, at random from a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from spmd_grid.functions.interface import HELD, WHOLE
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.cut_lists import with_numbers
from spmd_grid.program.ir import Operation, Program, Value
from spmd_grid.program.partition.public import Partition

__all__ = ["Candidates"]

_Axes = list[list[int]]
_MOST_CHANGES = 3  # at a time
_FIXED = "constrain", "manual"  # operations that are cut as their annotations say


class Candidates:
    """Draws programs near that of a partition.  ``free``: the arguments whose shardings may change."""

    def __init__(self, free: Sequence[Value], seed: int):
        self._free = list(free)
        self._random = Random(seed)

    def draw(self, part: Partition) -> Program:
        """A program with one mutation or a few more than the partition's."""
        program = part.program
        for _ in range(self._random.choice(range(1, _MOST_CHANGES + 1))):
            program = self._changed(program, part)
        return program

    def _changed(self, program: Program, part: Partition) -> Program:
        operations = [each for each in program.operations if _cuttable(each) and each.name not in _FIXED]
        kinds: list[Callable[[], Program]] = []
        if operations:
            kinds += [lambda: self._operation(program, part, operations)] * 2
        if self._free:
            kinds += [lambda: self._argument(program, part), lambda: self._along_one(program, part)]
        if program.mutations:
            kinds.append(lambda: self._without_one(program))
        return self._random.choice(kinds)() if kinds else program

    def _operation(self, program: Program, part: Partition, operations: Sequence[Operation]) -> Program:
        """Another cut of the iterators of an operation."""
        operation = self._random.choice(operations)
        given = program.mutations.get(operation)
        known = (
            part.solution.splits(operation).axes if given is None else with_numbers(part.grid, given, operation.title)
        )
        axes = [list(each) for each in known]
        for number, iterator in enumerate(operation.interface.iterators):
            if iterator.kind == WHOLE:
                axes[number] = []
        return program.mutate(operation, self._moved(axes, _cuttable(operation), part.grid.ndim))

    def _argument(self, program: Program, part: Partition) -> Program:
        """Another cut of the dimensions of an argument."""
        value = self._random.choice(self._free)
        if not value.ndim:
            return program
        sharding = part.solution.sharding(value)
        axes = [list(sharding.axes_of(dim)) for dim in range(value.ndim)]
        moved = self._moved(axes, list(range(value.ndim)), part.grid.ndim)
        return program.mutate(value, Sharding(part.grid, moved))

    def _along_one(self, program: Program, part: Partition) -> Program:
        """An argument cut along one dimension by all axes."""
        value = self._random.choice(self._free)
        if not value.ndim:
            return program
        chosen = self._random.randrange(value.ndim)
        axes = [list(range(part.grid.ndim)) if dim == chosen else [] for dim in range(value.ndim)]
        return program.mutate(value, Sharding(part.grid, axes))

    def _without_one(self, program: Program) -> Program:
        """The program without one of its mutations of operations."""
        operations = [each for each in program.operations if each in program.mutations]
        return program.without_mutation(self._random.choice(operations))

    def _moved(self, axes: _Axes, targets: Sequence[int], n_axes: int) -> _Axes:
        """``axes`` with one of the grid's moved to another position, or to none, or two of them swapped."""
        random = self._random
        used = [(i, j) for i, each in enumerate(axes) for j in range(len(each))]
        if len(used) > 1 and random.random() < 0.25:
            (a, b), (c, d) = random.sample(used, 2)
            axes[a][b], axes[c][d] = axes[c][d], axes[a][b]
            return axes
        axis = random.randrange(n_axes)
        held = next((i for i, each in enumerate(axes) if axis in each), None)
        positions = [i for i in (None, *targets) if i != held]
        position = random.choice(positions)
        if held is not None:
            axes[held].remove(axis)
        if position is not None:
            axes[position].append(axis)
        return axes


def _cuttable(operation: Operation) -> list[int]:
    """The iterators that axes may cut; none where the operation is a part of a manual computation."""
    if any(each.kind == HELD for each in operation.interface.iterators):
        return []
    return [i for i, each in enumerate(operation.interface.iterators) if each.kind != WHOLE and each.extent > 1]
