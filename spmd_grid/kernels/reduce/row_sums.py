"""Sums of rows of 4 KiB, each in the same order on every processor, at the speed at which memory is read.

A row is 64 lines.  Each of 64 / 4 steps adds a line to one of four vectors of partial sums, as wide as a line, whose
lanes are added at last: no chain of additions in the cells' own precision is longer than in numpy's pairwise sum.
Compilers may not choose such an order by themselves.  The next row is fetched meanwhile, since what the processor
fetches by itself ends with the page; fetched as data to be read once, it leaves the caches to other data and code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba  # noqa: F401 - imported first: see compiled.py
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from spmd_grid.kernels.address import pointer
from spmd_grid.kernels.compiled import Compiled, Intrinsic
from spmd_grid.kernels.copy.vectors import LINE
from spmd_grid.kernels.python_calls import on_integers

__all__ = ["ROW", "sum_rows_f4", "sum_rows_f8"]

ROW = 64 * LINE  # bytes

_VECTORS = 4
_I32, _I64, _BYTES = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()


def _row_sum(cell: ir.Type, itemsize: int) -> Callable[[int], float]:
    """Make an intrinsic that adds the cells of the row at an address, as a double."""

    @intrinsic
    def added(typingctx: Any, address: types.Type) -> Intrinsic:
        def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
            line, lanes = ir.VectorType(cell, LINE // itemsize), LINE // itemsize
            kinds = ir.FunctionType(ir.VoidType(), [_BYTES, _I32, _I32, _I32])
            fetch = builder.module.declare_intrinsic("llvm.prefetch", (_BYTES,), kinds)

            def line_at(offset: int) -> ir.Value:
                ahead = builder.inttoptr(builder.add(args[0], _I64(offset + ROW)), _BYTES)
                builder.call(fetch, [ahead, _I32(0), _I32(0), _I32(1)])  # to read; not kept; data
                found = builder.load(builder.inttoptr(builder.add(args[0], _I64(offset)), line.as_pointer()))
                found.align = itemsize
                return found

            sums = [line_at(i * LINE) for i in range(_VECTORS)]
            for i in range(_VECTORS, ROW // LINE):
                sums[i % _VECTORS] = builder.fadd(sums[i % _VECTORS], line_at(i * LINE))
            while len(sums) > 1:
                sums = [builder.fadd(*pair) for pair in zip(sums[::2], sums[1::2])]
            (found,) = sums
            if itemsize < 8:
                found = builder.fpext(found, ir.VectorType(ir.DoubleType(), lanes))
            while lanes > 1:
                lanes //= 2
                kind = ir.VectorType(_I32, lanes)
                halves = [ir.Constant(kind, [*range(first, first + lanes)]) for first in (0, lanes)]
                found = builder.fadd(*[builder.shuffle_vector(found, found, half) for half in halves])
            return builder.extract_element(found, _I32(0))

        return types.float64(types.int64), emit

    return added


def _row_sums(name: str, cell: ir.Type, itemsize: int) -> Compiled:
    """Compile the function that writes the sums of ``n`` rows from an address on, as doubles, to another address."""
    row_sum = _row_sum(cell, itemsize)

    def sum_rows(cells: int, n: int, out: int) -> int:
        sums = carray(pointer(out, "f8"), n)
        for i in range(n):
            sums[i] = row_sum(cells + i * ROW)
        return 0

    sum_rows.__name__ = name
    return on_integers(sum_rows)


sum_rows_f4, sum_rows_f8 = (
    _row_sums("sum_rows_f4", ir.FloatType(), 4),
    _row_sums("sum_rows_f8", ir.DoubleType(), 8),
)
