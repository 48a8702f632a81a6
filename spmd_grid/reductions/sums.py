"""sum, dot and norm of sharded arrays: one number, equal on every process."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from spmd_grid.array import ShardedArray
from spmd_grid.compute.calls import call_alone
from spmd_grid.compute.splits import plain_sharding
from spmd_grid.errors import ShapeError, ShardingError
from spmd_grid.functions.dtypes import norm_dtype, numpy_scalar, part_dtype, sum_dtype, wide_dtype, working_dtype
from spmd_grid.functions.reductions.totals import runs
from spmd_grid.functions.table import composite, entry_of
from spmd_grid.grid.layout import Layout
from spmd_grid.ops.calls.arguments import check_flag
from spmd_grid.reductions.cells import counted
from spmd_grid.reductions.checks import check_array, combined, reduction
from spmd_grid.reductions.exact import check_exact, exact_products, exact_squares, exact_sum, root_of, value_of

__all__ = ["dot", "norm", "sum"]

# Elements per call of BLAS: from 10,000 on OpenBLAS starts threads, on cores that other processes use.
_PIECE = 1 << 13


def sum(a: ShardedArray, *, reproducible: bool = False) -> np.number:
    """The sum of all cells of ``a``: ``np.sum(a)``, and with ``reproducible`` a sum whose bits no spread changes.

    Collective over a's grid; one message of a number.  Every cell of the global array counts once: copies along
    replicated axes share the work, halos and cells outside the domain do not count.  The sum of no cells is 0.  The
    result is a numpy scalar of np.sum's dtype (bool and integers are added in 64 bits and wrap there) with equal bits
    on every process and in every run.  float16 and float32 are added in float32 along runs of memory and in float64
    from run to run and process to process, so only the last rounding is to their own precision.

    ``reproducible``: the bits do not depend on the number of processes either, nor on grid, sharding and blocks.  The
    result is the exact sum of the cells, rounded once to the dtype (ties to even; zero has a plus sign), whatever the
    values: subnormals count in full, there is no intermediate overflow, infinities give an infinity of their sign;
    infinities of both signs, or a NaN, give numpy's NaN.  Complex sums are computed part by part.  The algorithm is the
    superaccumulator of R. M. Neal, "Fast Exact Summation Using Small and Large Superaccumulators" (2015), filled by
    vectors after S. M. Rump, T. Ogita, S. Oishi, "Accurate Floating-Point Summation Part I" (2008); one message of a
    kilobyte.  Sums of integers are always reproducible.  It relies on the processor's default modes: rounding to
    nearest, subnormals kept.

    Partial values that are to be summed need not be resharded, except bool and integers below 64 bits, whose sum may
    wrap in a cell.

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
    check_flag("sum", "reproducible", reproducible)
    if not reproducible or a.dtype.kind in "bium":
        return cast(np.number, call_alone(np.sum, a))
    check_exact("sum", a.dtype)
    return a.grid.process.gate.run("sum", _reproducible_sum, a)


@reduction
def dot(a: ShardedArray, b: ShardedArray, *, reproducible: bool = False) -> np.number:
    """The sum of ``a * b`` over all cells, nothing conjugated, as ``np.dot`` of the flattened global arrays.

    Collective over their grid; one message of a number.  ``a`` and ``b`` must have the same sharding; their halos may
    differ, and do not count.  The dtype is that of ``np.sum(a * b)``; unlike in np.dot, products of integers and bool
    have 64 bits, like their sum.  Otherwise as `sum`.

    ``reproducible``: the exact sum of the exact products, rounded once, for every number of processes, grid, sharding
    and block rule, as for `sum`: products neither overflow nor underflow.  Infinity times zero is NaN.  Products are
    split in two by a fused multiply-add (TwoProduct; T. Ogita, S. M. Rump, S. Oishi, "Accurate Sum and Dot Product",
    2005) where that is exact, else multiplied as integers.  Complex products are computed part by part: (a.real b.real
    - a.imag b.imag) + (a.real b.imag + a.imag b.real) i, each sum being exact.  Cells of 64-bit integers that are
    multiplied with floats become float64 first.

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
    check_flag("dot", "reproducible", reproducible)
    a.grid.check_same_program(b.grid, "dot")
    _check_alike(a, b)
    dtype = sum_dtype(np.result_type(a.dtype, b.dtype))
    x, y = counted(a), counted(b)
    if reproducible and dtype.kind not in "iu":
        check_exact("dot", dtype)
        return value_of(combined("dot", exact_products(x, y, dtype), a, b, reproducible=True), dtype)
    return numpy_scalar(combined("dot", _dot(x, y, working_dtype(dtype)), a, b), dtype)


@reduction
def norm(a: ShardedArray, *, reproducible: bool = False) -> np.floating:
    """The 2-norm of all cells of ``a`` (Frobenius), as ``np.linalg.norm`` of the flattened global array.

    Collective over a's grid; one message of two numbers.  The result is real: float64 for integers and bool, else of
    the precision of the cells.  It overflows only where the norm itself does, and small cells do not vanish: where
    squares overflow or underflow, all processes continue as with ``reproducible``.  Otherwise as `sum`.

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
    check_flag("norm", "reproducible", reproducible)
    dtype = norm_dtype(a.dtype)
    cells, working = counted(a), working_dtype(dtype)
    if reproducible:
        check_exact("norm", dtype)
    else:
        squares, cells_other_than_0 = combined("norm", _squares(cells, working), a)
        left_the_range = cells_other_than_0 and (squares < _least_squares(working) or np.isinf(squares))
        if not left_the_range or part_dtype(working).itemsize > 8:
            return cast(np.floating, numpy_scalar(np.sqrt(squares), dtype))
    return root_of(combined("norm", exact_squares(cells, dtype), a, reproducible=True), dtype)


_norm_along = entry_of(np.linalg.norm)


@composite(np.linalg.norm)
def _numpys_norm(x: ShardedArray, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """np.linalg.norm: `norm` where it is the 2-norm of all cells, else what the table had before."""
    of_all = ord is None or (x.ndim == 1 and ord == 2) or (x.ndim == 2 and ord == "fro")
    if axis is not None or keepdims or not of_all:
        assert _norm_along is not None  # `functions.composites` has registered it
        return _norm_along.call(x, ord, axis, keepdims)
    return norm(cast(ShardedArray, x.reshard(plain_sharding(x.sharding))) if x.sharding.partial_axes else x)


def _check_alike(a: ShardedArray, b: ShardedArray) -> None:
    """Refuse arrays of which a process does not own the same cells.  Local.  Raises ShapeError and ShardingError."""
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


def _reproducible_sum(a: ShardedArray) -> np.number:
    dtype = sum_dtype(a.dtype)
    return value_of(combined("sum", exact_sum(counted(a), dtype), a, reproducible=True), dtype)


def _dot(x: np.ndarray, y: np.ndarray, working: np.dtype) -> np.number:
    total = wide_dtype(working).type(0)
    with np.errstate(all="ignore"):  # a warning that is an error on one process would leave the others waiting
        for one, other in runs(working, x, y):
            for at in range(0, one.size, _PIECE):
                total += np.dot(one[at : at + _PIECE], other[at : at + _PIECE])
    return total


def _squares(cells: np.ndarray, working: np.dtype) -> list[np.number | np.bool]:
    """The sum of the squares of all parts, and whether any cell is not 0."""
    if cells.dtype.kind != "c":
        squares = _dot(cells, cells, working)
    else:
        squares = wide_dtype(working).type(0)
        for (run,) in runs(np.result_type(working, np.complex64), cells):
            parts = run.view(working)
            squares += _dot(parts, parts, working)
    return [squares, np.bool(squares != 0 or cells.any())]


def _least_squares(working: np.dtype) -> float:
    """The least sum of squares whose loss to underflow is below its rounding error, for fewer than 2**48 squares."""
    info = np.finfo(working)
    return float(info.smallest_subnormal) * 2.0**48 / float(info.eps)
