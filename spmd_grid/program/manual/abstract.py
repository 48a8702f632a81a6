"""The body of a manual computation on blocks without cells: shapes of results, and the communications on the way.

The body is called once with arrays that have a shape and a dtype.  numpy's functions on them find shapes by the rules
of the table, and the engine's operations by the rules below; nothing is sent, and no device is special: coordinates
are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, NamedTuple, NoReturn

import numpy as np

from spmd_grid.errors import AxisError, ImplicitGatherError, OutputError, ShapeError, ShardingError
from spmd_grid.exchange.requests import Request
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.abstract import NoCells
from spmd_grid.ops.calls.arguments import as_scatter_axis, as_tensor_axis
from spmd_grid.program.ir import Constant, Value
from spmd_grid.program.manual.terms import Terms
from spmd_grid.program.partition.steps import Exchange
from spmd_grid.program.trace.traced_array import TracedArray
from spmd_grid.program.trace.tracer import Tracer, traced_site
from spmd_grid.reduction_kind import as_reduction, result_dtype
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["AbstractGrid", "BodyTracer", "call_body", "evaluate", "takes_grid"]


class ManualBlock(TracedArray):
    """Stands for a block of a manual computation."""

    __slots__ = ()

    @property
    def answers_operations(self) -> Callable[..., Any]:
        """The function that answers for the engine's operations on it."""
        tracer = self.tracer
        assert isinstance(tracer, BodyTracer)  # which has made it
        return tracer.answer

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise NoCells


class BodyTracer(Tracer):
    """Follows the body of a manual computation.  ``exchanges``: the communications that its devices take part in."""

    takes_annotations = False

    def __init__(self, grid: Grid, manual_axes: tuple[int, ...]):
        super().__init__(ManualBlock)
        self.grid = grid
        self.manual_axes = manual_axes
        self.exchanges: list[Exchange] = []
        self._of_root: set[Value] = set()

    def answer(self, name: str, x: Any, grid_axes: Any, args: tuple[Any, ...], out: Any) -> Any:
        """The result of one of the engine's operations.  Raises as the operation does."""
        found = _OPERATIONS.get(name)
        if found is None or out is not None:
            what = f"{name} with out=" if found is not None else name
            raise _not_followed(f"{what} gives other results on other devices, or writes into arrays")
        if x is None:
            raise _not_followed(f"{name} gets None on the device at {(0,) * self.grid.ndim}")
        axes = tuple(range(self.grid.ndim)) if grid_axes is None else self.grid.axes(grid_axes, f"{name}: grid_axes")
        self._check_manual(f"{name}: grid_axes", axes)
        x = x if isinstance(x, TracedArray) else np.asarray(x)
        if name not in _FROM_ROOT and self.is_of_root(x):
            raise ShardingError(
                f"{name}: its array is on the root of a gather or a reduce alone (at {traced_site()}); broadcast or"
                " scatter it first"
            )
        size = self.grid.grid_shape(axes) if axes else ()
        n = int(np.prod(size, dtype=np.int64))
        shape, dtype, received = found(name, x.shape, x.dtype, n, args)
        if received and n > 1:
            self.exchanges.append((name, axes, received))
        result = self.wrapped(shape, dtype)
        if name in _TO_ROOT:
            self._of_root.add(result.value)
        return result

    def is_of_root(self, x: Any) -> bool:
        """Whether an array follows from one that the root of an operation has alone."""
        if not self._of_root or not isinstance(x, TracedArray):
            return False
        found = set(self._of_root)
        for operation in self.operations:
            if not found.isdisjoint(operation.values):
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
        received = sum(
            sum(sharding.halo_of(d)) * _bytes(x.shape[:d] + x.shape[d + 1 :], x.dtype) for d in range(len(x.shape))
        )
        if received:
            self.exchanges.append(("update_halo", axes, received))
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
        if way == "start" and name in _OPERATIONS:
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
        self.coords: MultiIndex = (0,) * self.ndim
        self.own_coords, self.rank = self.coords, 0
        self.process = _AbstractProcess(_AbstractGate(tracer))

    @property
    def answers_operations(self) -> Callable[..., Any]:
        """The function that answers for the engine's operations on it."""
        return self._tracer.answer


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


def call_body(terms: Terms, blocks: Sequence[Any], grid: Any) -> tuple[Any, ...]:
    """The results of the body; with the grid, if it takes one.  Raises ShapeError if there are not as many."""
    options = {"grid": grid} if takes_grid(terms.body) else {}
    found = terms.body(*blocks, **options)
    results = (found,) if terms.returns_one else tuple(found) if isinstance(found, tuple | list) else (found,)
    if len(results) != len(terms.outs):
        n = len(terms.outs)
        raise ShapeError(f"manual: {terms.name} returns {len(results)} arrays; there are {n} out_shardings")
    return results


def evaluate(
    terms: Terms, blocks: Sequence[tuple[Shape, np.dtype]], axes: tuple[int, ...]
) -> tuple[list[tuple[Shape, np.dtype]], list[Exchange]]:
    """Shapes and dtypes of the blocks that the body returns, and its communications.  ``axes``: all that are manual."""
    tracer = BodyTracer(terms.grid, axes)
    with tracer:
        given = [tracer.argument(shape, dtype, f"block{i}") for i, (shape, dtype) in enumerate(blocks)]
        try:
            found = call_body(terms, given, AbstractGrid(tracer))
            operands = [tracer.operand("manual", each) for each in found]
        except NoCells:
            raise _not_followed("it asks for cells") from None
    for number, each in enumerate(found):
        if tracer.is_of_root(each):
            raise ShardingError(
                f"manual: result {number} of {terms.name} is on the root of a gather or a reduce alone; broadcast or"
                " scatter it"
            )
    made = []
    for each in operands:
        value = np.asarray(each.value) if isinstance(each, Constant) else each
        made.append((value.shape, value.dtype))
    return made, tracer.exchanges


# -- results of operations: shape, dtype, and bytes that a device receives at most ----------------------------------

_Answer = tuple[Shape, np.dtype, int]


def _bytes(shape: Shape, dtype: np.dtype) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def _scaled(shape: Shape, axis: int, up: int, down: int, name: str, what: str) -> Shape:
    """``shape`` with the extent of a dimension multiplied and divided."""
    if axis >= len(shape):
        raise AxisError(f"{name}: {what}={axis}; the array has {len(shape)} dimensions (at {traced_site()})")
    if shape[axis] % down:
        raise ShapeError(
            f"{name}: {what}={axis} has extent {shape[axis]}, which {down} devices do not divide evenly: in a manual"
            f" computation blocks are even (at {traced_site()})"
        )
    return tuple([n * up // down if d == axis else n for d, n in enumerate(shape)])


def _all_gather(name: str, shape: Shape, dtype: np.dtype, n: int, args: tuple[Any, ...]) -> _Answer:
    axis, extents = args
    axis = as_tensor_axis(name, "gather_axis", axis)
    gathered = _scaled(shape, axis, n, 1, name, "gather_axis")
    if extents is not None:
        gathered = tuple([sum(extents) if d == axis else size for d, size in enumerate(shape)])
    return gathered, dtype, _bytes(gathered, dtype) - _bytes(shape, dtype)


def _all_slice(name: str, shape: Shape, dtype: np.dtype, n: int, args: tuple[Any, ...]) -> _Answer:
    return _scaled(shape, as_tensor_axis(name, "slice_axis", args[0]), 1, n, name, "slice_axis"), dtype, 0


def _all_to_all(name: str, shape: Shape, dtype: np.dtype, n: int, args: tuple[Any, ...]) -> _Answer:
    split, concat = (as_tensor_axis(name, what, axis) for what, axis in zip(("split_axis", "concat_axis"), args))
    found = _scaled(_scaled(shape, split, 1, n, name, "split_axis"), concat, n, 1, name, "concat_axis")
    return found, dtype, _bytes(shape, dtype) * (n - 1) // n


def _gather(name: str, shape: Shape, dtype: np.dtype, n: int, args: tuple[Any, ...]) -> _Answer:
    axis, _, extents = args
    return _all_gather(name, shape, dtype, n, (axis, extents))


def _scatter(name: str, shape: Shape, dtype: np.dtype, n: int, args: tuple[Any, ...]) -> _Answer:
    axis, other, _ = args
    found = _scaled(shape, as_scatter_axis(name, axis, other), 1, n, name, "scatter_axis")
    return found, dtype, _bytes(found, dtype)


def _reduced(reduction: Any, dtype: np.dtype, requested: Any) -> np.dtype:
    return result_dtype(as_reduction(reduction), dtype, None if requested is None else np.dtype(requested))


def _all_reduce(name: str, shape: Shape, dtype: np.dtype, n: int, args: tuple[Any, ...]) -> _Answer:
    dtype = _reduced(args[0], dtype, args[1])
    return shape, dtype, 2 * _bytes(shape, dtype) * (n - 1) // n


def _reduce(name: str, shape: Shape, dtype: np.dtype, n: int, args: tuple[Any, ...]) -> _Answer:
    reduction, _, requested = args
    dtype = _reduced(reduction, dtype, requested)
    return shape, dtype, 2 * _bytes(shape, dtype) * (n - 1) // n


def _reduce_scatter(name: str, shape: Shape, dtype: np.dtype, n: int, args: tuple[Any, ...]) -> _Answer:
    reduction, axis, other, requested = args
    dtype = _reduced(reduction, dtype, requested)
    axis = as_scatter_axis(name, axis, other)
    return _scaled(shape, axis, 1, n, name, "scatter_axis"), dtype, _bytes(shape, dtype) * (n - 1) // n


def _same(name: str, shape: Shape, dtype: np.dtype, n: int, args: tuple[Any, ...]) -> _Answer:
    return shape, dtype, _bytes(shape, dtype)


_OPERATIONS: dict[str, Callable[..., _Answer]] = {
    "all_gather": _all_gather,
    "all_slice": _all_slice,
    "all_to_all": _all_to_all,
    "all_reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
    "broadcast": _same,
    "shift": _same,
    "gather": _gather,
    "reduce": _reduce,
    "scatter": _scatter,
}
_TO_ROOT = "gather", "reduce"  # the root alone gets a result: the body is followed as on the root
_FROM_ROOT = "scatter", "broadcast"
