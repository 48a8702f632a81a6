"""A program with a sharding for every value becomes steps: what devices compute, and what moves between.

Every value is first held in the sharding that propagation gave it; operations move their operands from there to what
their blocks need, and their results to the value's sharding.  Passes then take away what need not be moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Constant, Value
from spmd_grid.program.partition.builder import Builder
from spmd_grid.program.partition.steps import LocalOperand, LocalValue, Step
from spmd_grid.program.propagate.solution import Solution

__all__ = ["Schedule", "materialise"]


@dataclass(frozen=True)
class Schedule:
    """The steps of a program on a grid, with its arguments and results as devices hold them."""

    grid: Grid
    arguments: tuple[LocalValue, ...]
    steps: tuple[Step, ...]
    results: tuple[LocalOperand, ...]


def materialise(solution: Solution, out_shardings: Sequence[Sharding | None] = ()) -> Schedule:
    """The steps of the solution's program.  Plans only."""
    program, build = solution.program, Builder(solution.grid)
    held: dict[Value, LocalValue] = {}
    for value in program.arguments:
        held[value] = LocalValue(value, value.shape, value.dtype, solution.sharding(value))
    for operation in program.operations:
        build.begin(operation)
        operands = [held[x] if isinstance(x, Value) else x for x in operation.operands]
        splits = solution.splits(operation)
        if operation.lowering is not None:
            found = operation.lowering.lower(build, operation, operands, splits)
        else:
            found = build.whole(operation, operands, splits)
        for value, natural in zip(operation.results, found, strict=True):
            held[value] = build.move(natural, solution.sharding(value), f"the sharding of %{value.name}")
    results: list[LocalOperand] = []
    requested = [*out_shardings, *[None] * (len(program.results) - len(out_shardings))]
    for result, wanted in zip(program.results, requested):
        if isinstance(result, Constant) or wanted is None:
            results.append(held[result] if isinstance(result, Value) else result)
        else:
            results.append(build.move(held[result], wanted, "out_shardings"))
    arguments = tuple([held[value] for value in program.arguments])
    return Schedule(solution.grid, arguments, tuple(build.steps), tuple(results))
