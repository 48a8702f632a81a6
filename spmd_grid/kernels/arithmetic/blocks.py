"""Sums, differences, products and quotients of two small blocks of doubles, or of one and a number.

numpy's ufuncs take a third of a microsecond to begin with, and as long as ten cells for every row of a block whose rows
are not contiguous.  Here a row is walked by vectors of 8, 4, 2 and 1 cells.  The bits are numpy's, and so are the
processor's flags, which tell of overflows and the like.

The functions keep the interpreter's lock.  They leave all that they do not take to numpy: more than two dimensions,
cells that are not contiguous along the last, and results that overlap an operand otherwise than in the same place.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import numba  # noqa: F401 - imported first: see compiled.py
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spmd_grid.kernels.address import load, store
from spmd_grid.kernels.array_object import DATA, FIELDS_OFFSET, FLAGS, NDIM, PLAIN, SHAPE, STRIDES
from spmd_grid.kernels.compiled import Compiled, Intrinsic, by_address, inner
from spmd_grid.kernels.python_calls import call_python, new_integer, new_reference, release, word_in

__all__ = ["make"]

_CELL = 8  # bytes
_ALIGNED = 0x0100

# The flags of invalid operations, divisions by zero, overflows and underflows.
_EXCEPTIONS = 0x1D if platform.machine() in ("x86_64", "AMD64") else 0x0F
_clear = types.ExternalFunction("feclearexcept", types.int32(types.int32))
_raised = types.ExternalFunction("fetestexcept", types.int32(types.int32))
_number = types.ExternalFunction("PyFloat_AsDouble", types.float64(types.int64))

_EMIT = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}


def _step(operation: str, operands: str, width: int) -> Callable[..., None]:
    """Make an intrinsic that computes ``width`` cells at an address from those at two others, or from a number."""

    @intrinsic
    def step(typingctx: Any, a: types.Type, b: types.Type, x: types.Type, out: types.Type) -> Intrinsic:
        def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
            vector = ir.VectorType(ir.DoubleType(), width)

            def cells(address: ir.Value) -> ir.Value:
                found = builder.load(builder.inttoptr(address, vector.as_pointer()))
                found.align = _CELL
                return found

            def same() -> ir.Value:
                i32 = ir.IntType(32)
                one = builder.insert_element(ir.Constant(vector, ir.Undefined), args[2], i32(0))
                return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(i32, width), [0] * width))

            left = same() if operands == "number and block" else cells(args[0])
            right = same() if operands == "block and number" else cells(args[1])
            found = getattr(builder, _EMIT[operation])(left, right)
            builder.store(found, builder.inttoptr(args[3], vector.as_pointer())).align = _CELL
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.float64, types.int64), emit

    return step


@inner
def _stride(array: int) -> int:
    """The bytes from row to row; -1 of a block that the functions do not take."""
    ndim, strides = load(array, NDIM) & 0xFFFFFFFF, load(array, STRIDES)
    if not load(array, FLAGS) & _ALIGNED or load(strides, ndim - 1) != _CELL:
        return -1
    return load(strides, 0) if ndim == 2 else 0


@inner
def _has_shape(array: int, ndim: int, shape: int) -> bool:
    if load(array, NDIM) & 0xFFFFFFFF != ndim:
        return False
    own = load(array, SHAPE)
    return load(own, 0) == load(shape, 0) and load(own, ndim - 1) == load(shape, ndim - 1)


@inner
def _is_apart(data: int, stride: int, out: int, out_stride: int, n_rows: int, length: int) -> bool:
    """Whether a result overlaps an operand in the same place only."""
    if data == out and (stride == out_stride or n_rows == 1):
        return True
    return data + (n_rows - 1) * stride + length <= out or out + (n_rows - 1) * out_stride + length <= data


@inner
def _report(ways: int, raised: int) -> int:
    """Let numpy warn of the flags, or raise its error."""
    number = new_integer(raised)
    argument = ways + 8 * 3
    store(argument, 0, number)
    result = call_python(load(ways, 1), argument, 1, 0)
    release(number)
    return result


def make(operation: str, operands: str) -> Compiled:
    """The function of an ufunc's name and of "blocks", "number and block" or "block and number"."""
    step_8, step_4, step_2, step_1 = (_step(operation, operands, width) for width in (8, 4, 2, 1))
    a_is_block, b_is_block = operands != "number and block", operands != "block and number"

    @inner
    def row(a: int, b: int, x: float, out: int, n: int) -> None:
        at, end = 0, n * _CELL
        while end - at >= 8 * _CELL:
            step_8(a + at, b + at, x, out + at)
            at += 8 * _CELL
        if end - at >= 4 * _CELL:
            step_4(a + at, b + at, x, out + at)
            at += 4 * _CELL
        if end - at >= 2 * _CELL:
            step_2(a + at, b + at, x, out + at)
            at += 2 * _CELL
        if at < end:
            step_1(a + at, b + at, x, out + at)

    @inner
    def done(first: int, second: int, out: int) -> int:
        """Compute, and return the flags that were raised; -1 of blocks that are left to numpy."""
        out += FIELDS_OFFSET
        ndim, shape = load(out, NDIM) & 0xFFFFFFFF, load(out, SHAPE)
        if ndim < 1 or ndim > 2:
            return -1
        n_rows, n = load(shape, 0), load(shape, ndim - 1)
        if ndim == 1:
            n_rows = 1
        to, to_stride = load(out, DATA), _stride(out)
        plain = load(out, FLAGS) & PLAIN
        a = b = a_stride = b_stride = 0
        x = 0.0
        if to_stride < 0:
            return -1
        if a_is_block:
            block = first + FIELDS_OFFSET
            a, a_stride = load(block, DATA), _stride(block)
            plain &= load(block, FLAGS)
            if not _has_shape(block, ndim, shape) or a_stride < 0:
                return -1
            if not _is_apart(a, a_stride, to, to_stride, n_rows, n * _CELL):
                return -1
        else:
            x = _number(first)
        if b_is_block:
            block = second + FIELDS_OFFSET
            b, b_stride = load(block, DATA), _stride(block)
            plain &= load(block, FLAGS)
            if not _has_shape(block, ndim, shape) or b_stride < 0:
                return -1
            if not _is_apart(b, b_stride, to, to_stride, n_rows, n * _CELL):
                return -1
        else:
            x = _number(second)
        if plain & PLAIN == PLAIN:  # one long row
            n_rows, n = 1, n_rows * n
        _clear(_EXCEPTIONS)
        for i in range(n_rows):
            row(a + i * a_stride, b + i * b_stride, x, to + i * to_stride, n)
        return _raised(_EXCEPTIONS)

    @by_address("int64(int64, int64, int64, int64)", f"{operation}_{operands.replace(' ', '_')}")
    def compute(bound: int, arguments: int, number: int, names: int) -> int:
        ways = word_in(bound)  # words: the ufunc, what reports flags, None
        if number != 3 or names:
            return call_python(load(ways, 0), arguments, number, names)
        raised = done(load(arguments, 0), load(arguments, 1), load(arguments, 2))
        if raised < 0:
            return call_python(load(ways, 0), arguments, number, names)
        nothing = load(ways, 2)
        if not raised:
            new_reference(nothing)
            return nothing
        return _report(ways, raised)

    return compute
