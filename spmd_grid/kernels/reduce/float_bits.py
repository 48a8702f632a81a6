"""Doubles and their bits in compiled code, and the fused multiply-add that makes errors of products exact."""

from __future__ import annotations

import numba  # noqa: F401 - first of all: see compiled.py
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["bits_of", "fma", "float_of"]


@intrinsic
def bits_of(typingctx, x):
    """The bits of a double as an int64: sign, 11 bits of exponent, 52 of fraction."""
    return types.int64(types.float64), lambda context, builder, _, args: builder.bitcast(args[0], ir.IntType(64))


@intrinsic
def float_of(typingctx, bits):
    """The double with these bits."""
    return types.float64(types.int64), lambda context, builder, _, args: builder.bitcast(args[0], ir.DoubleType())


@intrinsic
def fma(typingctx, x, y, z):
    """x * y + z, rounded once: an instruction where the processor has it, else a call of libm."""
    return types.float64(*[types.float64] * 3), lambda context, builder, _, args: builder.fma(*args)
