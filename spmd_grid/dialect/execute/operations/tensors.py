"""tensor: arrays as values; an operation never writes to its operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Operation

from spmd_grid.dialect.execute.reading import (
    dtype_of,
    integer,
    integers,
    mixed,
    name_of,
    shape_of,
)
from spmd_grid.dialect.execute.table import Runner, handles
from spmd_grid.dialect.execute.values import repeated
from spmd_grid.errors import ShapeError

__all__ = ["sliced_box", "extents"]


def extents(op: Operation, dynamic: Sequence[Any], number: int = 0) -> tuple[int, ...]:
    """The shape of a result, whose unknown extents are operands in order.  Raises ShapeError."""
    sizes: Iterator[Any] = iter(dynamic)
    found = tuple([int(next(sizes)) if n is None else n for n in shape_of(op.results[number].type)])
    if min(found, default=0) < 0:
        raise ShapeError(f"the shape is {found}; extents must be at least 0")
    return found


def sliced_box(
    op: Operation, shape: Sequence[int], dynamic: Sequence[Any]
) -> tuple[tuple[slice, ...], tuple[int, ...]]:
    """The slices that offsets, sizes and strides name, and the sizes.  Raises ShapeError where they leave the array."""
    given = iter(dynamic)
    offsets, sizes, strides = (mixed(integers(op, f"static_{name}"), given) for name in ("offsets", "sizes", "strides"))
    if not len(offsets) == len(sizes) == len(strides) == len(shape):
        raise ShapeError(f"there are {len(offsets)} offsets for an array of {len(shape)} dimensions")
    slices = []
    for dim, (start, n, step, extent) in enumerate(zip(offsets, sizes, strides, shape)):
        last = start + (n - 1) * step
        if n < 0 or (n and not (0 <= start < extent and 0 <= last < extent)) or step == 0:
            raise ShapeError(
                f"dimension {dim} has extent {extent}; offset {start}, size {n} and stride {step} lead out of it"
            )
        stop = last + (1 if step > 0 else -1)
        slices.append(slice(start, stop if stop >= 0 else None, step) if n else slice(0, 0))
    return tuple(slices), tuple(sizes)


def _without_ones(sizes: Sequence[int], due: Sequence[int | None]) -> tuple[int, ...]:
    """The sizes without extents of 1 that the result does not have, those that its type lacks first."""
    left = len(sizes) - len(due)
    kept, at = [], 0
    for n in sizes:
        fits = at < len(due) and due[at] in (None, n)
        if n == 1 and left and not (fits and due[at] == 1):
            left -= 1
        else:
            kept.append(n)
            at += 1
    while left and 1 in kept:
        kept.remove(1)
        left -= 1
    return tuple(kept)


@handles("tensor.empty")
def _empty(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return repeated(0, extents(op, operands), dtype_of(op.results[0].type))


@handles("tensor.splat")
def _splat(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    number, *sizes = operands
    shape = extents(op, sizes)
    if isinstance(number, np.ndarray | np.generic):
        return repeated(number, shape, dtype_of(op.results[0].type))
    return np.broadcast_to(number, shape)


@handles("tensor.from_elements")
def _from_elements(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    kind = op.results[0].type
    return np.array(operands, dtype_of(kind)).reshape(extents(op, ()))


def _index(op: Operation, shape: Sequence[int], numbers: Sequence[Any]) -> tuple[int, ...]:
    found = tuple([int(n) for n in numbers])
    if len(found) != len(shape) or any(not 0 <= i < n for i, n in zip(found, shape)):
        raise ShapeError(f"the index is {found}; the array has shape {tuple(shape)}")
    return found


@handles("tensor.extract")
def _extract(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, *numbers = operands
    return x[_index(op, x.shape, numbers)]


@handles("tensor.insert")
def _insert(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    number, x, *numbers = operands
    found = x.copy() if isinstance(x, np.ndarray) else np.copy(x)
    found[_index(op, x.shape, numbers)] = number
    return found


@handles("tensor.dim", "memref.dim")
def _dim(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, number = operands
    if not 0 <= int(number) < len(x.shape):
        raise ShapeError(f"the dimension is {int(number)}; the array has {len(x.shape)}")
    return np.int64(x.shape[int(number)])


@handles("tensor.cast")
def _cast(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return operands[0]


@handles("tensor.extract_slice")
def _extract_slice(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, *dynamic = operands
    slices, sizes = sliced_box(op, x.shape, dynamic)
    found = x[slices]
    kept = _without_ones(sizes, shape_of(op.results[0].type))
    return found if kept == sizes else np.reshape(found, kept)


@handles("tensor.insert_slice")
def _insert_slice(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    piece, x, *dynamic = operands
    slices, sizes = sliced_box(op, x.shape, dynamic)
    if prod(piece.shape) != prod(sizes):
        raise ShapeError(f"the source has shape {piece.shape}; the sizes are {sizes}")
    if runner.is_tracing and not isinstance(piece, np.ndarray) and isinstance(x, np.ndarray):
        x = piece.tracer.constant(np.array(x))
    found = np.copy(x)
    found[slices] = piece if piece.shape == sizes else np.reshape(piece, sizes)
    return found


@handles("tensor.reshape")
def _reshape(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, shape = operands
    return np.reshape(x, tuple([int(n) for n in shape]))


@handles("tensor.collapse_shape", "memref.collapse_shape", "tensor.expand_shape", "memref.expand_shape")
def _regroup(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, *sizes = operands
    groups = _groups(op)
    due = shape_of(op.results[0].type)
    if name_of(op).endswith("collapse_shape"):
        return np.reshape(x, tuple([prod([x.shape[d] for d in group]) for group in groups]))
    static = integers(op, "static_output_shape")
    if static and sizes:
        return np.reshape(x, mixed(static, iter(sizes)))
    shape: list[int] = [0] * len(due)
    for dim, group in enumerate(groups):
        known = prod([n for n in (due[d] for d in group) if n is not None])
        for d in group:
            n = due[d]
            shape[d] = (x.shape[dim] // known if known else 0) if n is None else n
    return np.reshape(x, tuple(shape))


def _groups(op: Operation) -> list[tuple[int, ...]]:
    found: Any = op.properties.get("reassociation", op.attributes.get("reassociation"))
    if found is None:
        raise ShapeError("attribute reassociation is missing")
    return [tuple([int(n.value.data) for n in group]) for group in found]


@handles("tensor.concat")
def _concat(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return np.concatenate(list(operands), integer(op, "dim"))


@handles("tensor.pad")
def _pad(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, *dynamic = operands
    given = iter(dynamic)
    low, high = (mixed(integers(op, f"static_{side}"), given) for side in ("low", "high"))
    block = op.regions[0].block
    number = runner.run_block(block, [np.int64(0)] * len(block.args))[0]
    shape = tuple([n + before + after for n, before, after in zip(x.shape, low, high, strict=True)])
    filled = np.full(shape, number, x.dtype)
    found = filled if isinstance(x, np.ndarray) else x.tracer.constant(filled)
    found[tuple([slice(before, before + n) for n, before in zip(x.shape, low)])] = x
    return found
