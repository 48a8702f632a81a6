"""The body of a manual computation on blocks without cells: shapes of results, and the communications on the way.

The body is called once with arrays that have a shape and a dtype.  numpy's functions on them find shapes by the rules
of the table, and the engine's operations by the rules below; nothing is sent, and no device is special: coordinates
are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import getclosurevars, signature
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from spmd_grid.errors import AxisError, GridError, ImplicitGatherError, OutputError, ShapeError, ShardingError
from spmd_grid.exchange.requests import Request
from spmd_grid.formatting import told_apart
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.abstract import NoCells
from spmd_grid.program.ir import Constant, Value
from spmd_grid.program.lowerings.eager import Eager
from spmd_grid.program.manual.communication import (
    FROM_ROOT,
    TO_ROOT,
    Communicate,
    HaloUpdate,
    answer_to,
    halo_bytes,
    interface_of,
)
from spmd_grid.program.manual.terms import Terms
from spmd_grid.program.partition.steps import Exchange
from spmd_grid.program.trace.traced_array import TracedArray
from spmd_grid.program.trace.tracer import Tracer, traced_site
from spmd_grid.typing import GridAxes, MultiIndex, Shape

__all__ = ["AbstractGrid", "BodyTracer", "Followed", "call_body", "follow", "takes_grid"]


class ManualBlock(TracedArray):
    """Stands for a block of a manual computation."""

    __slots__ = ()

    @property
    def answers_operations(self) -> Callable[..., Any]:
        """The function that answers for the engine's operations on it."""
        tracer = self.tracer
        assert isinstance(tracer, BodyTracer)  # which has made it
        return tracer.answer_outside

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise NoCells


class BodyTracer(Tracer):
    """Follows the body of a manual computation.  ``exchanges``: the communications that its devices take part in."""

    def __init__(self, grid: Grid, manual_axes: tuple[int, ...]):
        super().__init__(ManualBlock)
        self.grid = grid
        self.manual_axes = manual_axes
        self.exchanges: list[Exchange] = []
        self.whole_because = ""
        self._of_root: set[Value] = set()

    def needs_whole(self, reason: str) -> None:
        """Note that the body must run as it is, on blocks that no free axis cuts."""
        self.whole_because = self.whole_because or f"{reason} (at {traced_site()})"

    def check_annotation(self, op: str, sharding: Sharding | None) -> None:
        """Refuse annotations of blocks other than by free axes.  Raises ShardingError and GridError."""
        if sharding is None:
            raise ShardingError(
                f"{op}: x is a block of a manual computation, which is in no group (at {traced_site()})"
            )
        if sharding.grid != self.grid:
            one, other = told_apart(sharding.grid, self.grid)
            raise GridError(f"{op}: sharding is on {one}, in a body on {other} (at {traced_site()})")
        used = {axis for cut in sharding.split_axes for axis in cut} | set(sharding.partial_axes)
        if not used.isdisjoint(self.manual_axes):
            raise ShardingError(
                f"{op}: sharding is {sharding}, and x is a block of a manual computation along"
                f" {list(self.manual_axes)}; free axes alone may cut it further (at {traced_site()})"
            )

    def structural(self, name: str, *others: Any) -> Any:
        """As `Tracer.structural`; functions that communicate by themselves cannot be lifted."""
        if isinstance(others[-1], Eager):
            self.needs_whole(f"{name} finds its result by communication of its own")
        return super().structural(name, *others)

    def answer_outside(self, *call: Any) -> Any:
        """As `answer`, for an operation on a grid that is not the body's own."""
        self.needs_whole("an operation gets a ProcessGrid from outside, by which the body may ask where it runs")
        return self.answer(*call)

    def answer(self, name: str, x: Any, grid_axes: Any, args: tuple[Any, ...], out: Any) -> Any:
        """The result of one of the engine's operations.  Raises as the operation does."""
        found = answer_to(name)
        if found is None or out is not None:
            what = f"{name} with out=" if found is not None else name
            raise _not_followed(f"{what} gives other results on other devices, or writes into arrays")
        if x is None:
            raise _not_followed(f"{name} gets None on the device at {(0,) * self.grid.ndim}")
        axes = tuple(range(self.grid.ndim)) if grid_axes is None else self.grid.axes(grid_axes, f"{name}: grid_axes")
        self._check_manual(f"{name}: grid_axes", axes)
        x = x if isinstance(x, TracedArray) else np.asarray(x)
        if name not in FROM_ROOT and self.is_of_root(x):
            raise ShardingError(
                f"{name}: its array is on the root of a gather or a reduce alone (at {traced_site()}); broadcast or"
                " scatter it first"
            )
        size = self.grid.grid_shape(axes) if axes else ()
        n = int(np.prod(size, dtype=np.int64))
        shape, dtype, received = found(name, x.shape, x.dtype, n, args)
        if received and n > 1:
            self.exchanges.append((name, axes, received))
        interface = interface_of(name, args, x.shape, shape)
        if interface is None:
            self.needs_whole(f"{name} gives other results on some devices")
            result = self.wrapped(shape, dtype)
        else:
            x = x if isinstance(x, TracedArray) else self.constant(x)
            result = self.structural(name, [x], [(shape, dtype)], interface, Communicate(name, axes, args))
        if name in TO_ROOT:
            self._of_root.add(result.value)
        return result

    def is_of_root(self, x: Any) -> bool:
        """Whether an array follows from one that the root of an operation has alone."""
        if not self._of_root or not isinstance(x, TracedArray):
            return False
        found = set(self._of_root)
        for operation in self.operations:
            if operation.name not in FROM_ROOT and not found.isdisjoint(operation.values):
                found.update(operation.results)
        return x.value in found

    def update_halo(self, x: Any, split_axes: Any, halo_sizes: Any, *others: Any) -> Any:
        """The array itself, whose halos are refreshed.  Raises as the operation does."""
        sharding = Sharding(self.grid, split_axes, halo_sizes=halo_sizes)
        axes = tuple([axis for cut in sharding.split_axes for axis in cut])
        self._check_manual("update_halo: split_axes", axes)
        if not isinstance(x, TracedArray):
            raise _not_followed("update_halo writes into an array that has nothing to do with the blocks")
        if not any(x.value in operation.results for operation in self.operations):
            raise OutputError(
                f"update_halo: x is a block that the body is given, which must not be written to (at {traced_site()});"
                " copy it first"
            )
        received = halo_bytes(sharding, x.shape, x.dtype)
        if received:
            self.exchanges.append(("update_halo", axes, received))
        periodic, *extents = others
        if extents != [None, "ceil", None]:
            self.needs_whole("update_halo is given the extents of its blocks")
        update = HaloUpdate(sharding, (split_axes, halo_sizes, periodic))
        found = self.structural("update_halo", [x], [(x.shape, x.dtype)], update.interface(x.shape), update)
        x.value = found.value
        return x

    def _check_manual(self, what: str, axes: Sequence[int]) -> None:
        free = [axis for axis in axes if axis not in self.manual_axes]
        if free:
            raise AxisError(
                f"{what} is {list(axes)}, and the body is local along {list(self.manual_axes)} alone; it is"
                f" global along {free} (at {traced_site()})"
            )


class _AbstractGate:
    """Stands for the gate of operations that go through it by themselves: halos, and what is started."""

    def __init__(self, tracer: BodyTracer):
        self._tracer = tracer

    def run(self, op: str, function: Any, *args: Any) -> Any:
        """The answer to one of the engine's operations.  Raises ImplicitGatherError where there is none."""
        name, _, way = op.partition(".")
        if op == "update_halo":
            _, _, x, _, arguments = args
            return self._tracer.update_halo(x, *arguments)
        if way == "start" and answer_to(name) is not None:
            x, _, grid_axes, others, out = args
            return Request.completed(self._tracer.answer(name, x, grid_axes, others, out))
        if name in ("send", "recv"):
            raise _not_followed(f"{op} is between single devices, and what arrives has the shape that was sent")
        raise _not_followed(f"{op} needs processes")


class _AbstractProcess(NamedTuple):
    """Stands for the process of an `AbstractGrid`."""

    gate: _AbstractGate


class AbstractGrid:
    """Stands for the ProcessGrid of a body that takes one, while it has no processes."""

    def __init__(self, tracer: BodyTracer):
        self._tracer = tracer
        self.grid = tracer.grid
        self.shape, self.ndim, self.size = self.grid.shape, self.grid.ndim, self.grid.size
        self.axis_names = self.grid.axis_names
        self.process = _AbstractProcess(_AbstractGate(tracer))

    @property
    def answers_operations(self) -> Callable[..., Any]:
        """The function that answers for the engine's operations on it."""
        return self._tracer.answer

    @property
    def coords(self) -> MultiIndex:
        """The coordinates of the device that stands for all."""
        self._tracer.needs_whole("the body asks where it runs")
        return (0,) * self.ndim

    own_coords = coords

    @property
    def rank(self) -> int:
        """The rank of the device that stands for all."""
        return self.process_linear_index()

    def process_linear_index(self) -> int:
        """The linear index of the device that stands for all."""
        return self.coords[0] if self.coords else 0

    def process_multi_index(self, axes: GridAxes | None = None) -> MultiIndex:
        """The coordinates along ``axes`` of the device that stands for all."""
        return self.coords if axes is None else (0,) * len(self.grid.axes(axes, "process_multi_index"))

    def grid_shape(self, axes: GridAxes | None = None) -> MultiIndex:
        """As `Grid.grid_shape`."""
        return self.grid.grid_shape(axes)


def _not_followed(reason: str) -> ImplicitGatherError:
    return ImplicitGatherError(
        f"manual: the body cannot be followed without cells: {reason} (at {traced_site()}); give out_specs="
    )


def takes_grid(body: Callable[..., Any]) -> bool:
    """Whether a body has a parameter ``grid``."""
    try:
        return "grid" in signature(body).parameters
    except (TypeError, ValueError):
        return False


_DEPTH = 3  # of what a body refers to


def holds_grid(body: Any) -> bool:
    """Whether a body refers to a ProcessGrid: by variables, bound arguments and attributes, and by theirs in turn."""
    seen, found = set(), [body]
    for _ in range(_DEPTH + 1):
        if any(isinstance(each, ProcessGrid) for each in found):
            return True
        seen |= set(map(id, found))
        found = [each for one in found for each in _referred(one) if id(each) not in seen]
    return False


def _referred(x: Any) -> list[Any]:
    """The objects that a function, or an object with attributes, refers to; none of modules and classes."""
    if isinstance(x, ModuleType | type):
        return []
    found = [*x.args, *x.keywords.values(), x.func] if isinstance(x, partial) else []
    found += [each for each in (getattr(x, "__self__", None),) if each is not None]
    found += getattr(x, "__dict__", {}).values()
    try:
        variables = getclosurevars(x)
        found += [*variables.nonlocals.values(), *variables.globals.values()]
    except (TypeError, ValueError):  # it is no function of Python's, or a cell is empty still
        pass
    return found


def call_body(terms: Terms, blocks: Sequence[Any], grid: Any) -> tuple[Any, ...]:
    """The results of the body; with the grid, if it takes one.  Raises ShapeError if there are not as many."""
    options = {"grid": grid} if takes_grid(terms.body) else {}
    found = terms.body(*blocks, **options)
    results = (found,) if terms.returns_one else tuple(found) if isinstance(found, tuple | list) else (found,)
    if len(results) != len(terms.outs):
        n = len(terms.outs)
        raise ShapeError(f"manual: {terms.name} returns {len(results)} arrays; there are {n} out_shardings")
    return results


@dataclass(frozen=True)
class Followed:
    """A body that was followed on blocks without cells.  ``arguments`` and ``results``: values of ``tracer``."""

    tracer: BodyTracer
    arguments: tuple[Value, ...]
    results: tuple[Value, ...]

    @property
    def exchanges(self) -> list[Exchange]:
        """Its communications, on blocks that free axes do not cut."""
        return self.tracer.exchanges

    @property
    def parts(self) -> list[tuple[Shape, np.dtype]]:
        """Shapes and dtypes of the blocks that it returns."""
        return [(each.shape, each.dtype) for each in self.results]


def follow(terms: Terms, blocks: Sequence[tuple[Shape, np.dtype]], axes: tuple[int, ...]) -> Followed:
    """The operations of the body, its results, and its communications.  ``axes``: all that are manual."""
    tracer = BodyTracer(terms.grid, axes)
    if holds_grid(terms.body):
        tracer.needs_whole(f"{terms.name} has a ProcessGrid from outside, by which it may ask where it runs")
    with tracer:
        given = [tracer.argument(shape, dtype, f"block{i}") for i, (shape, dtype) in enumerate(blocks)]
        arguments = tuple([each.value for each in given])
        try:
            found = call_body(terms, given, AbstractGrid(tracer))
            for number, each in enumerate(found):
                if tracer.is_of_root(each):
                    raise ShardingError(
                        f"manual: result {number} of {terms.name} is on the root of a gather or a reduce alone;"
                        " broadcast or scatter it"
                    )
            operands = [tracer.operand("manual", each) for each in found]
            values = [
                tracer.constant(np.asarray(each.value)).value if isinstance(each, Constant) else each
                for each in operands
            ]
        except NoCells:
            raise _not_followed("it asks for cells") from None
    return Followed(tracer, arguments, tuple(values))
