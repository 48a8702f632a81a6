"""A schedule bound to the processes of a grid: one compiled function from local arrays to local arrays.

The steps become the lines of a Python function, so that a step costs its own call and nothing else; values are let go
after their last use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.reduction.folding import quiet_context
from spmd_grid.program.ir import Constant
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.steps import Compute, LocalOperand, Move, Step

__all__ = ["bind_schedule"]


def bind_schedule(name: str, schedule: Schedule, grid: ProcessGrid) -> Callable[..., tuple[Any, ...]]:
    """The function that runs the schedule on this process: local arrays of the arguments in, those of the results out.

    Local; the function is collective over the grid.
    """
    return _Writer(schedule, grid).function(name)


class _Writer:
    """Writes the function, line by line."""

    def __init__(self, schedule: Schedule, grid: ProcessGrid):
        self._schedule = schedule
        self._grid = grid
        self._names: dict[int, str] = {}
        self._scope: dict[str, Any] = {}
        self._lines: list[str] = []

    def function(self, name: str) -> Callable[..., tuple[Any, ...]]:
        schedule = self._schedule
        parameters = [self._name(each) for each in schedule.arguments]
        last = _last_uses(schedule)
        for number, step in enumerate(schedule.steps):
            call = self._constant("f", self._callable(step))
            results = ", ".join(self._name(each) for each in step.results)
            operands = step.operands if isinstance(step, Compute) else (step.source,)
            self._lines.append(f"{results} = {call}({', '.join(map(self._name, operands))})")
            gone = [self._names[each] for each in last.get(number, ())]
            if gone:
                self._lines.append(f"{' = '.join(gone)} = None")
        returned = "".join(f"{self._name(each)}, " for each in schedule.results)
        body = "\n    ".join([*self._lines, f"return ({returned})"])
        source = f"def {name}({', '.join(parameters)}):\n    {body}\n"
        exec(compile(source, f"<program {name}>", "exec"), self._scope)
        function: Callable[..., tuple[Any, ...]] = self._scope[name]
        return function

    def _name(self, operand: LocalOperand) -> str:
        if isinstance(operand, Constant):
            return self._constant("c", operand.value)
        return self._names.setdefault(id(operand), f"v{len(self._names)}")

    def _constant(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self._scope)}"
        self._scope[name] = value
        return name

    def _callable(self, step: Step) -> Callable[..., Any]:
        if isinstance(step, Move):
            return _move(step, self._grid)
        call = step.bind(self._grid if step.exchanges is not None else self._grid.own_coords)
        if step.splits is None or not step.operation.kind:
            return call
        quiet = quiet_context()  # a reduction of blocks without cells warns of nothing
        return lambda *blocks: np.asarray(quiet.run(call, *blocks))


def _move(step: Move, grid: ProcessGrid) -> Callable[[np.ndarray], Any]:
    plan, source = step.plan, step.source.layout.local_shape(grid.own_coords)

    def move(local: Any) -> Any:
        return plan.run(np.asarray(local).reshape(source), grid)

    return move


def _last_uses(schedule: Schedule) -> dict[int, list[int]]:
    """By step, the values (by identity) that no later step and no result needs."""
    last: dict[int, int] = {}
    for number, step in enumerate(schedule.steps):
        for each in (*step.inputs, *step.results):
            last[id(each)] = number
    kept = {id(each) for each in schedule.results}
    gone: dict[int, list[int]] = {}
    for value, number in last.items():
        if value not in kept:
            gone.setdefault(number, []).append(value)
    return gone
