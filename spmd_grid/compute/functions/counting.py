"""Histograms and their relatives: every process has all counts and edges, as arrays that no axis cuts."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.compute.cores import as_plain, is_cut, replicated
from spmd_grid.compute.sorting.searches import searched
from spmd_grid.compute.splits import is_sharded
from spmd_grid.errors import ArgumentError, DTypeError, ShapeError
from spmd_grid.functions.reductions.histograms import (
    bincount_of,
    digitize_in,
    histogram_of,
    interp_in,
    searchsorted_in,
    searchsorted_of,
)
from spmd_grid.functions.table import Operand, call, composite, is_array

__all__: list[str] = []


def _bins_and_range(name: str, a: Operand, bins: Any, range: Any) -> tuple[Any, Any]:
    """Plain bins, and their range where they are a number."""
    bins = as_plain(f"{name} by edges", bins)
    if isinstance(bins, str):
        raise NotImplementedError(f"{name} with bins={bins!r}")
    if a.dtype.kind not in "biuf":
        raise DTypeError(f"{name}: the array has dtype {a.dtype}; it must be of integers, floats or bools")
    if np.ndim(bins) == 0 and range is None:
        range = (np.min(a), np.max(a)) if a.size else (0, 1)
    return bins, range


def _countable(a: Operand) -> Operand:
    return a.astype(np.uint8) if a.dtype.kind == "b" else a


@composite(np.histogram_bin_edges)
def histogram_bin_edges(a: Operand, bins: Any = 10, range: Any = None, weights: Operand = None) -> Operand:
    """np.histogram_bin_edges, of a number of bins or of edges: an array that every process has whole."""
    if not is_sharded(a):
        raise NotImplementedError("histogram_bin_edges of a plain array with sharded arguments")
    a = _countable(a)
    return replicated(
        a, np.histogram_bin_edges(np.empty(0, a.dtype), *_bins_and_range("histogram_bin_edges", a, bins, range))
    )


@composite(np.histogram)
def histogram(
    a: Operand, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Operand = None
) -> tuple[Operand, Operand]:
    """np.histogram: counts and edges, arrays that every process has whole."""
    if not is_sharded(a):
        raise NotImplementedError("histogram of a plain array with sharded arguments")
    a = _countable(a)
    bins, range = _bins_and_range("histogram", a, bins, range)
    counts = call(histogram_of, a, bins, range, weights, bool(density))
    return counts, replicated(a, np.histogram_bin_edges(np.empty(0, a.dtype), bins, range))


@composite(np.bincount)
def bincount(x: Operand, /, weights: Operand = None, minlength: int = 0) -> Operand:
    """np.bincount: an array that every process has whole."""
    if not is_sharded(x):
        raise NotImplementedError("bincount of a plain array with sharded weights")
    if x.ndim != 1 or not np.can_cast(x.dtype, np.intp):
        raise ShapeError(
            f"bincount: the array has shape {x.shape} and dtype {x.dtype}; it must have one dimension, and integers"
        )
    if minlength < 0:
        raise ArgumentError(f"bincount: minlength is {minlength}; it must not be negative")
    cells: Any = x
    least, most = (int(np.min(cells)), int(np.max(cells))) if x.size else (0, -1)
    if least < 0:
        raise ArgumentError(f"bincount: the array has the number {least}; none may be negative")
    return call(bincount_of, x, max(most + 1, int(minlength)), weights)


@composite(np.digitize)
def digitize(x: Operand, bins: Any, right: bool = False) -> Operand:
    """np.digitize by edges that every process has."""
    if not is_array(x):
        raise NotImplementedError("digitize of a plain array by sharded edges")
    return call(digitize_in, x, np.asarray(as_plain("digitize", bins)), right)


@composite(np.searchsorted)
def searchsorted(a: Operand, v: Operand, side: Any = "left", sorter: Any = None) -> Operand:
    """np.searchsorted; of spread values in a spread array each process asks those that hold the positions."""
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: side is {side!r}; it must be 'left' or 'right'")
    if is_sharded(a) and is_cut(a):
        if a.ndim != 1 or sorter is not None:
            raise NotImplementedError("searchsorted in an array of several dimensions, or with a sorter,")
        if is_sharded(v) and any(is_cut(v, d) for d in range(v.ndim)):
            return searched(a, v, side)
        return call(searchsorted_of, a, np.asarray(as_plain("searchsorted in a spread array", v)), side)
    plain = np.asarray(as_plain("searchsorted", a))
    if not is_array(v):
        return replicated(a, np.asarray(np.searchsorted(plain, v, side, sorter)))
    return call(searchsorted_in, plain, v, side, sorter)


@composite(np.interp)
def interp(
    x: Operand, xp: Any, fp: Any, left: float | None = None, right: float | None = None, period: float | None = None
) -> Operand:
    """np.interp in a table that every process has."""
    if not is_array(x):
        raise NotImplementedError("interp of a plain array in a sharded table")
    table = [np.asarray(as_plain("interp", each)) for each in (xp, fp)]
    return call(interp_in, x, *table, left, right, period)
