"""The lines of one text: operations of a function body, with names for values, constants and shardings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from spmd_grid.functions.names import function_name, has_name
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Constant, Operation, Program, Value
from spmd_grid.program.lowerings.eager import Eager
from spmd_grid.program.text.calls import CONSTANT, MANUAL, OPAQUE, PREFIX, STEPS, Calls, attributes_text
from spmd_grid.program.text.constants import constant_text, value_text
from spmd_grid.program.text.types import sharding_text

__all__ = ["GRID", "Lines", "operation_name", "program_text", "totals_of"]

GRID = "@grid0"
_NO_NAME = re.compile(r"[^\w.$]")
_OWN = "constrain", "manual", "new"  # the operations that are no function of numpy


class Lines:
    """Collects the body of a function.  New names are numbers that no value of the program has."""

    def __init__(self, program: Program, grid: Grid):
        self.grid = grid
        self.calls = Calls()
        self._lines: list[str] = []
        used = {value.name for value in program.values}
        self._numbers: Iterator[str] = (f"%{n}" for n in count() if str(n) not in used)
        self._known: dict[Any, str] = {}
        self._counts: Counter[str] = Counter()

    @property
    def body(self) -> list[str]:
        """The lines so far."""
        return self._lines

    def new_name(self) -> str:
        """A name of no value."""
        return next(self._numbers)

    def add(self, text: str) -> None:
        """Write an operation without a result."""
        self._lines.append(text)

    def define(self, text: str, name: str | None = None) -> str:
        """Write an operation with one result; returns its name."""
        name = name or self.new_name()
        self._lines.append(f"{name} = {text}")
        return name

    def index(self, n: int) -> str:
        """The name of a constant index."""
        return self._once(("index", n), f"%c{n}", f"arith.constant {n} : index")

    def sharding(self, sharding: Sharding) -> str:
        """The name of a sharding; it is defined once."""
        return self._once(sharding, "%sharding", sharding_text(sharding, GRID))

    def constant(self, constant: Constant) -> tuple[str, str]:
        """The name and the type of a constant; it is defined once."""
        text, kind = constant_text(constant.value)
        if value_text(constant.value):
            text = self.calls.text(CONSTANT, [], [kind], [f"value = {text}"])
        return self._once(text, "%cst", text), kind

    def _once(self, key: Any, base: str, text: str) -> str:
        found = self._known.get(key)
        if found is None:
            n = self._counts[base]
            self._counts[base] += 1
            found = self._known[key] = self.define(text, f"{base}_{n - 1}" if n else base)
        return found


def operation_name(operation: Operation) -> str:
    """The name of an operation: that of numpy's function, or the engine's own.

    What is no call of a function with a name, such as a function of the user's, is ``spmd_grid.opaque``.
    """
    lowering = operation.lowering
    if getattr(lowering, "is_of_body", False):  # of manual's, which is Python's
        return MANUAL
    is_eager = isinstance(lowering, Eager)
    function = lowering.called if isinstance(lowering, Eager) else operation.function
    if function is not None:
        name = function_name(function)
        is_step = name.startswith(PREFIX) and name in STEPS
        return OPAQUE if is_step or not has_name(function) else name
    if isinstance(lowering, Eager) and lowering.told is not None:
        return f"spmd_grid.{lowering.told[0]}"
    if operation.name in _OWN or operation.name.endswith("_finish"):
        return f"spmd_grid.{operation.name}"
    is_numpys = operation.name in ("constant", "astype") or (lowering is not None and not is_eager)
    return f"numpy.{operation.name}" if is_numpys else OPAQUE


def totals_of(program: Program) -> dict[Value, Operation]:
    """The values that are totals, of which the following operation makes what the function gives; who computes them."""
    return {
        operation.results[0]: operation
        for operation, finish in zip(program.operations, program.operations[1:])
        if finish.name == f"{operation.name}_finish" and finish.values == [operation.results[0]]
    }


def program_text(
    program: Program,
    lines: Lines,
    arguments: Sequence[tuple[str, str]],
    results: Sequence[tuple[str, str]],
    layouts: Sequence[str] = (),
) -> str:
    """The grid, the function around the lines, and those that it calls; arguments and results with their types.

    ``layouts``: attributes of a function on blocks that say what they are blocks of.
    """
    grid = "x".join(map(str, lines.grid.shape))
    parameters = ", ".join(f"{name}: {kind}" for name, kind in arguments)
    types = ", ".join([kind for _, kind in results])
    returned = types if len(results) == 1 else f"({types})"
    names = ", ".join([name for name, _ in results])
    name = _NO_NAME.sub("_", program.name)
    named = attributes_text([f"grid = {GRID}", *layouts])
    head = f"func.func @{name}({parameters}) -> {returned} attributes{named} {{"
    tail = f"return {names} : {types}" if results else "return"
    body = "".join(f"  {line}\n" for line in [*lines.body, tail])
    declared = "".join(f"{each}\n" for each in lines.calls.declarations)
    ranks = [] if lines.grid.ranks is None else [f"ranks = {list(lines.grid.ranks)}"]
    return f"shard.grid {GRID}(shape = {grid}){attributes_text(ranks)}\n\n{head}\n{body}}}\n" + (
        f"\n{declared}" if declared else ""
    )
