"""The engine's operations in bodies without cells: shapes of results, bytes, and their place in a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from spmd_grid.compute.splits import Splits
from spmd_grid.errors import AxisError, ShapeError
from spmd_grid.functions.interface import PARALLEL, WHOLE, Interface, Iterator
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.update_halo import update_halo
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.ops.all_slice import all_slice
from spmd_grid.ops.all_to_all import all_to_all
from spmd_grid.ops.broadcast import broadcast
from spmd_grid.ops.calls.arguments import as_scatter_axis, as_tensor_axis
from spmd_grid.ops.reduce_scatter import reduce_scatter
from spmd_grid.ops.shift import shift
from spmd_grid.program.ir import Operation
from spmd_grid.program.partition.builder import Builder
from spmd_grid.program.partition.steps import LocalOperand, LocalValue
from spmd_grid.program.trace.tracer import traced_site
from spmd_grid.reduction_kind import as_reduction, result_dtype
from spmd_grid.typing import Shape

__all__ = ["FROM_ROOT", "TO_ROOT", "Communicate", "HaloUpdate", "answer_to", "halo_bytes", "interface_of"]

_Answer = tuple[Shape, np.dtype, int]  # shape, dtype, and bytes that a device receives at most
TO_ROOT = "gather", "reduce"  # the root alone gets a result: a body is followed as on the root
FROM_ROOT = "scatter", "broadcast"


def answer_to(name: str) -> Callable[..., _Answer] | None:
    """A function of (name, shape and dtype of x, group size, arguments) that describes the result of an operation."""
    return _OPERATIONS.get(name)


def interface_of(name: str, args: tuple[Any, ...], shape: Shape, result: Shape) -> Interface | None:
    """The iterators of an operation: dimensions that it cuts or joins must be whole.

    None for operations that give other results, or none, on some devices: the group's root, and borders.
    """
    if name in TO_ROOT or name == "scatter" or (name == "shift" and not args[2] and args[3] is None):
        return None
    whole: set[int] = set()
    if name in ("all_gather", "all_slice"):
        whole = {as_tensor_axis(name, "axis", args[0])}
    elif name == "all_to_all":
        whole = {as_tensor_axis(name, "axis", axis) for axis in args[:2]}
    elif name in ("all_reduce", "reduce_scatter") and callable(args[0]):
        whole = set(range(len(shape)))
    elif name == "reduce_scatter":
        whole = {as_scatter_axis(name, args[1], args[2])}
    return _apart_from(whole, shape, result)


def _apart_from(whole: set[int], shape: Shape, result: Shape) -> Interface:
    dims = range(len(shape))
    iterators = [Iterator(n, WHOLE if d in whole else PARALLEL) for d, n in enumerate(shape)]
    iterators += [Iterator(result[d], WHOLE) for d in sorted(whole)]
    own = {d: len(shape) + number for number, d in enumerate(sorted(whole))}
    return Interface(tuple(iterators), (tuple(dims),), (tuple([own.get(d, d) for d in dims]),))


@dataclass(frozen=True, eq=False)
class Communicate:
    """An operation along manual axes on the blocks of a body, which other axes may cut further."""

    name: str
    grid_axes: tuple[int, ...]
    args: tuple[Any, ...]

    def lower(
        self, build: Builder, operation: Operation, operands: Sequence[LocalOperand], splits: Splits
    ) -> list[LocalValue]:
        """One step, collective over the manual axes."""
        x, result = _moved(build, operation, operands, splits)
        n = prod(build.grid.shape[axis] for axis in self.grid_axes)
        first = x.layout.local_shape((0,) * build.grid.ndim)
        received = _OPERATIONS[self.name](self.name, first, x.dtype, n, self.args)[2]
        call = partial(_CALLS[self.name], grid_axes=self.grid_axes, args=self.args)

        def bind(grid: ProcessGrid) -> Callable[..., Any]:
            return lambda block: call(block, grid)

        exchanges = [(self.name, self.grid_axes, received)] if received and n > 1 else []
        build.call(operation, bind, [x], [result], None, exchanges)
        return [result]


@dataclass(frozen=True, eq=False)
class HaloUpdate:
    """``update_halo`` of the blocks of a body; the result is another array, since blocks are values."""

    sharding: Sharding
    arguments: tuple[Any, ...]

    def interface(self, shape: Shape) -> Interface:
        """The iterators: dimensions with halos must be whole."""
        return _apart_from(set(self.sharding.sharded_dims), shape, shape)

    def lower(
        self, build: Builder, operation: Operation, operands: Sequence[LocalOperand], splits: Splits
    ) -> list[LocalValue]:
        """One step, collective over the manual axes."""
        x, result = _moved(build, operation, operands, splits)
        received = halo_bytes(self.sharding, x.layout.local_shape((0,) * build.grid.ndim), x.dtype)
        arguments = self.arguments

        def bind(grid: ProcessGrid) -> Callable[..., Any]:
            return lambda block: update_halo(np.array(block, order="C"), grid, *arguments)

        axes = tuple([axis for cut in self.sharding.split_axes for axis in cut])
        build.call(operation, bind, [x], [result], None, [("update_halo", axes, received)] if received else [])
        return [result]


def halo_bytes(sharding: Sharding, shape: Shape, dtype: np.dtype) -> int:
    """The bytes that a device receives at most when the halos of its block, of this shape, are updated."""
    return sum(sum(sharding.halo_of(d)) * _bytes(shape[:d] + shape[d + 1 :], dtype) for d in range(len(shape)))


def _moved(
    build: Builder, operation: Operation, operands: Sequence[LocalOperand], splits: Splits
) -> tuple[LocalValue, LocalValue]:
    (x,), (value,), interface = operands, operation.results, operation.interface
    assert isinstance(x, LocalValue)  # constants have become values
    x = build.move(x, splits.sharding(interface.operands[0]), f"{operation.name} takes it so")
    return x, LocalValue(value, value.shape, value.dtype, splits.sharding(interface.results[0]))


# -- results of operations -----------------------------------------------------------------------------------------


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

# The call of each operation; ``args`` are those of its record, in their order.
_CALLS: dict[str, Callable[..., Any]] = {
    "all_gather": lambda x, grid, grid_axes, args: all_gather(x, grid, grid_axes, args[0], extents=args[1]),
    "all_slice": lambda x, grid, grid_axes, args: all_slice(x, grid, grid_axes, args[0]),
    "all_to_all": lambda x, grid, grid_axes, args: all_to_all(x, grid, grid_axes, *args[:2], extents=args[2]),
    "all_reduce": lambda x, grid, grid_axes, args: all_reduce(x, grid, grid_axes, *args),
    "reduce_scatter": lambda x, grid, grid_axes, args: reduce_scatter(
        x, grid, grid_axes, args[0], args[1], args[3], scatter_dim=args[2]
    ),
    "broadcast": lambda x, grid, grid_axes, args: broadcast(x, grid, grid_axes, args[0]),
    "shift": lambda x, grid, grid_axes, args: shift(x, grid, grid_axes, *args[:4]),
}
