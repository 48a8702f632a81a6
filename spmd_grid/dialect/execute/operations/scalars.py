"""arith and math: on numbers, and cell by cell on arrays.

Integers are signless in the text: operations that mean unsigned ones say so, and convert on the way in and out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation

from spmd_grid.dialect.execute.reading import attribute, cells_of, dtype_of, is_shaped, name_of, scalar_of, shape_of
from spmd_grid.dialect.execute.table import Runner, cell_by_cell, handles
from spmd_grid.errors import ShapeError
from spmd_grid.functions.elementwise import erf
from spmd_grid.functions.table import call
from spmd_grid.program.text.calls import CONSTANT

__all__ = ["cast", "quotient"]


def cast(x: Any, dtype: np.dtype) -> Any:
    """``x`` in another element type; of complex numbers that become others, the real parts."""
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = np.real(x)
    return x if x.dtype == dtype else x.astype(dtype)


def _unsigned(x: Any) -> Any:
    return x if x.dtype.kind == "b" else x.astype(f"u{x.dtype.itemsize}")


def _as_unsigned(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of operands that are taken as unsigned; comparisons stay bool."""

    def called(*operands: Any) -> Any:
        found = function(*[_unsigned(x) for x in operands])
        return found if found.dtype.kind == "b" else found.astype(operands[0].dtype)

    return called


def _divided(a: Any, b: Any) -> Any:
    """The quotient of integers, towards zero."""
    down = np.floor_divide(a, b)
    rest = np.remainder(a, b)
    zero = a.dtype.type(0)
    return cast(np.where((rest != zero) & ((a < zero) != (b < zero)), down + a.dtype.type(1), down), a.dtype)


def quotient(a: Any, b: Any) -> Any:
    """The quotient of numbers; that of integers towards zero, where a 0 that is seen below is refused."""
    return np.divide(a, b) if a.dtype.kind in "fc" else _checked(_divided)(a, b)


def _divided_up(a: Any, b: Any) -> Any:
    down = np.floor_divide(a, b)
    one = a.dtype.type(1)
    return cast(np.where(np.remainder(a, b) != a.dtype.type(0), down + one, down), a.dtype)


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """A division of integers, which refuses zeros that it sees."""

    def called(a: Any, b: Any) -> Any:
        if isinstance(b, np.ndarray | np.generic) and not np.all(b):
            raise ShapeError("division by zero; the divisor must not be 0")
        return function(a, b)

    return called


def _fused(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def _chosen(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, np.generic | bool) and not isinstance(condition, np.ndarray):
        return a if condition else b
    return cast(np.where(condition, a, b), a.dtype)


cell_by_cell(
    {
        **dict.fromkeys(("arith.addf", "arith.addi"), np.add),
        **dict.fromkeys(("arith.subf", "arith.subi"), np.subtract),
        **dict.fromkeys(("arith.mulf", "arith.muli"), np.multiply),
        "arith.divf": np.divide,
        "arith.negf": np.negative,
        "arith.divsi": _checked(_divided),
        "arith.divui": _as_unsigned(_checked(np.floor_divide)),
        "arith.floordivsi": _checked(np.floor_divide),
        "arith.ceildivsi": _checked(_divided_up),
        "arith.ceildivui": _as_unsigned(_checked(_divided_up)),
        "arith.remsi": _checked(np.fmod),
        "arith.remui": _as_unsigned(_checked(np.remainder)),
        "arith.maximumf": np.maximum,
        "arith.minimumf": np.minimum,
        "arith.maxnumf": np.fmax,
        "arith.minnumf": np.fmin,
        "arith.maxsi": np.maximum,
        "arith.minsi": np.minimum,
        "arith.maxui": _as_unsigned(np.maximum),
        "arith.minui": _as_unsigned(np.minimum),
        "arith.andi": np.bitwise_and,
        "arith.ori": np.bitwise_or,
        "arith.xori": np.bitwise_xor,
        "arith.shli": np.left_shift,
        "arith.shrsi": np.right_shift,
        "arith.shrui": _as_unsigned(np.right_shift),
        "arith.select": _chosen,
        "math.absf": np.abs,
        "math.absi": np.abs,
        "math.acos": np.arccos,
        "math.asin": np.arcsin,
        "math.atan": np.arctan,
        "math.atan2": np.arctan2,
        "math.cbrt": np.cbrt,
        "math.ceil": np.ceil,
        "math.copysign": np.copysign,
        "math.cos": np.cos,
        "math.cosh": np.cosh,
        "math.erf": lambda x: call(erf, x),
        "math.exp": np.exp,
        "math.exp2": np.exp2,
        "math.expm1": np.expm1,
        "math.floor": np.floor,
        "math.fma": _fused,
        "math.log": np.log,
        "math.log10": np.log10,
        "math.log1p": np.log1p,
        "math.log2": np.log2,
        "math.powf": np.power,
        "math.roundeven": np.rint,
        "math.rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x),
        "math.sin": np.sin,
        "math.sinh": np.sinh,
        "math.sqrt": np.sqrt,
        "math.tan": np.tan,
        "math.tanh": np.tanh,
        "math.trunc": np.trunc,
    }
)

_INTEGER: dict[int, Callable[..., Any]] = {
    0: np.equal,
    1: np.not_equal,
    2: np.less,
    3: np.less_equal,
    4: np.greater,
    5: np.greater_equal,
    6: _as_unsigned(np.less),
    7: _as_unsigned(np.less_equal),
    8: _as_unsigned(np.greater),
    9: _as_unsigned(np.greater_equal),
}
_ORDERED: dict[int, Callable[..., Any]] = {
    1: np.equal,
    2: np.greater,
    3: np.greater_equal,
    4: np.less,
    5: np.less_equal,
}


def _predicate(op: Operation, most: int) -> int:
    found = attribute(op, "predicate")
    number = found.value.data if isinstance(found, IntegerAttr) else -1
    if not 0 <= number <= most:
        raise ShapeError(f"predicate is {found}; it must be a number from 0 to {most}")
    return number


@handles("arith.cmpi")
def _compare_integers(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return _INTEGER[_predicate(op, 9)](*runner.thin(operands))


@handles("arith.cmpf")
def _compare_floats(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    number = _predicate(op, 15)
    a, b = runner.thin(operands)
    unknown = np.isnan(a) | np.isnan(b)
    if number in (0, 15):
        return unknown | ~unknown if number else unknown & ~unknown
    if number in (7, 14):
        return ~unknown if number == 7 else unknown
    if number == 6:
        return (a != b) & ~unknown
    if number in _ORDERED:
        return _ORDERED[number](a, b)
    return (a != b) if number == 13 else _ORDERED[number - 7](a, b) | unknown


@handles("arith.constant", "tosa.const", "stablehlo.constant", "complex.constant", CONSTANT)
def _constant(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    found = attribute(op, "value", "values")
    if found is None:
        raise ShapeError(f"{name_of(op)}: attribute value is missing")
    kind = op.results[0].type
    if isinstance(found, StringAttr):
        return _of_bytes(found.data, kind)
    if name_of(op) == "complex.constant":
        real, imaginary = (scalar_of(each) for each in found)  # type: ignore[attr-defined]
        return dtype_of(kind).type(complex(real, imaginary))
    return cells_of(found) if is_shaped(kind) else scalar_of(found)


def _of_bytes(digits: str, kind: Attribute) -> Any:
    """A constant whose bytes the text has as hexadecimal digits."""
    dtype, shape = dtype_of(kind), tuple([n for n in shape_of(kind) if n is not None])
    data = bytes.fromhex(digits.removeprefix("0x"))
    if len(data) != dtype.itemsize * prod(shape):
        raise ShapeError(f"{len(data)} bytes are given; {kind} has {dtype.itemsize * prod(shape)}")
    return np.frombuffer(data, dtype).reshape(shape)[()]


# -- conversions ---------------------------------------------------------------------------------------------------


def _to(x: Any, op: Operation) -> Any:
    return cast(x, dtype_of(op.results[0].type))


@handles(
    *("arith.extf", "arith.truncf", "arith.sitofp", "arith.fptosi", "arith.fptoui", "arith.trunci"),
    "arith.index_cast",
)
def _convert(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, dtype = operands[0], dtype_of(op.results[0].type)
    if dtype.kind == "b" and name_of(op) == "arith.trunci":
        return (x & x.dtype.type(1)) != 0
    if name_of(op) in ("arith.sitofp", "arith.index_cast") and x.dtype.kind == "b":
        return _to(-x.astype(np.int8), op)  # the only bit is the sign
    if name_of(op) == "arith.fptoui":
        return _to(x.astype(f"u{dtype.itemsize}"), op)
    return _to(x, op)


@handles("arith.extsi")
def _extend_signed(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x = operands[0]
    return _to(-x.astype(np.int8) if x.dtype.kind == "b" else x, op)


@handles("arith.extui", "arith.uitofp", "arith.index_castui")
def _extend_unsigned(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return _to(_unsigned(operands[0]), op)


@handles("arith.bitcast")
def _bit_cast(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, dtype = operands[0], dtype_of(op.results[0].type)
    if x.dtype == dtype:
        return x
    if not isinstance(x, np.ndarray | np.generic):
        raise ShapeError("arith.bitcast has no meaning in a function that is partitioned")
    found = np.ascontiguousarray(x).view(dtype)
    return found if isinstance(x, np.ndarray) else found.reshape(())[()]
