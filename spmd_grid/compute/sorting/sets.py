"""Unique cells and functions of sets: runs of equal cells in the order of all, found where they lie.

Results have one dimension, cut by the same axes, into the blocks in which they are found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.compute.cores import as_plain, cut_by_counts, is_cut, member_rows
from spmd_grid.compute.course.apply import sharded_like
from spmd_grid.compute.sorting.sorted_cells import SortedCells
from spmd_grid.compute.splits import ArrayOnGrid, is_sharded
from spmd_grid.functions.axes import one_axis
from spmd_grid.functions.elementwise import elementwise
from spmd_grid.functions.interface import Application
from spmd_grid.functions.table import Operand, call, composite, is_array, rule
from spmd_grid.grid.layout import Layout

__all__: list[str] = []


class _Runs:
    """The runs of equal cells in the order of all cells.  ``firsts``: which of this process's cells begin one."""

    def __init__(self, cells: SortedCells, equal_nan: bool):
        self._cells, found = cells, cells.cells
        self._number, self._held = cells.number, np.diff(cells.starts) > 0
        last = found[-1:] if len(found) else np.zeros(1, found.dtype)
        before = self._last_before(last, self._held)
        self.firsts = np.ones(len(found), bool)
        if len(found):
            self.firsts[1:] = _differ(found[1:], found[:-1], equal_nan)
            if before is not None:
                self.firsts[:1] = _differ(found[:1], before, equal_nan)
        self.n = int(self.firsts.sum())
        positions = cells.start + np.flatnonzero(self.firsts)
        self._counts = self._rows(np.array([self.n, positions[0] if self.n else 0]))
        later = [int(position) for n, position in self._counts[cells.number + 1 :] if n]
        self.lengths = np.diff(positions, append=[*later, cells.starts[-1]][0])
        self._before = int(self._counts[: cells.number, 0].sum())

    def numbers(self) -> np.ndarray:
        """Per cell, the number of its run among all."""
        return self._before + np.cumsum(self.firsts) - 1

    def first_of(self, values: np.ndarray) -> np.ndarray:
        """Per cell, the value of the first cell of its run.  Collective."""
        own = values[self.firsts]
        last = own[-1:] if self.n else np.zeros(1, values.dtype)
        before = self._last_before(last, self._counts[:, 0] > 0)
        carried = np.concatenate([last[:0] if before is None else before, own])
        return carried[np.cumsum(self.firsts) - (before is None)]

    def _last_before(self, last: np.ndarray, has: np.ndarray) -> np.ndarray | None:
        """The last value of the processes before this one: a list of one, or None.  ``has``: which of them have any."""
        rows, before = self._rows(last), np.flatnonzero(has[: self._number])
        return rows[before[-1]] if len(before) else None

    def _rows(self, row: np.ndarray) -> np.ndarray:
        return member_rows(row, self._cells.grid, self._cells.axes)


def _differ(a: np.ndarray, b: np.ndarray, equal_nan: bool) -> np.ndarray:
    found: np.ndarray = a != b
    return found & ((a == a) | (b == b)) if equal_nan and a.dtype.kind in "fcmM" else found


@composite(np.unique)
def unique(
    ar: Operand,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """np.unique of all cells; always sorted."""
    if axis is not None:
        one_axis("unique", axis, ar.ndim)
        if ar.ndim != 1:
            raise NotImplementedError("unique rows, with axis,")
    row = ar if ar.ndim == 1 else np.ravel(ar)
    parts = bool(return_index), bool(return_inverse), bool(return_counts)
    found = ar.grid.process.gate.run("unique", _unique, row, *parts, bool(equal_nan))
    if return_inverse and ar.ndim != 1:
        found[1 + parts[0]] = np.reshape(found[1 + parts[0]], ar.shape)
    return tuple(found) if any(parts) else found[0]


def _unique(a: ArrayOnGrid, index: bool, inverse: bool, counts: bool, equal_nan: bool) -> list[Any]:
    cells = SortedCells(a, order=index or inverse)
    runs = _Runs(cells, equal_nan)
    found = [cells.cells[runs.firsts]]
    if index:
        found.append(cells.bring(np.arange(cells.start, cells.start + len(cells.run)))[runs.firsts])
    if counts:
        found.append(runs.lengths)
    made = [cut_by_counts(a, each, cells.axes)[0] for each in found]
    if inverse:
        of_cells = cells.back(runs.numbers())
        made.insert(1 + index, sharded_like(a, of_cells, Layout(cells.sharding, a.shape)))
    return made


@composite(np.unique_values)
def unique_values(x: Operand) -> Operand:
    """np.unique_values, sorted."""
    return np.unique(x, equal_nan=False)


@composite(np.unique_counts)
def unique_counts(x: Operand) -> Any:
    """np.unique_counts."""
    return _named(np.unique_counts, np.unique(x, return_counts=True, equal_nan=False))


@composite(np.unique_inverse)
def unique_inverse(x: Operand) -> Any:
    """np.unique_inverse."""
    return _named(np.unique_inverse, np.unique(x, return_inverse=True, equal_nan=False))


@composite(np.unique_all)
def unique_all(x: Operand) -> Any:
    """np.unique_all."""
    return _named(np.unique_all, np.unique(x, True, True, True, equal_nan=False))


def _named(function: Any, found: tuple[Any, ...]) -> Any:
    """The named tuple that numpy's ``function`` returns."""
    return type(function(np.empty(0)))(*found)


# -- sets ----------------------------------------------------------------------------------------------------------


@rule()
def isin_list(element: Operand, test_elements: np.ndarray, invert: bool) -> Application:
    """np.isin, where all processes have the list."""
    return elementwise("isin", lambda block: np.isin(block, test_elements, invert=invert), element)


@composite(np.isin)
def isin(
    element: Operand, test_elements: Operand, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Operand:
    """np.isin; a list that is spread is sorted together with the cells."""
    if not is_array(element):
        raise NotImplementedError("isin of a plain array in a sharded one")
    if not is_sharded(test_elements) or not any(is_cut(test_elements, d) for d in range(test_elements.ndim)):
        return call(isin_list, element, np.asarray(as_plain("isin", test_elements)), bool(invert))
    parts: list[Any] = [test_elements, element]
    row: Any = np.concatenate([np.ravel(each) for each in parts])
    listed = test_elements.size
    found = row.grid.process.gate.run("isin", _is_after_another, row, listed)
    return np.reshape(found[listed:] != bool(invert), element.shape)


def _is_after_another(a: ArrayOnGrid, n: int) -> Any:
    """Whether each cell equals one of the first ``n`` cells."""
    cells = SortedCells(a, order=True)
    positions = cells.bring(np.arange(cells.start, cells.start + len(cells.run)))
    found = cells.back(_Runs(cells, equal_nan=False).first_of(positions) < n)
    return sharded_like(a, found, Layout(cells.sharding, a.shape))


@composite(np.union1d)
def union1d(ar1: Operand, ar2: Operand) -> Operand:
    """np.union1d."""
    return np.unique(np.concatenate([np.ravel(ar1), np.ravel(ar2)]))


@composite(np.intersect1d)
def intersect1d(ar1: Operand, ar2: Operand, assume_unique: bool = False) -> Operand:
    """np.intersect1d, without indices."""
    types = [each.dtype if is_array(each) else np.asarray(each).dtype for each in (ar1, ar2)]
    dtype = np.promote_types(*types)
    found = np.unique(ar1 if types[0] == dtype else ar1.astype(dtype))
    return np.compress(np.isin(found, ar2), found)


@composite(np.setdiff1d)
def setdiff1d(ar1: Operand, ar2: Operand, assume_unique: bool = False) -> Operand:
    """np.setdiff1d."""
    found = np.ravel(ar1) if assume_unique else np.unique(ar1)
    return np.compress(np.isin(found, ar2, invert=True), found)


@composite(np.setxor1d)
def setxor1d(ar1: Operand, ar2: Operand, assume_unique: bool = False) -> Operand:
    """np.setxor1d."""
    found, counts = np.unique(np.concatenate([np.unique(ar1), np.unique(ar2)]), return_counts=True)
    return np.compress(counts == 1, found)
