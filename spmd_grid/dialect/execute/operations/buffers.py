"""memref and bufferization: buffers, which operations write to in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from spmd_grid.dialect.execute.operations.tensors import extents, sliced_box
from spmd_grid.dialect.execute.reading import dtype_of
from spmd_grid.dialect.execute.table import Runner, handles
from spmd_grid.errors import ShapeError


@handles("memref.alloc", "memref.alloca")
def _alloc(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return np.zeros(extents(op, operands), dtype_of(op.results[0].type))


@handles("memref.dealloc")
def _dealloc(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return None


def _index(x: Any, numbers: Sequence[Any]) -> tuple[int, ...]:
    found = tuple([int(n) for n in numbers])
    if len(found) != x.ndim or any(not 0 <= i < n for i, n in zip(found, x.shape)):
        raise ShapeError(f"the index is {found}; the buffer has shape {x.shape}")
    return found


@handles("memref.load")
def _load(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, *numbers = operands
    return x[_index(x, numbers)]


@handles("memref.store")
def _store(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    number, x, *numbers = operands
    x[_index(x, numbers)] = number


@handles("memref.copy")
def _copy(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    source, target = operands
    if source.shape != target.shape:
        raise ShapeError(f"the source has shape {source.shape}; the target has {target.shape}")
    target[...] = source


@handles("memref.cast")
def _cast(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return operands[0]


@handles("memref.subview")
def _subview(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, *dynamic = operands
    slices, _ = sliced_box(op, x.shape, dynamic)
    return x[slices]


@handles("bufferization.to_tensor")
def _to_tensor(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return np.copy(operands[0])


@handles("bufferization.to_buffer")
def _to_buffer(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return np.array(operands[0])


@handles("bufferization.materialize_in_destination")
def _materialize(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    if not op.results:
        operands[1][...] = operands[0]
        return None
    return operands[0]
