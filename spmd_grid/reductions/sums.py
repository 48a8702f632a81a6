"""sum, dot and norm of sharded arrays: one number, equal on every process."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from spmd_grid.array import ShardedArray
from spmd_grid.errors import ShapeError, ShardingError
from spmd_grid.grid.layout import Layout
from spmd_grid.reductions.cells import counted, runs
from spmd_grid.reductions.combine import check_array, combine, reduction
from spmd_grid.reductions.dtypes import norm_dtype, part_dtype, sum_dtype, wide_dtype, working_dtype
from spmd_grid.reductions.exact import check_exact, exact_products, exact_squares, exact_sum, root_of, value_of

__all__ = ["dot", "norm", "sum"]

# Elements that BLAS is given at a time: from 10,000 on OpenBLAS starts threads, on cores that have processes already.
_PIECE = 1 << 13


@reduction
def sum(a: ShardedArray, *, reproducible: bool = False) -> np.number:
    """The sum of all cells of ``a``, as ``np.sum`` of the global array.

    Collective over a's grid; one message of a number.  Every cell of the global array counts once: copies along
    replicated axes share the work, halos and what is outside the domain do not count.  No cells: 0.  The result is a
    numpy scalar of np.sum's dtype (bool and integers are added in 64 bits and wrap there) with equal bits on every
    process and in every run.  float16 and float32 are added in float32 along runs of memory and in float64 from run to
    run and process to process, so only the last rounding is to their own precision.

    ``reproducible``: the bits do not depend on the number of processes either, nor on grid, sharding and blocks.  The
    result is the exact sum of the cells, rounded once to the dtype (of two neighbours equally near the even one; zero
    has a plus sign), whatever the values: subnormals count in full, intermediate overflow does not happen, infinities
    give an infinity of their sign, and both of them, or a NaN, numpy's NaN.  Complex sums do so part by part.  It takes
    the superaccumulator of R. M. Neal, "Fast Exact Summation Using Small and Large Superaccumulators" (2015), filled
    by vectors after S. M. Rump, T. Ogita, S. Oishi, "Accurate Floating-Point Summation Part I" (2008); one message of
    a kilobyte.  Sums of integers are reproducible anyway.  It relies on the processor's default modes: rounding to
    nearest, subnormals kept.

    Partial values to be summed are added as they are, contributions being cells; not so bool and integers below 64
    bits, whose contributions wrap where they meet.

    Raises `ShardingError` (other partial values: reshard first) and `DTypeError`, the same on every process.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     s = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
    ...     a = sg.from_function(lambda i: np.array([1e100, 1.0, -1e100, 1.0])[i], (4,), s, grid)
    ...     return sg.sum(a), sg.sum(a, reproducible=True)
    >>> sg.run_spmd(body, ranks=3)[1]
    (np.float64(0.0), np.float64(2.0))
    """
    check_array("sum", a, takes_partial="sum")
    dtype = sum_dtype(a.dtype)
    if reproducible and dtype.kind not in "iu":
        check_exact("sum", dtype)
        return value_of(combine("sum", exact_sum(counted(a), dtype), "sum", a, reproducible=True), dtype)
    return _as_scalar(combine("sum", _sum(counted(a), working_dtype(dtype)), "sum", a), dtype)


@reduction
def dot(a: ShardedArray, b: ShardedArray, *, reproducible: bool = False) -> np.number:
    """The sum of ``a * b`` over all cells, nothing conjugated, as ``np.dot`` of the flattened global arrays.

    Collective over their grid; one message of a number.  ``a`` and ``b`` are spread alike; their halos may differ, and
    do not count.  The dtype is that of ``np.sum(a * b)``; unlike np.dot, products of integers and bool are formed in
    the 64 bits in which they are added.  Otherwise as `sum`.

    ``reproducible``: the exact sum of the exact products, rounded once, for every number of processes, grid, sharding
    and block rule, as for `sum`: products neither overflow nor underflow.  A product that has no number (infinity times
    zero) is NaN.  Products are split in two by a fused multiply-add (TwoProduct; T. Ogita, S. M. Rump, S. Oishi,
    "Accurate Sum and Dot Product", 2005) where that is exact, else multiplied as integers.  Complex products are taken
    by their parts: (a.real b.real - a.imag b.imag) + (a.real b.imag + a.imag b.real) i, each sum being exact.  Cells
    of 64-bit integers that meet floats become float64 first.

    Raises `ShardingError` (other layouts, partial values: reshard first), `ShapeError`, `GridError` and `DTypeError`,
    the same on every process.

    >>> import spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2, 2))
    ...     s = sg.Sharding(grid, [[0]])
    ...     a = sg.from_function(lambda i: i + 1j, (3,), s, grid)
    ...     return sg.dot(a, a), sg.norm(a)
    >>> sg.run_spmd(body, ranks=4)[3]
    (np.complex128(2+6j), np.float64(2.8284271247461903))
    """
    check_array("dot", a)
    check_array("dot", b, "b")
    a.grid.check_same_program(b.grid, "dot")
    _check_alike(a, b)
    dtype = sum_dtype(np.result_type(a.dtype, b.dtype))
    x, y = counted(a), counted(b)
    if reproducible and dtype.kind not in "iu":
        check_exact("dot", dtype)
        return value_of(combine("dot", exact_products(x, y, dtype), "sum", a, b, reproducible=True), dtype)
    return _as_scalar(combine("dot", _dot(x, y, working_dtype(dtype)), "sum", a, b), dtype)


@reduction
def norm(a: ShardedArray, *, reproducible: bool = False) -> np.floating:
    """The 2-norm of all cells of ``a`` (Frobenius), as ``np.linalg.norm`` of the flattened global array.

    Collective over a's grid; one message of two numbers.  The result is real: float64 for integers and bool, else of
    the precision of the cells.  It overflows only where the norm itself does, and small cells do not vanish: where
    squares have left the range, all processes go on to what ``reproducible`` does.  Otherwise as `sum`.

    ``reproducible``: the square root of the exact sum of the exact squares, rounded once, for every number of
    processes, grid, sharding and block rule: see `dot`.  An infinity without a NaN gives infinity.

    Raises `ShardingError` (partial values: reshard first) and `DTypeError`, the same on every process.

    >>> import spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2,))
    ...     return sg.norm(sg.full((3, 3), sg.Sharding(grid, [[], [0]]), grid, fill_value=1e200))
    >>> sg.run_spmd(body, ranks=2)
    [np.float64(3e+200), np.float64(3e+200)]
    """
    check_array("norm", a)
    dtype = norm_dtype(a.dtype)
    cells, working = counted(a), working_dtype(dtype)
    if reproducible:
        check_exact("norm", dtype)
    else:
        squares, cells_other_than_0 = combine("norm", _squares(cells, working), "sum", a)
        left_the_range = cells_other_than_0 and (squares < _least_squares(working) or np.isinf(squares))
        if not left_the_range or part_dtype(working).itemsize > 8:
            return _as_scalar(np.sqrt(squares), dtype)
    return root_of(combine("norm", exact_squares(cells, dtype), "sum", a, reproducible=True), dtype)


def _check_alike(a: ShardedArray, b: ShardedArray) -> None:
    """Refuses arrays of which a process does not own the same cells.  Local."""
    if a.shape != b.shape:
        raise ShapeError(f"dot: a has shape {a.shape} and b {b.shape}; they must be equal")
    if a.layout != b.layout and _without_halos(a.layout) != _without_halos(b.layout):
        raise ShardingError(
            f"dot: a is sharded {a.sharding} and b {b.sharding}; they must be spread alike, halos aside: reshard one"
            " of them, for instance by b.reshard(a.sharding)"
        )


@lru_cache(maxsize=256)
def _without_halos(layout: Layout) -> Layout:
    return Layout(replace(layout.sharding, halo_sizes=None), layout.global_shape)


def _sum(cells: np.ndarray, working: np.dtype) -> np.number:
    total = wide_dtype(working).type(0)
    with np.errstate(all="ignore"):  # a warning on one process, made an error, would strand the others
        for (run,) in runs(working, cells):
            total += np.add.reduce(run)
    return total


def _dot(x: np.ndarray, y: np.ndarray, working: np.dtype) -> np.number:
    total = wide_dtype(working).type(0)
    with np.errstate(all="ignore"):
        for one, other in runs(working, x, y):
            for at in range(0, one.size, _PIECE):
                total += np.dot(one[at : at + _PIECE], other[at : at + _PIECE])
    return total


def _squares(cells: np.ndarray, working: np.dtype) -> list[np.floating]:
    """The sum of the squares of all parts, and whether there is anything but zeros."""
    if cells.dtype.kind != "c":
        squares = _dot(cells, cells, working)
    else:
        squares = wide_dtype(working).type(0)
        for (run,) in runs(np.result_type(working, np.complex64), cells):
            parts = run.view(working)
            squares += _dot(parts, parts, working)
    return [squares, squares != 0 or cells.any()]


def _least_squares(working: np.dtype) -> float:
    """Sums of fewer than 2**48 squares have lost nothing that matters to underflow from here on."""
    info = np.finfo(working)
    return float(info.smallest_subnormal) * 2.0**48 / float(info.eps)


def _as_scalar(total, dtype: np.dtype) -> np.number:
    with np.errstate(all="ignore"):
        return np.asarray(total).astype(dtype)[()]
