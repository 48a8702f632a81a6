"""np.insert and np.delete, np.where with one argument, and einsum with a dtype, against numpy on the global array."""

import numpy as np
import pytest
from support.compute.layouts import LINES, gathered, line, same
from support.compute.moving import bytes_sent
from test_functions import globals_of, sharded

import spmd_grid as sg
from spmd_grid.compute.functions import inserting

MATRIX = {
    "delete": lambda a, b: np.delete(a, -2, 1) - np.delete(b, 0, axis=1),
    "delete a slice": lambda a, b: np.delete(a, np.s_[1:4], 0),
    "delete backwards": lambda a, b: np.delete(b, np.s_[::-2], 1),
    "delete a list": lambda a, b: np.delete(a, [6, 1, -7, 1], 0),
    "delete bools": lambda a, b: np.delete(a, np.array([True, False, False, True, True]), 1),
    "delete nothing": lambda a, b: np.delete(a, [], 0) + np.delete(b, np.s_[9:], 0),
    "delete all": lambda a, b: np.delete(a, np.s_[:], 0),
    "delete of all cells": lambda a, b: np.delete(a, [0, 34, 7, 8]),
    "insert a number": lambda a, b: np.insert(a, 3, 1.5, 0),
    "insert rows": lambda a, b: np.insert(a, 2, b[:3], 0),
    "insert columns": lambda a, b: np.insert(a, -1, np.arange(7), 1),
    "insert a column": lambda a, b: np.insert(a, [1], np.arange(7)[:, None], 1),
    "insert in several places": lambda a, b: np.insert(a, [5, 0, 2, 0, 4], np.arange(5.0) + b[:, :1], 1),
    "insert before a slice": lambda a, b: np.insert(a, np.s_[1:6:2], b[4:], 0),
    "insert bools": lambda a, b: np.insert(a, np.array([True] + [False] * 3 + [True]), -1, 1),
    "insert into all cells": lambda a, b: np.insert(a, [35, 0], [7, 8]),
    "insert, cast": lambda a, b: np.insert(a.astype("i4"), 0, b[0] + 0.5, 0),
    "insert nothing": lambda a, b: np.insert(a, [], np.ones((0, 5)), 0),
    "where, rows": lambda a, b: np.where(a > 1)[0],
    "where, columns": lambda a, b: np.where(b)[1],
    "einsum": lambda a, b: np.einsum("ij,kj->ik", a.astype("f4"), b.astype("i2"), dtype="f8"),
    "einsum, casting": lambda a, b: np.einsum("ij,ij", a, b.T.T, dtype="c8", casting="same_kind"),
    "einsum of lists": lambda a, b: np.einsum(a.astype("i2"), [0, 1], np.ones(5, "i1"), [1], [0], dtype="i8"),
}
LAYOUTS = ["blocks", "swapped, halos", "columns, balanced", "offsets", "rows"]


@pytest.mark.parametrize("function", MATRIX)
def test_matrices(spmd, function):
    """Each function on two layouts, others than the one before."""
    n = list(MATRIX).index(function)

    def body():
        grid, (x, y) = sg.init_grid((2, 3)), globals_of()
        want = MATRIX[function](x, y)
        for k in (n, n + 2):
            a, b = sharded(x, LAYOUTS[k % 5], grid), sharded(y, LAYOUTS[(k + 1) % 5], grid)
            same(MATRIX[function](a, b), want)

    spmd(6, body)


@pytest.mark.parametrize("layout", LINES)
def test_lines(spmd, layout):
    x = np.arange(11.0) ** 2

    def body():
        a = line(x, layout, sg.init_grid((2, 3)))
        same(np.delete(a, 4), np.delete(x, 4))
        same(np.delete(a, [10, 0, 3]), np.delete(x, [10, 0, 3]))
        same(np.insert(a, 11, [3, 4]), np.insert(x, 11, [3, 4]))
        same(np.insert(a, [2, -1, 2], a[:3]), np.insert(x, [2, -1, 2], x[:3]))
        same(np.where(a > 9)[0], np.where(x > 9)[0])

    spmd(6, body)


def test_cells_that_move():
    """12 doubles in blocks of 4.  Without cell 1: 0 2 3 4 | 5 6 7 8 | 9 ...; with x: 0 1 2 3 x | 4 5 6 7 8 | 9 ..."""

    def body():
        grid = sg.init_grid((3,))
        a = sg.from_function(lambda i: 1.0 * i, (12,), sg.Sharding(grid, [[0]]), grid)
        assert gathered(np.insert(a, 4, 0)).tolist() == [0, 1, 2, 3, 0, *range(4, 12)]
        deleted = [bytes_sent(lambda a, cells=cells: np.delete(a, cells), a) // 8 for cells in (1, [1, 1])]
        return [*deleted, bytes_sent(lambda a: np.insert(a, 4, 0.0), a) // 8]

    assert sg.run_spmd(body, ranks=3) == [[0, 0, 0], [1, 1, 0], [1, 1, 1]]


@pytest.mark.parametrize("function", [name for name in MATRIX if name.startswith(("delete", "insert"))])
def test_runs_of_cells(spmd, monkeypatch, function):
    """Runs move as slices, as in long dimensions."""
    monkeypatch.setattr(inserting, "_LONG", 0)

    def body():
        grid, (x, y) = sg.init_grid((2, 3)), globals_of()
        a, b = sharded(x, "blocks", grid), sharded(y, "rows", grid)
        same(MATRIX[function](a, b), MATRIX[function](x, y))

    spmd(6, body)


def test_long_dimensions_need_no_list_of_their_cells(monkeypatch):
    """Lists of the numbers of all cells took a thousand times as long as the cells did to move."""

    def refuse(numbers, *_, **__):
        raise AssertionError(f"a list of {len(numbers)} numbers")

    monkeypatch.setattr(np, "setdiff1d", refuse)

    def body():
        grid, x = sg.init_grid((2,)), np.arange(20_000) % 100
        a = sg.from_global(x, sg.Sharding(grid, [[0]]), grid)
        for obj in (5, np.s_[7:], [3, 10_000]):
            same(np.delete(a, obj), np.delete(x, obj))
        same(np.insert(a, [3, 10_000], -1), np.insert(x, [3, 10_000], -1))
        return True

    assert all(sg.run_spmd(body, ranks=2))
