"""Elementwise functions of the array API: numpy's under the standard's names, with the standard's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.array_api.arrays import as_operands, as_result, as_sharded

__all__ = [
    *("abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert"),
    *("bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign"),
    *("cos", "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot"),
    *("imag", "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp"),
    *("logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative"),
    *("nextafter", "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit"),
    *("sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc"),
]


def _of_one(function: Callable[..., Any], name: str | None = None) -> Callable[..., ShardedArray]:
    """The standard's function of one array that is numpy's ``function``."""
    own_name = function.__name__ if name is None else name

    def call(x: ShardedArray, /) -> ShardedArray:
        operand = as_sharded(own_name, x)
        return as_result(function(operand), operand)

    return _named(call, own_name, function)


def _of_two(function: Callable[..., Any], name: str | None = None) -> Callable[..., ShardedArray]:
    """The standard's function of two arrays, or an array and a number, that is numpy's ``function``."""
    own_name = function.__name__ if name is None else name

    def call(x1: ShardedArray | complex, x2: ShardedArray | complex, /) -> ShardedArray:
        first, second = as_operands(own_name, x1, x2)
        like = first if isinstance(first, ShardedArray) else second
        return as_result(function(first, second), like)

    return _named(call, own_name, function)


def _named(call: Callable[..., ShardedArray], name: str, function: Callable[..., Any]) -> Callable[..., ShardedArray]:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"As np.{function.__name__}, cell by cell.  Collective."
    return call


def _rounding(function: np.ufunc) -> Callable[..., ShardedArray]:
    """A function that leaves whole numbers, and their dtype, as they are; numpy 2.0 makes floats of them."""

    def rounded(x: ShardedArray) -> Any:
        return np.positive(x) if x.dtype.kind in "iu" else function(x)

    rounded.__name__ = function.__name__
    return _of_one(rounded)


abs = _of_one(np.abs, "abs")
acos = _of_one(np.arccos, "acos")
acosh = _of_one(np.arccosh, "acosh")
asin = _of_one(np.arcsin, "asin")
asinh = _of_one(np.arcsinh, "asinh")
atan = _of_one(np.arctan, "atan")
atanh = _of_one(np.arctanh, "atanh")
bitwise_invert = _of_one(np.invert, "bitwise_invert")
ceil = _rounding(np.ceil)
conj = _of_one(np.conjugate, "conj")
cos = _of_one(np.cos)
cosh = _of_one(np.cosh)
exp = _of_one(np.exp)
expm1 = _of_one(np.expm1)
floor = _rounding(np.floor)
imag = _of_one(np.imag)
isfinite = _of_one(np.isfinite)
isinf = _of_one(np.isinf)
isnan = _of_one(np.isnan)
log = _of_one(np.log)
log10 = _of_one(np.log10)
log1p = _of_one(np.log1p)
log2 = _of_one(np.log2)
logical_not = _of_one(np.logical_not)
negative = _of_one(np.negative)
positive = _of_one(np.positive)
real = _of_one(np.real)
reciprocal = _of_one(np.reciprocal)
round = _of_one(np.round)
sign = _of_one(np.sign)
signbit = _of_one(np.signbit)
sin = _of_one(np.sin)
sinh = _of_one(np.sinh)
sqrt = _of_one(np.sqrt)
square = _of_one(np.square)
tan = _of_one(np.tan)
tanh = _of_one(np.tanh)
trunc = _rounding(np.trunc)

add = _of_two(np.add)
atan2 = _of_two(np.arctan2, "atan2")
bitwise_and = _of_two(np.bitwise_and)
bitwise_left_shift = _of_two(np.left_shift, "bitwise_left_shift")
bitwise_or = _of_two(np.bitwise_or)
bitwise_right_shift = _of_two(np.right_shift, "bitwise_right_shift")
bitwise_xor = _of_two(np.bitwise_xor)
copysign = _of_two(np.copysign)
divide = _of_two(np.true_divide, "divide")
equal = _of_two(np.equal)
floor_divide = _of_two(np.floor_divide)
greater = _of_two(np.greater)
greater_equal = _of_two(np.greater_equal)
hypot = _of_two(np.hypot)
less = _of_two(np.less)
less_equal = _of_two(np.less_equal)
logaddexp = _of_two(np.logaddexp)
logical_and = _of_two(np.logical_and)
logical_or = _of_two(np.logical_or)
logical_xor = _of_two(np.logical_xor)
maximum = _of_two(np.maximum)
minimum = _of_two(np.minimum)
multiply = _of_two(np.multiply)
nextafter = _of_two(np.nextafter)
not_equal = _of_two(np.not_equal)
pow = _of_two(np.power, "pow")
remainder = _of_two(np.remainder)
subtract = _of_two(np.subtract)


def clip(x: ShardedArray, /, min: Any = None, max: Any = None) -> ShardedArray:
    """As np.clip, cell by cell; bounds are numbers or arrays.  Collective."""
    operand = as_sharded("clip", x)
    for bound in (min, max):
        as_operands("clip", operand, 0 if bound is None else bound)
    return as_result(np.clip(operand, min, max), operand)
