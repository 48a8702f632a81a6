"""Runs functions of a module, one operation after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from spmd_grid.dialect.execute.communication import Devices
from spmd_grid.dialect.execute.faults import ExecutionError
from spmd_grid.dialect.execute.lines import calling_at
from spmd_grid.dialect.execute.operations import (  # noqa: F401 - their imports fill the table of handlers
    among,
    buffers,
    collectives,
    grids,
    linalg,
    loops,
    numpy_calls,
    own_steps,
    scalars,
    stablehlo,
    tensors,
    tosa,
)
from spmd_grid.dialect.execute.reading import name_of, symbol, value_name
from spmd_grid.dialect.execute.table import HANDLERS
from spmd_grid.dialect.execute.values import Undefined, misfit, one_number
from spmd_grid.dialect.syntax.positions import known_position
from spmd_grid.errors import SpmdError

__all__ = ["FunctionRunner", "check_arguments", "function_of"]

Observer = Callable[[Operation, Sequence[Any]], None]

_DEEPEST = 64  # calls of functions inside functions
_TERMINATORS = ("return", "yield", "condition", "reduce")
# What takes undefined operands: some devices hold the input of these, and the others' is ignored.
_CARRIES_UNDEFINED = {
    *("func.call", "func.return", "scf.if", "scf.for", "scf.yield"),
    *("shard.broadcast", "shard.scatter", "shard.recv"),
}


def function_of(module: ModuleOp, name: str | None) -> Operation:
    """The function of a name; without a name the only one, or the one called main.  Raises ExecutionError."""
    found = {symbol(op, "sym_name"): op for op in module.ops if name_of(op) == "func.func"}
    if name is None:
        name = "main" if "main" in found else next(iter(found)) if len(found) == 1 else None
    if name is None or name not in found:
        known = ", ".join(f"@{each}" for each in found) or "none"
        wanted = "no function is named" if name is None else f"there is no function @{name}"
        raise ExecutionError(f"{wanted}; the functions of the module are {known}", known_position(module))
    if not found[name].regions or not found[name].regions[0].blocks:
        raise ExecutionError(f"function @{name} is only declared; it must have a body", known_position(found[name]))
    _only_block(found[name], found[name].regions[0])
    return found[name]


def check_arguments(function: Operation, arguments: Sequence[Any]) -> None:
    """Refuse arguments that are not of a function's types.  Raises ExecutionError."""
    title, due = symbol(function, "sym_name"), function.regions[0].block.args
    if len(arguments) != len(due):
        raise ExecutionError(
            f"@{title}: {len(arguments)} arguments are given; it takes {len(due)}", known_position(function)
        )
    for number, (argument, given) in enumerate(zip(due, arguments)):
        wrong = misfit(given, argument.type)
        if wrong:
            raise ExecutionError(
                f"@{title}: argument {number} {wrong}; it must be {argument.type}", known_position(function)
            )


class FunctionRunner:
    """Runs functions of ``module`` on values.

    ``devices``: what the shard dialect's operations find outside of the process; None where whole arrays are computed.
    ``observe``: called after each operation of a function's body with the values of its results.
    """

    def __init__(
        self,
        module: ModuleOp,
        devices: Devices | None = None,
        *,
        is_tracing: bool = False,
        observe: Observer | None = None,
    ):
        self.devices = devices
        self.is_tracing = is_tracing
        self.loops: list[tuple[tuple[int, ...], Mapping[int, int]]] = []
        self._module = module
        self._observe = observe
        self._frames: list[dict[SSAValue, Any]] = []
        self._functions: list[str] = []
        self._callers: dict[Operation, Callable[..., Any]] = {}
        self._kept: dict[tuple[Operation, str], Any] = {}

    def call(self, name: str | None, arguments: Sequence[Any]) -> list[Any]:
        """The results of a function.  Raises ExecutionError, and what operations raise, with their places noted."""
        function = function_of(self._module, name)
        block = _only_block(function, function.regions[0])
        title = symbol(function, "sym_name")
        check_arguments(function, arguments)
        if len(self._frames) >= _DEEPEST:
            raise ExecutionError(
                f"@{title}: more than {_DEEPEST} calls are inside one another", known_position(function)
            )
        self._frames.append({})
        self._functions.append(title)
        try:
            with np.errstate(all="ignore"):
                return self.run_block(block, arguments)
        finally:
            self._frames.pop()
            self._functions.pop()

    def run_block(self, block: Block, arguments: Sequence[Any], until: Operation | None = None) -> list[Any]:
        """The operands of the block's last operation, with these arguments; those of ``until``, which ends the run."""
        frame = self._frames[-1]
        frame.update(zip(block.args, arguments, strict=True))
        ops = list(block.ops)
        for number, op in enumerate(ops, 1):
            is_over = number == len(ops) and name_of(op).rpartition(".")[2] in _TERMINATORS
            if is_over or op == until:
                return [frame[x] for x in op.operands]
            found = self._executed(op, [frame[x] for x in op.operands])
            frame.update(zip(op.results, found))
            if self._observe is not None:
                self._observe(op, found)
        return []

    def value(self, x: SSAValue) -> Any:
        """The value that a name of the text stands for."""
        return self._frames[-1][x]

    def kept(self, key: tuple[Operation, str], make: Callable[[], Any]) -> Any:
        """The finding of ``make`` for an operation, which is asked once per run."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def thin(self, operands: Sequence[Any]) -> list[Any]:
        """The operands; while tracing, arrays that repeat one number are that number beside an array without cells."""
        if not self.is_tracing or all(isinstance(x, np.ndarray | np.generic) for x in operands):
            return list(operands)
        numbers = [one_number(x) for x in operands]
        return [x if number is None else number for x, number in zip(operands, numbers)]

    def _executed(self, op: Operation, operands: Sequence[Any]) -> list[Any]:
        name = name_of(op)
        missing = next((x for x in operands if isinstance(x, Undefined)), None)
        with _placed(op):
            if missing is not None and name not in _CARRIES_UNDEFINED:
                if name.startswith("shard."):
                    raise ExecutionError(f"{name}: its operand is {missing}", known_position(op))
                return [missing] * len(op.results)
            call = self._callers.get(op)
            if call is None:
                call = self._callers[op] = calling_at(op, self._functions[-1])
            handler = HANDLERS.get(name) or HANDLERS.get(f"{name.partition('.')[0]}.*")
            if handler is None:
                raise ExecutionError(f"{name} is not executed; {_known(name)}", known_position(op))
            found = call(handler, self, op, operands)
            results = found if isinstance(found, list) else [] if found is None else [found]
            if len(results) != len(op.results):
                raise ExecutionError(f"{name}: gives {len(results)} results, not {len(op.results)}", known_position(op))
            for result, value in zip(op.results, results) if not self.loops else ():  # inside, numbers are arrays
                wrong = misfit(value, result.type)
                if wrong:
                    title = f"%{value_name(result)}" if value_name(result) else "its result"
                    raise ExecutionError(f"{name}: {title} {wrong}; its type is {result.type}", known_position(op))
        return results


def _known(name: str) -> str:
    dialect = name.partition(".")[0]
    known = sorted(each for each in HANDLERS if each.startswith(f"{dialect}."))
    return f"of {dialect} there are {', '.join(known)}" if known else f"no operation of {dialect} is"


def _only_block(op: Operation, region: Region) -> Block:
    blocks = list(region.blocks)
    if len(blocks) != 1:
        raise ExecutionError(f"{name_of(op)}: its body has {len(blocks)} blocks; it must have one", known_position(op))
    return blocks[0]


@contextmanager
def _placed(op: Operation) -> Iterator[None]:
    """Note the position of an operation on errors that come from it."""
    try:
        yield
    except ExecutionError:
        raise
    except SpmdError as error:
        if not hasattr(error, "position"):  # the innermost operation has noted its own
            vars(error)["position"] = known_position(op)
            error.add_note(f"{known_position(op)}: {name_of(op)}")
        raise
    except RecursionError:
        raise ExecutionError(f"{name_of(op)}: regions are nested too deeply", known_position(op)) from None
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError) as error:
        raise ExecutionError(f"{name_of(op)}: {error}", known_position(op)) from error
