"""sort and argsort of arrays of any layout, and the functions of single positions in the order: median, quantile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spmd_grid.compute.cores import is_cut, replicated
from spmd_grid.compute.course.apply import sharded_like
from spmd_grid.compute.sorting.sorted_cells import SortedCells
from spmd_grid.compute.splits import ArrayOnGrid
from spmd_grid.errors import ArgumentError, DTypeError
from spmd_grid.functions.axes import as_row, one_axis
from spmd_grid.functions.table import Operand, call, composite
from spmd_grid.functions.whole import argsort_along, median_along, quantile_along, sort_along
from spmd_grid.grid.layout import Layout

__all__: list[str] = []

_WITH_ENDS_ALONE = ("linear", "lower", "higher", "midpoint")  # methods that need the cells at both sides and no more


@composite(np.sort)
def sort(a: Operand, axis: int | None = -1, kind: Any = None, *, stable: bool | None = None) -> Operand:
    """np.sort; an array that is cut along its one dimension is sorted by all processes together."""
    return _sorted("sort", sort_along, _sort, a, axis, kind, stable)


@composite(np.argsort)
def argsort(a: Operand, axis: int | None = -1, kind: Any = None, *, stable: bool | None = None) -> Operand:
    """np.argsort; along a dimension that is cut always stable."""
    return _sorted("argsort", argsort_along, _argsort, as_row(a, axis), axis, kind, stable)


def _sorted(
    name: str, rule: Callable[..., Any], run: Callable[..., Any], a: Operand, axis: Any, kind: Any, stable: bool | None
) -> Any:
    if axis is None:
        a, axis = np.ravel(a), 0
    d = one_axis(name, axis, a.ndim)
    if a.ndim > 1 or not is_cut(a):
        return call(rule, a, d, kind, stable=stable)
    np.sort(np.empty(0, a.dtype), kind=kind, stable=stable)  # which refuses a wrong kind
    return a.grid.process.gate.run(name, run, a, "stable" if stable else kind)


def _sort(a: ArrayOnGrid, kind: Any) -> Any:
    found = SortedCells(a, kind=kind)
    return sharded_like(a, found.cells, Layout(found.sharding, a.shape))


def _argsort(a: ArrayOnGrid, kind: Any) -> Any:
    found = SortedCells(a, order=True)
    numbers = found.bring(np.arange(found.start, found.start + len(found.run)))
    return sharded_like(a, numbers, Layout(found.sharding, a.shape))


@composite(np.partition)
def partition(a: Operand, kth: Any, axis: int | None = -1, kind: str = "introselect") -> Operand:
    """np.partition, by a sort."""
    _check_kth("partition", a, kth, axis, kind)
    return np.sort(a, axis)


@composite(np.argpartition)
def argpartition(a: Operand, kth: Any, axis: int | None = -1, kind: str = "introselect") -> Operand:
    """np.argpartition, by a sort."""
    a = as_row(a, axis)
    _check_kth("argpartition", a, kth, axis, kind)
    return np.argsort(a, axis)


def _check_kth(name: str, a: Operand, kth: Any, axis: Any, kind: str) -> None:
    extent = a.size if axis is None else a.shape[one_axis(name, axis, a.ndim)]
    positions = np.atleast_1d(kth)
    if kind != "introselect" or positions.dtype.kind not in "iu":
        raise ArgumentError(f"{name}: kth is {kth!r} and kind {kind!r}; they must be whole numbers, and 'introselect'")
    if positions.size and a.size and not (-extent <= positions.min() and positions.max() < extent):
        raise ArgumentError(f"{name}: kth is {kth!r}; it must be within the {extent} cells")


# -- positions in the order ----------------------------------------------------------------------------------------


@composite(np.median)
def median(
    a: Operand, axis: int | None = None, out: Operand = None, overwrite_input: bool = False, keepdims: bool = False
) -> Operand:
    """np.median of all cells, or along a dimension."""
    if axis is not None and a.ndim > 1:
        return call(median_along, a, one_axis("median", axis, a.ndim), keepdims)
    positions = [(a.size - 1) // 2, a.size // 2]
    cells = _select("median", a, axis, positions) if a.size else np.empty(0, a.dtype)
    # A NaN among them is last in the order, and chosen with them.
    return _of_no_dimensions(a, np.median(cells), keepdims)


@composite(np.quantile)
def quantile(
    a: Operand,
    q: Any,
    axis: int | None = None,
    out: Operand = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Operand:
    """np.quantile of all cells, or along a dimension."""
    fractions = np.asarray(q, a.dtype if a.dtype.kind == "f" and type(q) in (int, float) else None)
    if fractions.dtype.kind not in "biuf" or not ((fractions >= 0) & (fractions <= 1)).all():
        raise ArgumentError(f"quantile: q is {q!r}; it must be from 0 to 1")
    if a.dtype.kind not in "biufmM":
        raise DTypeError(f"quantile: a has dtype {a.dtype}; it must be of real numbers or times")
    if axis is not None and a.ndim > 1:
        return call(quantile_along, a, q, one_axis("quantile", axis, a.ndim), method, keepdims)
    if method not in _WITH_ENDS_ALONE:
        raise NotImplementedError(f"quantile of all cells with method={method!r}")
    if not a.size:
        return _of_no_dimensions(a, np.quantile(np.empty(0, a.dtype), q, method=method), keepdims)  # type: ignore[call-overload]
    at = np.atleast_1d(fractions).ravel() * (a.size - 1)
    floors = np.floor(at)
    low = floors.astype(np.int64)
    cells = _select("quantile", a, axis, [*low, *np.minimum(low + 1, a.size - 1)])
    pairs = np.stack(np.split(cells, 2))
    found = [
        np.quantile(pairs[:, i], part, method=method)  # type: ignore[call-overload]  # any of numpy's methods
        for i, part in enumerate(at - floors)
    ]
    return _of_no_dimensions(a, np.array(found).reshape(fractions.shape)[()], keepdims)


@composite(np.percentile)
def percentile(
    a: Operand,
    q: Any,
    axis: int | None = None,
    out: Operand = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Operand:
    """np.percentile, by np.quantile."""
    fractions: Any = np.true_divide(q, a.dtype.type(100) if a.dtype.kind == "f" else 100)
    return np.quantile(a, fractions, axis, method=method, keepdims=keepdims)  # type: ignore[call-overload]


def _select(name: str, a: Operand, axis: int | None, positions: Any) -> np.ndarray:
    """The cells at ``positions`` in the order of all cells; all are NaN, which comes last, if there is one."""
    if axis is not None:
        one_axis(name, axis, a.ndim)
    row = np.ravel(a) if a.ndim != 1 else a
    cells: np.ndarray = a.grid.process.gate.run(name, _select_in_gate, row, np.array([*positions, row.shape[0] - 1]))
    return np.full_like(cells[:-1], cells[-1]) if cells[-1] != cells[-1] else cells[:-1]


def _select_in_gate(a: ArrayOnGrid, positions: np.ndarray) -> np.ndarray:
    return SortedCells(a, moves=False).select(positions)


def _of_no_dimensions(a: Operand, found: Any, keepdims: bool) -> Any:
    found = np.asarray(found)
    found = found.reshape(found.shape + (1,) * a.ndim) if keepdims else found
    return replicated(a, found)
