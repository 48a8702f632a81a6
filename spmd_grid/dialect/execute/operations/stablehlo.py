"""stablehlo, and mhlo of the RFC: the operations of multilayer perceptrons and transformer blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation

from spmd_grid.dialect.execute.operations.linalg.named import combined_with, multiplied
from spmd_grid.dialect.execute.operations.scalars import cast, quotient
from spmd_grid.dialect.execute.operations.tosa import sigmoid
from spmd_grid.dialect.execute.reading import attribute, dtype_of, integer, integers, name_of, shape_of, text_of
from spmd_grid.dialect.execute.table import Runner, cell_by_cell, handles
from spmd_grid.errors import ShapeError
from spmd_grid.program.trace.tracer import current_tracer

_CELL_BY_CELL: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": quotient,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": np.power,
    "remainder": np.fmod,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "abs": np.abs,
    "atan2": np.arctan2,
    "ceil": np.ceil,
    "cosine": np.cos,
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log_plus_one": np.log1p,
    "logistic": sigmoid,
    "negate": np.negative,
    "rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x),
    "sign": np.sign,
    "sine": np.sin,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "select": np.where,
}


cell_by_cell({f"stablehlo.{name}": function for name, function in _CELL_BY_CELL.items()})


@handles("stablehlo.clamp")
def _clamp(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    low, x, high = operands
    return np.minimum(np.maximum(x, low), high)


_COMPARISONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


@handles("stablehlo.compare")
def _compare(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    found = re.search(r"\b(EQ|NE|LT|LE|GT|GE)\b", _text(attribute(op, "comparison_direction")))
    if found is None:
        raise ShapeError("attribute comparison_direction is missing; it must be one of EQ, NE, LT, LE, GT, GE")
    return _COMPARISONS[found[1]](*runner.thin(operands))


def _text(found: Attribute | None) -> str:
    return text_of(found) if found is not None and hasattr(found, "data") else str(found)


@handles("stablehlo.convert")
def _convert(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return cast(operands[0], dtype_of(op.results[0].type))


@handles("stablehlo.reshape")
def _reshape(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return np.reshape(operands[0], _static(op))


def _static(op: Operation) -> tuple[int, ...]:
    shape = shape_of(op.results[0].type)
    if None in shape:
        raise ShapeError(f"the result has type {op.results[0].type}; its extents must be known")
    return tuple([n for n in shape if n is not None])


@handles("stablehlo.transpose")
def _transpose(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return np.transpose(operands[0], integers(op, "permutation"))


@handles("stablehlo.broadcast_in_dim")
def _broadcast_in_dim(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, shape = operands[0], _static(op)
    dims = integers(op, "broadcast_dimensions", "dims")
    if len(dims) != len(x.shape):
        raise ShapeError(f"broadcast_dimensions is {list(dims)}; the operand has {len(x.shape)} dimensions")
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    x = np.transpose(x, order) if order != sorted(order) else x
    missing = tuple([d for d in range(len(shape)) if d not in dims])
    return np.broadcast_to(np.expand_dims(x, missing) if missing else x, shape)


@handles("stablehlo.iota")
def _iota(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    shape, d = _static(op), integer(op, "iota_dimension")
    counted = np.arange(shape[d]).reshape(tuple([n if i == d else 1 for i, n in enumerate(shape)]))
    return np.broadcast_to(counted.astype(dtype_of(op.results[0].type)), shape)


@handles("stablehlo.concatenate")
def _concatenate(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return np.concatenate(list(operands), integer(op, "dimension"))


@handles("stablehlo.slice")
def _slice(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    parts = [integers(op, name) for name in ("start_indices", "limit_indices", "strides")]
    return operands[0][tuple([slice(*each) for each in zip(*parts, strict=True)])]


@handles("stablehlo.dynamic_slice")
def _dynamic_slice(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, *starts = operands
    return x[_box(op, x, starts, integers(op, "slice_sizes"))]


@handles("stablehlo.dynamic_update_slice")
def _dynamic_update(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, part, *starts = operands
    found = np.copy(x)
    found[_box(op, x, starts, part.shape)] = part
    return found


def _box(op: Operation, x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> tuple[slice, ...]:
    """The cells of a slice that begins at values, moved to where it lies inside."""
    if not all(isinstance(each, np.ndarray | np.generic) for each in starts):
        raise ShapeError("where the slice starts depends on cells, which a function that is partitioned does not have")
    low = [min(max(int(each), 0), n - size) for each, n, size in zip(starts, x.shape, sizes, strict=True)]
    return tuple([slice(start, start + size) for start, size in zip(low, sizes)])


@handles("stablehlo.pad")
def _pad(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, number = operands
    filled = np.broadcast_to(number, _static(op)).copy()
    found = current_tracer("stablehlo.pad").constant(filled) if runner.is_tracing else filled
    into, out = [], []
    for n, size, low, between in zip(
        x.shape, filled.shape, integers(op, "edge_padding_low"), integers(op, "interior_padding")
    ):
        step = between + 1
        first, last = max(0, -(low // step)), min(n, (size - 1 - low) // step + 1)  # those that lie inside
        begin = low + first * step
        out.append(slice(first, max(first, last)))
        into.append(slice(begin, begin + (last - first - 1) * step + 1, step) if first < last else slice(0, 0))
    found[tuple(into)] = x[tuple(out)]
    return found


@handles("stablehlo.reverse")
def _reverse(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return np.flip(operands[0], integers(op, "dimensions"))


@handles("stablehlo.dot_general")
def _dot_general(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    a, b = operands
    batch_a, batch_b, sums_a, sums_b = _dot_dimensions(op)
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    first: dict[int, str] = {}
    second: dict[int, str] = {}
    for i, j in [*zip(batch_a, batch_b, strict=True), *zip(sums_a, sums_b, strict=True)]:
        first[i] = second[j] = next(letters)
    for dims, x in ((first, a), (second, b)):
        for d in range(len(x.shape)):
            if d not in dims:
                dims[d] = next(letters)
    texts = ["".join(dims[d] for d in range(len(x.shape))) for dims, x in ((first, a), (second, b))]
    rest = [
        text[d]
        for text, taken in zip(texts, ((*batch_a, *sums_a), (*batch_b, *sums_b)))
        for d in range(len(text))
        if d not in taken
    ]
    dtype = dtype_of(op.results[0].type)
    subscripts = f"{','.join(texts)}->{''.join([first[d] for d in batch_a])}{''.join(rest)}"
    return cast(multiplied(subscripts, cast(a, dtype), cast(b, dtype)), dtype)


def _dot_dimensions(op: Operation) -> list[tuple[int, ...]]:
    """The dimensions of batches and sums of both operands, whatever form the attribute has."""
    names = [f"{side}_{kind}_dimensions" for kind in ("batching", "contracting") for side in ("lhs", "rhs")]
    whole = attribute(op, "dot_dimension_numbers", "dot_dimensions")
    if whole is None:
        return [integers(op, name) for name in names]
    text = str(whole)
    found = []
    for name in names:
        numbers = re.search(rf"{name}\s*=\s*\[([\d,\s]*)\]", text)
        found.append(tuple([int(n) for n in re.findall(r"\d+", numbers[1])]) if numbers else ())
    return found


@handles("stablehlo.reduce")
def _reduce(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    if len(operands) != 2:
        raise ShapeError(f"there are {len(operands) // 2} arrays; one is reduced at a time")
    x, init = operands
    combiner = next((each for each in op.regions[0].block.ops), None)
    name = "" if combiner is None else name_of(combiner)
    try:
        return combined_with(name, x, integers(op, "dimensions"), init)
    except KeyError:
        raise ShapeError(f"the body combines by {name}; it must be add, multiply, maximum or minimum") from None
