"""A schedule bound to the processes of a grid: one compiled function from local arrays to local arrays.

The steps become the lines of a Python function, so that a step costs its own call and nothing else; values are let go
after their last use.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.reduction.folding import quiet_context
from spmd_grid.program.ir import Constant
from spmd_grid.program.partition.binding import is_plain_call, local_call, plain_blocks
from spmd_grid.program.partition.bound_moves import BoundMove, bind_move, where_of
from spmd_grid.program.partition.joint_moves import bind_joint, in_company
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.started_moves import bind_started, settled
from spmd_grid.program.partition.steps import Compute, LocalOperand, LocalValue, Move, Step, Wait
from spmd_grid.program.partition.storage import Storage, direct_call

__all__ = ["BoundSchedule"]


class BoundSchedule:
    """A schedule on the processes of a grid.

    Collective over the grid when made, and when ``function`` is called: local arrays of the arguments in, those of the
    results out.  ``moves``: what sends anything, in order; None for steps that are collective by themselves.
    ``owned``: for each result whether its array is new, and no view of another one.
    """

    def __init__(self, name: str, schedule: Schedule, grid: ProcessGrid):
        self.schedule = schedule = settled(schedule, grid)
        self._file = f"<program {name}>"
        self._name = name
        self._grid = grid
        self._names: dict[int, str] = {}
        self._scope: dict[str, Any] = {}
        self._lines: list[str] = []
        self._steps_by_line: list[Step | None] = []
        self._bound: dict[int, BoundMove] = {}
        self._joint = {id(moves[0]): moves for moves in in_company(schedule.steps)}
        self._followers = {id(each): moves[0] for moves in self._joint.values() for each in moves[1:]}
        for step in schedule.steps:
            if id(step) in self._followers:
                self._bound[id(step)] = self._bound[id(self._followers[id(step)])]
            elif isinstance(step, Move):
                self._bound[id(step)] = self._bind(step, grid)
        self.moves = [self._bound.get(id(step)) for step in schedule.steps if self.sends(step)]
        self._storage = Storage(schedule, grid, self._writes)
        self.function = self._compiled()
        self.owned = [isinstance(x, LocalValue) and self._storage.is_own(x) for x in schedule.results]

    def _bind(self, move: Move, grid: ProcessGrid) -> BoundMove:
        moves = self._joint.get(id(move))
        if moves is not None:
            return bind_joint(moves, grid)
        return bind_started(move, grid) if move.is_started else bind_move(move, grid)

    # -- errors ----------------------------------------------------------------------------------------------------

    def step_of(self, traceback: TracebackType | None) -> Step | None:
        """The step that was under way when an exception left the function."""
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self._file:
                line = traceback.tb_lineno - 2
                return self._steps_by_line[line] if 0 <= line < len(self._steps_by_line) else None
            traceback = traceback.tb_next
        return None

    def where(self, step: Step) -> str:
        """The operation, the line of the user's function, and the program, for notes on exceptions."""
        doing = "in" if isinstance(step, Compute) else "in a move for"
        return f"{doing} {where_of(step.operation)} of program {self._name}"

    def is_past_moves(self, step: Step | None) -> bool:
        """Whether no process waits for another one in the step or after it; before the first step for None."""
        steps = self.schedule.steps
        number = 0 if step is None else next(i for i, each in enumerate(steps) if each is step)
        return not any(map(self.sends, steps[number:]))

    def sends(self, step: Step) -> bool:
        """Whether the step is collective."""
        if isinstance(step, Move):
            return not self._bound[id(step)].is_local
        return isinstance(step, Wait) or step.exchanges is not None

    def abandon(self) -> None:
        """End the moves that an exception has left under way; as collective as the exception."""
        for each in self._bound.values():
            if each.abandon is not None:
                each.abandon()

    # -- writing ---------------------------------------------------------------------------------------------------

    def _compiled(self) -> Callable[..., tuple[Any, ...]]:
        schedule = self.schedule
        parameters = [self._variable(each) for each in schedule.arguments]
        last = _last_uses(schedule)
        for number, step in enumerate(schedule.steps):
            if id(step) in self._followers:
                pass  # it runs with the first
            elif id(step) in self._joint:
                self._write_joint(self._joint[id(step)])
            elif isinstance(step, Wait):
                waited = self._constant("w", self._bound[id(step.move)].wait)
                self._write(f"{self._variable(step.move.target)} = {waited}()", step)
            elif isinstance(step, Move) and step.is_started:
                self._write(self._call(step), step)
            else:
                results = ", ".join(map(self._variable, step.results))
                self._write(f"{results} = {self._call(step)}", step)
            gone = [self._names[each] for each in last.get(number, ())]
            if gone:
                self._write(f"{' = '.join(gone)} = None", step)
        returned = "".join(f"{self._operand(each)}, " for each in schedule.results)
        self._write(f"return ({returned})", None)
        source = "\n    ".join([f"def run({', '.join(parameters)}):", *self._lines])
        exec(compile(source, self._file, "exec"), self._scope)
        function: Callable[..., tuple[Any, ...]] = self._scope["run"]
        return function

    def _write(self, line: str, step: Step | None) -> None:
        self._lines.append(line)
        self._steps_by_line.append(step)

    def _write_joint(self, moves: list[Move]) -> None:
        results = ", ".join(self._variable(each.target) for each in moves)
        given = ", ".join(self._operand(each.source) for each in moves)
        self._write(f"{results} = {self._constant('m', self._bound[id(moves[0])].run)}({given})", moves[0])

    def _writes(self, step: Step) -> bool:
        """Whether the step can write its only result to a given array."""
        if isinstance(step, Move):
            return self._bound[id(step)].takes_out
        return isinstance(step, Compute) and len(step.results) == 1 and _direct(step) is not None

    def _call(self, step: Compute | Move) -> str:
        """The call that computes the results of a step."""
        target = self._storage.target(step)
        if isinstance(target, LocalValue):
            out = f"out={self._variable(target)}"
        elif isinstance(target, str):
            (result,) = step.results
            allocate = self._constant("a", self._grid.allocate)
            shape = result.layout.local_shape(self._grid.own_coords)
            out = f"out={allocate}({shape!r}, {self._constant('d', result.dtype)})"
        else:
            out = "" if target is None else f"out={self._constant('b', target)}"
        if isinstance(step, Move):
            call, given = self._constant("m", self._bound[id(step)].run), [self._operand(step.source)]
        else:
            call, given = self._computation(step)
        return f"{call}({', '.join([*given, *[out] * bool(out)])})"

    def _computation(self, step: Compute) -> tuple[str, list[str]]:
        """The function to call, and its arguments."""
        if step.splits is None:
            at = self._grid if step.exchanges is not None else self._grid.own_coords
            return self._constant("f", step.bind(at)), list(map(self._operand, step.operands))
        arguments = step.operation, step.splits, self._grid.own_coords
        blocks = plain_blocks(*arguments)
        operands = [
            self._constant("p", blocks[i]) if i in blocks else self._operand(x) for i, x in enumerate(step.operands)
        ]
        direct = _direct(step)
        if direct is not None:
            return self._constant("f", direct), operands
        call = self._constant("f", local_call(*arguments))
        if not step.operation.kind:
            return call, operands
        # A reduction of blocks without cells warns of nothing.
        return self._constant("q", quiet_context().run), [call, *operands]

    def _operand(self, operand: LocalOperand) -> str:
        if isinstance(operand, Constant):
            return self._constant("c", operand.value)
        return self._variable(operand)

    def _variable(self, value: LocalValue) -> str:
        return self._names.setdefault(id(value), f"v{len(self._names)}")

    def _constant(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self._scope)}"
        self._scope[name] = value
        return name


def _direct(step: Compute) -> Callable[..., Any] | None:
    """The function that a step calls directly, and that takes ``out``."""
    is_plain = step.splits is not None and is_plain_call(step.operation)
    return direct_call(step.operation.local) if is_plain else None


def _last_uses(schedule: Schedule) -> dict[int, list[int]]:
    """For each step, the values (by identity) that no later step and no result needs."""
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
