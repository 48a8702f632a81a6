"""Sums of runs by rows, in the same order on every processor, at the speed at which memory is read.

Each step along a row adds four lines to four vectors of partial sums, as wide as a line, whose lanes are added at the
end of the row: in rows of 4 KiB no chain of additions in the cells' own precision is longer than in numpy's pairwise
sum.  Compilers may not choose such an order by themselves.  What follows a page further on is fetched meanwhile, since
what the processor fetches by itself ends with the page; fetched as data to be read once, it leaves the caches to other
data and code.
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

__all__ = ["LEVELS", "STEP", "sum_rows_f4", "sum_rows_f8"]

STEP = 4 * LINE  # bytes
LEVELS = 64  # of pairs of pairs: more than any memory holds

_PAGE = 4096  # bytes
_I32, _I64, _BYTES = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()


def _row_sum(cell: ir.Type, itemsize: int) -> Callable[[int, int], float]:
    """Make an intrinsic that adds the cells of the row at an address, of a number of bytes, as a double."""

    @intrinsic
    def added(typingctx: Any, address: types.Type, row: types.Type) -> Intrinsic:
        def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
            lanes = LINE // itemsize
            line = ir.VectorType(cell, lanes)
            kinds = ir.FunctionType(ir.VoidType(), [_BYTES, _I32, _I32, _I32])
            fetch = builder.module.declare_intrinsic("llvm.prefetch", (_BYTES,), kinds)
            before = builder.block
            steps, end = builder.append_basic_block("steps"), builder.append_basic_block("end")
            builder.branch(steps)

            # One loop of four loads, never unrolled: then the processor too sees what is read next.
            builder.position_at_end(steps)
            offset = builder.phi(_I64)
            offset.add_incoming(_I64(0), before)
            sums = []
            for first in range(0, STEP, LINE):
                held = builder.phi(line)
                held.add_incoming(ir.Constant(line, [-0.0] * lanes), before)  # which changes no sum
                sums.append((first, held))
            found_at = builder.add(args[0], offset)
            added_to = []
            for first, held in sums:
                ahead = builder.inttoptr(builder.add(found_at, _I64(first + _PAGE)), _BYTES)
                builder.call(fetch, [ahead, _I32(0), _I32(0), _I32(1)])  # to read; not kept; data
                cells = builder.load(builder.inttoptr(builder.add(found_at, _I64(first)), line.as_pointer()))
                cells.align = itemsize
                added_to.append(builder.fadd(held, cells))
            following = builder.add(offset, _I64(STEP))
            offset.add_incoming(following, steps)
            for (_, held), total in zip(sums, added_to):
                held.add_incoming(total, steps)
            builder.cbranch(builder.icmp_signed("<", following, args[1]), steps, end)

            builder.position_at_end(end)
            while len(added_to) > 1:
                added_to = [builder.fadd(*pair) for pair in zip(added_to[::2], added_to[1::2])]
            (found,) = added_to
            if itemsize < 8:
                found = builder.fpext(found, ir.VectorType(ir.DoubleType(), lanes))
            while lanes > 1:
                lanes //= 2
                kind = ir.VectorType(_I32, lanes)
                halves = [ir.Constant(kind, [*range(first, first + lanes)]) for first in (0, lanes)]
                found = builder.fadd(*[builder.shuffle_vector(found, found, half) for half in halves])
            return builder.extract_element(found, _I32(0))

        return types.float64(types.int64, types.int64), emit

    return added


def _row_sums(name: str, cell: ir.Type, itemsize: int) -> Compiled:
    """Compile the function that adds ``n`` rows of ``row`` bytes from an address on, and writes their sum to another.

    ``n`` is at least 1, and ``row`` a multiple of STEP.  Sums of rows are added by pairs, those sums by pairs, and so
    on: level k holds the sum of 2**k rows that are not yet part of a greater sum.  There is memory for LEVELS doubles
    at ``levels``, of which the first is the result.
    """
    row_sum = _row_sum(cell, itemsize)

    def sum_rows(cells: int, n: int, row: int, levels: int) -> int:
        held = carray(pointer(levels, "f8"), LEVELS)
        for i in range(n):
            found, level, before = row_sum(cells + i * row, row), 0, i
            while before & 1:
                found += held[level]
                level += 1
                before >>= 1
            held[level] = found
        found = -0.0  # which changes no sum
        for level in range(LEVELS):
            if n >> level & 1:
                found += held[level]
        held[0] = found
        return 0

    sum_rows.__name__ = name
    return on_integers(sum_rows)


sum_rows_f4, sum_rows_f8 = (
    _row_sums("sum_rows_f4", ir.FloatType(), 4),
    _row_sums("sum_rows_f8", ir.DoubleType(), 8),
)
