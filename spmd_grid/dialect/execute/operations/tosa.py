"""tosa: the operations of multilayer perceptrons and transformer blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from spmd_grid.dialect.execute.operations.scalars import cast, quotient
from spmd_grid.dialect.execute.reading import attribute, dtype_of, integer, integers, name_of, scalar_of
from spmd_grid.dialect.execute.table import Runner, cell_by_cell, handles
from spmd_grid.errors import ShapeError
from spmd_grid.functions.elementwise import erf
from spmd_grid.functions.table import call

__all__ = ["FIRST_POINTS", "sigmoid"]


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)) of each cell."""
    one = x.dtype.type(1)
    return one / (one + np.exp(-x))


cell_by_cell(
    {
        "tosa.add": np.add,
        "tosa.sub": np.subtract,
        "tosa.maximum": np.maximum,
        "tosa.minimum": np.minimum,
        "tosa.pow": np.power,
        "tosa.intdiv": quotient,
        "tosa.abs": np.abs,
        "tosa.ceil": np.ceil,
        "tosa.cos": np.cos,
        "tosa.erf": lambda x: call(erf, x),
        "tosa.exp": np.exp,
        "tosa.floor": np.floor,
        "tosa.log": np.log,
        "tosa.reciprocal": lambda x: x.dtype.type(1) / x,
        "tosa.rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x),
        "tosa.sigmoid": sigmoid,
        "tosa.sin": np.sin,
        "tosa.tanh": np.tanh,
        "tosa.equal": np.equal,
        "tosa.greater": np.greater,
        "tosa.greater_equal": np.greater_equal,
        "tosa.logical_and": np.logical_and,
        "tosa.logical_not": np.logical_not,
        "tosa.logical_or": np.logical_or,
        "tosa.logical_xor": np.logical_xor,
        "tosa.bitwise_and": np.bitwise_and,
        "tosa.bitwise_or": np.bitwise_or,
        "tosa.bitwise_xor": np.bitwise_xor,
        "tosa.bitwise_not": np.invert,
        "tosa.select": np.where,
    }
)


# The operands before the zero points, and before the shift of a product: these must be 0, and known.
FIRST_POINTS = {"tosa.negate": 1, "tosa.mul": 2, "tosa.matmul": 2}


def _zero_points(op: Operation, operands: Sequence[Any]) -> None:
    for each in operands[FIRST_POINTS[name_of(op)] :]:
        if not isinstance(each, np.ndarray) or np.any(each):
            raise ShapeError("a zero point is not 0; quantised arithmetic is not executed")


@handles("tosa.negate")
def _negate(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    _zero_points(op, operands)
    return np.negative(operands[0])


@handles("tosa.mul")
def _mul(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    _zero_points(op, operands)
    return np.multiply(*runner.thin(operands[:2]))


@handles("tosa.clamp")
def _clamp(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x = operands[0]
    low, high = attribute(op, "min_val", "min_fp"), attribute(op, "max_val", "max_fp")
    if low is None or high is None:
        raise ShapeError("attributes min_val and max_val are missing")
    return np.minimum(np.maximum(x, x.dtype.type(scalar_of(low))), x.dtype.type(scalar_of(high)))


@handles("tosa.cast")
def _cast(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    dtype = dtype_of(op.results[0].type)
    x = operands[0]
    return cast(np.rint(x) if x.dtype.kind == "f" and dtype.kind in "iu" else x, dtype)


@handles("tosa.matmul")
def _matmul(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    a, b = operands[:2]
    _zero_points(op, operands)
    dtype = dtype_of(op.results[0].type)
    return np.matmul(cast(a, dtype), cast(b, dtype))


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "product": np.prod,
    "max": np.max,
    "min": np.min,
    "any": np.any,
    "all": np.all,
}


@handles(*[f"tosa.reduce_{name}" for name in _REDUCTIONS])
def _reduce(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    function = _REDUCTIONS[name_of(op).rpartition("_")[2]]
    x = operands[0]
    return cast(function(x, axis=integer(op, "axis"), keepdims=True), x.dtype)


@handles("tosa.transpose")
def _transpose(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    axes = integers(op, "perms") or tuple([int(n) for n in operands[1]])
    return np.transpose(operands[0], axes)


@handles("tosa.reshape")
def _reshape(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    shape = integers(op, "new_shape") or tuple([int(n) for n in operands[1]])
    return np.reshape(operands[0], shape)


@handles("tosa.const_shape")
def _const_shape(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return np.array(integers(op, "values", "value"), np.int64)


@handles("tosa.concat")
def _concat(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return np.concatenate(list(operands), integer(op, "axis"))


@handles("tosa.reverse")
def _reverse(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return np.flip(operands[0], integer(op, "axis"))


@handles("tosa.identity")
def _identity(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return list(operands)
