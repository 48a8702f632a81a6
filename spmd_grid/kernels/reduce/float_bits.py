"""Doubles and their bits in compiled code, and the fused multiply-add that makes errors of products exact."""

from __future__ import annotations

from typing import Any

import numba  # noqa: F401 - imported first: see compiled.py
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spmd_grid.kernels.compiled import Intrinsic

__all__ = ["bits_of", "fma", "float_of"]


@intrinsic
def bits_of(typingctx: Any, x: types.Type) -> Intrinsic:
    """The bits of a double as an int64: sign, 11 bits of exponent, 52 of fraction."""
    return types.int64(types.float64), lambda context, builder, _, args: builder.bitcast(args[0], ir.IntType(64))


@intrinsic
def float_of(typingctx: Any, bits: types.Type) -> Intrinsic:
    """The double with these bits."""
    return types.float64(types.int64), lambda context, builder, _, args: builder.bitcast(args[0], ir.DoubleType())


@intrinsic
def fma(typingctx: Any, x: types.Type, y: types.Type, z: types.Type) -> Intrinsic:
    """x * y + z, rounded once: an instruction if the processor has one, else a call of libm."""
    return types.float64(*[types.float64] * 3), lambda context, builder, _, args: builder.fma(*args)
