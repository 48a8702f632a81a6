"""Rules of functions that count cells: each device counts those of its block, and the counts are added."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spmd_grid.errors import ShapeError
from spmd_grid.functions.elementwise import elementwise
from spmd_grid.functions.interface import Application, IndexingMap, Interface, Iterator, shape_of
from spmd_grid.functions.table import Operand, rule

__all__ = ["bincount_of", "digitize_in", "histogram_of", "interp_in", "searchsorted_in", "searchsorted_of"]


def _counting(
    name: str, length: int, local: Callable[..., Any], finish: Callable[[np.ndarray], np.ndarray] | None, *operands: Any
) -> Application:
    """``local`` counts the cells of blocks into ``length`` numbers, which are added: every process has all of them."""
    shape, *others = [shape_of(each) for each in operands]
    if others and others[0] != shape:
        raise ShapeError(f"{name}: weights have shape {others[0]}; they must have that of the array {shape}")
    cells: IndexingMap = tuple(range(len(shape)))
    iterators = (*[Iterator(n, "sum") for n in shape], Iterator(length))
    return Application(
        name, operands, Interface(iterators, (cells,) * len(operands), ((len(shape),),)), local, "sum", finish
    )


@rule()
def histogram_of(
    a: Operand, bins: Any, range: Any = None, weights: Operand = None, density: bool = False
) -> Application:
    """np.histogram with bins that are known: numbers of cells, or their density."""
    edges = np.histogram_bin_edges(np.empty(0, a.dtype), bins, range)

    def local(block: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        return np.histogram(block.ravel(), bins, range, weights=None if weights is None else weights.ravel())[0]

    def as_density(counts: np.ndarray) -> np.ndarray:
        return counts / np.diff(edges) / counts.sum()

    finish = as_density if density else None
    return _counting("histogram", len(edges) - 1, local, finish, *(a,) if weights is None else (a, weights))


@rule()
def bincount_of(x: Operand, length: int, weights: Operand = None) -> Application:
    """np.bincount of cells from 0 to below ``length``."""

    def local(block: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        # A block of ones, with which rules are tried, may have more; one without cells gives integers.
        counts = np.bincount(block, weights, minlength=length)[:length]
        return counts if weights is None else counts.astype(np.float64)

    return _counting("bincount", length, local, None, *(x,) if weights is None else (x, weights))


@rule()
def searchsorted_of(a: Operand, v: Operand, side: Any = "left") -> Application:
    """np.searchsorted in an array that is cut: every device counts the cells before, and counts are added."""
    shape = shape_of(v)
    iterators = (*[Iterator(n) for n in shape], Iterator(a.shape[0], "sum"))
    cells = tuple(range(len(shape)))
    return Application(
        "searchsorted",
        (a, v),
        Interface(iterators, ((len(shape),), cells), (cells,)),
        lambda block, values: np.asarray(np.searchsorted(block, values, side)),
        "sum",
    )


@rule()
def searchsorted_in(a: np.ndarray, v: Operand, side: Any = "left", sorter: Any = None) -> Application:
    """np.searchsorted in a list that all processes have."""
    return elementwise("searchsorted", lambda block: np.searchsorted(a, block, side, sorter), v)


@rule()
def digitize_in(x: Operand, bins: np.ndarray, right: bool = False) -> Application:
    """np.digitize by edges that all processes have."""
    return elementwise("digitize", lambda block: np.digitize(block, bins, right), x)


@rule()
def interp_in(
    x: Operand, xp: np.ndarray, fp: np.ndarray, left: Any = None, right: Any = None, period: Any = None
) -> Application:
    """np.interp in a table that all processes have."""
    return elementwise("interp", lambda block: np.interp(block, xp, fp, left, right, period), x)
