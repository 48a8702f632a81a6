"""A schedule in the dialect: computations on blocks as calls, and communication."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Constant, Program
from spmd_grid.program.lowerings.eager import Eager
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.steps import Compute, LocalOperand, LocalValue, Move, Wait
from spmd_grid.program.text.attributes import call_attributes, cut_attribute, selection_attributes
from spmd_grid.program.text.calls import MANUAL
from spmd_grid.program.text.layouts import is_function_of_blocks, layout_attribute, step_layouts
from spmd_grid.program.text.lines import Lines, operation_name, program_text, totals_of
from spmd_grid.program.text.moves import adds_halos, step_text
from spmd_grid.program.text.slicing import Slicing
from spmd_grid.program.text.types import encoded_type, local_type, tensor_type
from spmd_grid.typing import Shape

__all__ = ["schedule_text"]


def schedule_text(program: Program, schedule: Schedule, is_local: bool, slices: bool = False) -> str:
    """The steps of a schedule.

    ``is_local``: whether types are those of what a device holds; else they are global, with shardings.  ``slices``:
    whether arguments are whole arrays that are cut to the blocks of the process.
    """
    return _Writer(program, schedule, local_type if is_local else encoded_type).text(slices)


class _Writer:
    def __init__(self, program: Program, schedule: Schedule, type_of: Callable[[Sharding, Shape, np.dtype], str]):
        self._program = program
        self._schedule = schedule
        self._type_of = type_of
        self._lines = Lines(program, schedule.grid)
        self._names: dict[int, str] = {}
        self._used: set[str] = set()
        self._is_local = type_of is local_type
        self._totals = totals_of(program)

    def text(self, slices: bool) -> str:
        arguments = []
        cut = Slicing(self._lines)
        for x in self._schedule.arguments:
            name = self._name(x)
            arguments.append((name, tensor_type(x.shape, x.dtype) if slices else self._type(x)))
            if slices and x.sharding.sharded_dims:
                self._names[id(x)] = cut.slice(x, name)
        for step in self._schedule.steps:
            if isinstance(step, Compute):
                self._compute(step)
            elif isinstance(step, Move):
                self._move(step)
            else:
                self._wait(step)
        results = [self._operand(x) for x in self._schedule.results]
        return program_text(self._program, self._lines, arguments, results, self._layouts(slices))

    def _layouts(self, slices: bool) -> list[str]:
        """The arrays that the blocks which come and go are blocks of."""
        if not self._is_local:
            return []
        whole = [tensor_type(x.shape, x.dtype) for x in self._schedule.arguments]
        sources = f"sources = [{', '.join(whole)}]" if slices else layout_attribute("sources", self._schedule.arguments)
        return [sources, layout_attribute("targets", self._schedule.results)]

    def _name(self, x: LocalValue) -> str:
        """The name of a local value: that of the program's value for the first that holds it, else a number."""
        found = self._names.get(id(x))
        if found is None:
            found = f"%{x.value.name}"
            if found in self._used or x.shape != x.value.shape:
                found = self._lines.new_name()
            self._used.add(found)
            self._names[id(x)] = found
        return found

    def _type(self, x: LocalValue) -> str:
        return self._type_of(x.sharding, x.shape, x.dtype)

    def _operand(self, x: LocalOperand) -> tuple[str, str]:
        if not isinstance(x, Constant):
            return self._name(x), self._type(x)
        name, kind = self._lines.constant(x)
        return name, kind

    def _compute(self, step: Compute) -> None:
        operands = [self._operand(x) for x in step.operands]
        operation = step.operation
        name = self._compute_name(step)
        attributes = self._arguments(step)
        if isinstance(operation.lowering, Eager):
            attributes.append("collective")
        if step.splits is not None:
            attributes.append(cut_attribute(step.splits.axes))
        elif name.startswith("spmd_grid."):
            attributes.insert(0, f'of = "{operation_name(operation)}"')
        if self._is_local and not is_function_of_blocks(step):
            attributes += [layout_attribute("sources", step.operands), layout_attribute("targets", step.results)]
        self._define(
            self._lines.calls.text(name, operands, [self._type(x) for x in step.results], attributes), step.results
        )

    def _arguments(self, step: Compute) -> list[str]:
        """The plain arguments; of slices those of the step, which a pass may have changed, of a finish the call's."""
        total = self._totals.get(step.operation.values[0]) if step.operation.values else None
        if total is not None:
            kinds = ", ".join([tensor_type(x.shape, x.dtype) for x in total.values])
            return [f'of = "{operation_name(total)}"', f"of_types = [{kinds}]", *call_attributes(total)]
        if any(x in self._totals for x in step.operation.results):
            return [f'of = "{operation_name(step.operation)}"', *call_attributes(step.operation)]
        if step.name == "select":
            return selection_attributes(step.key[1])
        return call_attributes(step.operation)

    def _compute_name(self, step: Compute) -> str:
        """The function of a computation that is a whole operation; else the name of the part."""
        operation = step.operation
        if any(x in self._totals for x in operation.results):
            return f"spmd_grid.{operation.name}_total"
        if step.splits is not None or step.name == operation.name or operation_name(operation) == MANUAL:
            return operation_name(operation)
        return f"spmd_grid.{step.name.replace(' ', '_')}"

    def _move(self, step: Move) -> None:
        plan, source = step.plan, step.source
        name, held = self._name(source), Layout(source.sharding, source.shape)
        if not plan.steps:  # devices hold what they need; only the sharding is written otherwise
            text = self._lines.calls.text(
                "spmd_grid.same_cells", [(name, self._type(source))], [self._type(step.target)]
            )
            self._define(text, [step.target])
            return
        last = len(plan.steps) - 1
        for number, each in enumerate(plan.steps):
            types = [self._type_of(layout.sharding, step.source.shape, source.dtype) for layout in (held, each.target)]
            target = self._name(step.target) if number == last else self._lines.new_name()
            layouts = step_layouts(held, each.target, source.dtype) if self._is_local else []
            if adds_halos(each.source, each.target):  # the dialect's operation finds room for the halos
                room = self._lines.calls.text("spmd_grid.make_room", [(name, types[0])], types[1:], layouts)
                name = self._lines.define(room)
            name = self._lines.define(step_text(each, name, (types[0], types[1]), self._lines.calls, layouts), target)
            held = each.target

    def _wait(self, step: Wait) -> None:
        name, kind = self._operand(step.move.target)
        self._define(self._lines.calls.text("spmd_grid.wait", [(name, kind)], []), [])

    def _define(self, text: str, results: Sequence[LocalValue]) -> None:
        if results:
            self._lines.define(text, ", ".join([self._name(x) for x in results]))
        else:
            self._lines.add(text)
