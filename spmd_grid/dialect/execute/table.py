"""The table of handlers, which compute operations, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from xdsl.ir import Block, Operation

from spmd_grid.dialect.execute.communication import Devices
from spmd_grid.errors import ShapeError

__all__ = ["HANDLERS", "Handler", "Runner", "cell_by_cell", "handles", "needs_devices"]


class Runner(Protocol):
    """The part of a `FunctionRunner` that handlers need.

    ``devices``: None where whole arrays are computed by one process.  ``is_tracing``: whether values may be arrays of a
    function that is being traced, which have no cells.
    """

    devices: Devices | None
    is_tracing: bool
    loops: list[tuple[tuple[int, ...], Mapping[int, int]]]  # of the structured operations that are under way

    def run_block(self, block: Block, arguments: Sequence[Any], until: Operation | None = None) -> list[Any]:
        """The operands of the block's last operation, with these arguments; those of ``until``, which ends the run."""

    def call(self, name: str, arguments: Sequence[Any]) -> list[Any]:
        """The results of a function of the module."""

    def value(self, x: Any) -> Any:
        """The value that a name of the text stands for."""

    def kept(self, key: tuple[Operation, str], make: Callable[[], Any]) -> Any:
        """The finding of ``make`` for an operation, which is asked once per run."""

    def thin(self, operands: Sequence[Any]) -> list[Any]:
        """The operands; an array that repeats one number becomes that number if another operand tells the shape."""


# A handler is called with the runner, the operation and the values of the operands.  It gives the value of the only
# result, or a list of the values of all results.
Handler: TypeAlias = Callable[[Runner, Operation, Sequence[Any]], Any]
HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Decorate what computes the operations of these names."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


def cell_by_cell(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Register operations that are one function of numpy on their operands."""
    for name, function in functions.items():
        HANDLERS[name] = _calling(function)


def _calling(function: Callable[..., Any]) -> Handler:
    def handler(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
        return function(*runner.thin(operands))

    return handler


def needs_devices(runner: Runner, name: str) -> Devices:
    """The devices of a runner.  Raises ShapeError where there are none."""
    if runner.devices is None:
        raise ShapeError(f"{name}: there are no devices; the operation has no meaning on whole arrays")
    return runner.devices
