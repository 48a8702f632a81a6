"""A traced program in the dialect: with the annotations of the user, and with those that propagation found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Annotation, Constant, Operation, Value
from spmd_grid.program.propagate.solution import Solution
from spmd_grid.program.text.attributes import call_attributes, cut_attribute
from spmd_grid.program.text.calls import attributes_text
from spmd_grid.program.text.lines import Lines, operation_name, program_text, totals_of
from spmd_grid.program.text.types import tensor_type

__all__ = ["annotated_text", "traced_text"]


def traced_text(solution: Solution, annotations: Sequence[Annotation]) -> str:
    """The program as it was written, with the user's annotations."""
    return _Traced(solution, annotations).text()


def annotated_text(solution: Solution) -> str:
    """The program with a sharding for every value, and for every use of it by an operation."""
    return _Annotated(solution).text()


class _Writer(ABC):
    """Writes the operations with global types.  ``_names``: the name by which a value is read from now on."""

    def __init__(self, solution: Solution):
        self.solution = solution
        self.lines = Lines(solution.program, solution.grid)
        self._totals = totals_of(solution.program)
        self._names: dict[Value, str] = {value: f"%{value.name}" for value in solution.program.values}

    def text(self) -> str:
        program = self.solution.program
        for value in program.arguments:
            self._annotate(value)
        for operation in program.operations:
            self._write(operation)
        arguments = [(f"%{value.name}", _type(value)) for value in program.arguments]
        for number, members in program.groups.items():
            shown = number if isinstance(number, int) else '"' + str(number).replace('"', "'") + '"'
            for value in members:
                kinds = [(f"%{value.name}", _type(value))]
                self.lines.add(self.lines.calls.text("spmd_grid.sharding_group", kinds, [], [f"id = {shown}"]))
        results = [
            (self._names[x], _type(x)) if isinstance(x, Value) else self.lines.constant(x) for x in program.results
        ]
        return program_text(program, self.lines, arguments, results)

    def _write(self, operation: Operation) -> None:
        """Write one call; a total is written as the call that finishes it."""
        if any(value in self._totals for value in operation.results):
            return
        call = self._totals.get(operation.values[0], operation) if operation.values else operation
        names = ", ".join([f"%{value.name}" for value in operation.results])
        operands = [self._operand(call, number) for number in range(len(call.operands))]
        types = [_type(value) for value in operation.results]
        text = self.lines.calls.text(operation_name(call), operands, types, self._attributes(call))
        self.lines.define(text, names)
        for value in operation.results:
            self._annotate(value)

    def _operand(self, operation: Operation, number: int) -> tuple[str, str]:
        x = operation.operands[number]
        return self.lines.constant(x) if isinstance(x, Constant) else (self._names[x], _type(x))

    def _attributes(self, operation: Operation) -> list[str]:
        return call_attributes(operation)

    @abstractmethod
    def _annotate(self, value: Value) -> None:
        """Write the annotations of a value."""

    def _shard(self, value: Value, sharding: Sharding, attributes: Sequence[str] = (), name: str | None = None) -> str:
        """Annotate what stands for the value; returns the name of the annotated array."""
        shown = attributes_text(attributes)
        for_users = " annotate_for_users" if name else ""
        source = name or self._names[value]
        text = f"shard.shard {source} to {self.lines.sharding(sharding)}{for_users}{shown} : {_type(value)}"
        return self.lines.define(text)


class _Traced(_Writer):
    def __init__(self, solution: Solution, annotations: Sequence[Annotation]):
        super().__init__(solution)
        self._annotations = annotations
        self._for_users: set[Value] = set()

    def _write(self, operation: Operation) -> None:
        if operation.key != "constrain":
            super()._write(operation)
            return
        (value,), (source,) = operation.results, operation.values
        self._names[value] = self._names[source]
        for each in self._annotations:
            if each.value is value:
                self._names[value] = self._shard(value, each.sharding, _attributes(each), self._names[value])

    def _annotate(self, value: Value) -> None:
        for each in self._annotations:
            if each.value is value:
                self._names[value] = self._shard(value, each.sharding, _attributes(each))

    def _attributes(self, operation: Operation) -> list[str]:
        found = call_attributes(operation)
        if operation in self.solution.program.mutations:
            found.append(cut_attribute(self.solution.splits(operation).axes))
        return found


class _Annotated(_Writer):
    def _annotate(self, value: Value) -> None:
        self._names[value] = self._shard(value, self.solution.sharding(value))

    def _write(self, operation: Operation) -> None:
        if operation.key != "constrain":
            super()._write(operation)
            return
        (value,), (source,) = operation.results, operation.values
        self._names[value] = self._shard(value, self.solution.sharding(value), (), self._names[source])

    def _operand(self, operation: Operation, number: int) -> tuple[str, str]:
        x = operation.operands[number]
        if isinstance(x, Constant):
            return self.lines.constant(x)
        return self._shard(x, self.solution.taken(operation, number), (), self._names[x]), _type(x)

    def _attributes(self, operation: Operation) -> list[str]:
        return [*call_attributes(operation), cut_attribute(self.solution.splits(operation).axes)]


def _attributes(annotation: Annotation) -> list[str]:
    found = [] if annotation.required else ["required = false"]
    found += [f"priority = {annotation.priority}"] if 0 < annotation.priority < 1 << 30 else []
    return found + ([f"replicated_axes = {list(annotation.replicated_axes)}"] if annotation.replicated_axes else [])


def _type(value: Value) -> str:
    return tensor_type(value.shape, value.dtype)
