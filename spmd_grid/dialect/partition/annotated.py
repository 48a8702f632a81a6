"""Annotated functions as programs: ``shard.shard`` becomes `constrain`, everything else the calls that compute it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Operation

from spmd_grid.dialect.execute.communication import Devices
from spmd_grid.dialect.execute.faults import ExecutionError
from spmd_grid.dialect.execute.layouts import function_types
from spmd_grid.dialect.execute.operations.tosa import FIRST_POINTS
from spmd_grid.dialect.execute.reading import (
    attribute,
    dtype_of,
    name_of,
    numbers_of,
    symbol,
    value_name,
)
from spmd_grid.dialect.execute.runner import FunctionRunner, function_of
from spmd_grid.dialect.syntax.other_dialects.stablehlo.collectives import COLLECTIVES
from spmd_grid.dialect.syntax.positions import known_position
from spmd_grid.functions.names import function_name
from spmd_grid.grid.device_grid import Grid
from spmd_grid.program.ir import ArraySpec, Program
from spmd_grid.program.ir import Operation as TracedOperation
from spmd_grid.program.trace.public import constrain, trace
from spmd_grid.program.trace.traced_array import TracedArray
from spmd_grid.typing import Shape

__all__ = ["grid_of", "is_annotated", "program_of", "zero_points"]

_LOCAL = {"shard.process_multi_index", "shard.process_linear_index", "shard.update_halo"}
_HLO_LOCAL = {each.name.removeprefix("stablehlo.") for each in COLLECTIVES}


def is_annotated(function: Operation) -> bool:
    """Whether a function has arrays of global types, of which annotations say how they are spread.

    A function without any that names its grid, and neither communicates nor says what it has blocks of, is one of
    global types, too.  Raises ExecutionError where there are collectives as well, which take local types.
    """
    names = [(name_of(op), op) for op in function.walk()]
    annotations = [op for name, op in names if name == "shard.shard"]
    local = [op for name, op in names if name in _LOCAL or _is_collective(name)]
    if not annotations and symbol(function, "grid"):
        return not local and function_types(function) is None
    if annotations and local:
        raise ExecutionError(
            f"{name_of(local[0])} takes local types, and shard.shard at {known_position(annotations[0])} annotates"
            " global ones; a function has one or the other",
            known_position(local[0]),
        )
    return bool(annotations)


def _is_collective(name: str) -> bool:
    short = name.partition(".")[2]
    if name.startswith("stablehlo."):
        return short in _HLO_LOCAL
    return name.startswith("shard.") and short.startswith(
        ("all_", "broadcast", "gather", "recv", "reduce", "scatter", "send", "shift")
    )


def grid_of(function: Operation, grids: dict[str, Grid]) -> str:
    """The name of the grid that a function's shardings are on.  Raises ExecutionError where there are several."""
    found = [op for op in function.walk() if name_of(op) == "shard.sharding"]
    names = list(dict.fromkeys(symbol(op, "grid") for op in found)) or [symbol(function, "grid")]
    for op, name in zip(found, [symbol(op, "grid") for op in found]):
        if name not in grids:
            raise ExecutionError(f"there is no grid @{name}", known_position(op))
    if len(names) > 1:
        raise ExecutionError(
            f"shardings are on @{names[0]} and on @{names[1]}; those of a function that is partitioned are on one grid",
            known_position(found[-1]),
        )
    return names[0]


class _Annotating(Devices):
    """The devices of a function that is being traced: its grids have no processes yet."""

    def annotate(self, x: Any, sharding: Any, options: dict[str, Any]) -> Any:
        """The array with an annotation."""
        return constrain(x, sharding, **options)


def zero_points(function: Operation) -> set[int]:
    """The places of arguments that are zero points and nothing else: their values must be known to a program."""
    found = set()
    for argument in function.regions[0].block.args:
        uses = [(name_of(use.operation), use.index) for use in argument.uses]
        if uses and all(name in FIRST_POINTS and index >= FIRST_POINTS[name] for name, index in uses):
            found.add(argument.index)
    return found


def program_of(
    module: ModuleOp, name: str | None, grids: dict[str, Grid], shapes: Sequence[Shape], numbers: dict[int, Any]
) -> Program:
    """The program of an annotated function.

    Plans only.  ``shapes``: those of all arguments, as some extents may be known at run time only; ``numbers``: the
    values of arguments that are no arrays, or `zero_points`, by their places.  Raises ExecutionError, and what `trace`
    raises.
    """
    function = function_of(module, name)
    arguments = list(function.regions[0].block.args)
    watcher = _Watcher([value_name(each) for each in arguments])
    runner = FunctionRunner(module, _Annotating(grids), is_tracing=True, observe=watcher)

    def call(*arrays: Any) -> Any:
        given = iter(arrays)
        values = [numbers[i] if i in numbers else next(given) for i in range(len(arguments))]
        found = runner.call(name, values)
        return found[0] if len(found) == 1 else tuple(found)

    call.__name__ = symbol(function, "sym_name")
    specs = [
        ArraySpec(shape, dtype_of(each.type), value_name(each) or f"arg{i}")
        for i, (each, shape) in enumerate(zip(arguments, shapes))
        if i not in numbers
    ]
    program = trace(call, *specs)
    for operation, cuts in watcher.cuts:
        program = program.mutate(operation, cuts)
    return program


class _Watcher:
    """Watches the operations that become a program.

    Gives values the names that they have in the text; the first name of a value stays.  ``cuts``: the operations that
    the attribute ``sharding`` cuts, the RFC's option on operations.
    """

    def __init__(self, taken: Sequence[str]):
        self._taken = set(taken)
        self._named: list[Any] = []
        self._seen = 0
        self.cuts: list[tuple[TracedOperation, list[tuple[int, ...]]]] = []

    def __call__(self, op: Operation, found: Sequence[Any]) -> None:
        self._name(op, found)
        tracer = next((x.tracer for x in found if isinstance(x, TracedArray)), None)
        if tracer is None:
            return
        made, self._seen = tracer.operations[self._seen :], len(tracer.operations)
        cuts = attribute(op, "sharding")
        if isinstance(cuts, ArrayAttr) and made:
            self.cuts.append((_cut_by_option(op, made), _without_empty([numbers_of(each) for each in cuts])))

    def _name(self, op: Operation, found: Sequence[Any]) -> None:
        for result, x in zip(op.results, found):
            hint = value_name(result)
            if not hint or not isinstance(x, TracedArray) or x.value.site is None:
                continue
            if hint not in self._taken and not any(x.value is each for each in self._named):
                self._taken.add(hint)
                self._named.append(x.value)
                object.__setattr__(x.value, "name", hint)  # the program is not handed out yet


def _cut_by_option(op: Operation, made: Sequence[TracedOperation]) -> TracedOperation:
    """The one among the operations of a call that its loops are those of: the call itself, or the one with most."""
    called = [each for each in made if each.function is not None and function_name(each.function) == name_of(op)]
    return called[-1] if called else max(made, key=lambda each: len(each.interface.iterators))


def _without_empty(lists: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The lists without empty ones at the end."""
    kept = list(lists)
    while kept and not kept[-1]:
        kept.pop()
    return kept
