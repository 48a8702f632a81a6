"""Sharded arrays of numbers as indices, against numpy on the global array."""

import numpy as np
import pytest
from support.compute.layouts import LINES, line, same
from support.compute.updates import updates_and_bytes

import spmd_grid as sg

X = np.arange(77.0).reshape(11, 7)
RANDOM = np.random.default_rng(3)
ROWS, COLUMNS = RANDOM.integers(-11, 11, (5, 4)), RANDOM.integers(-7, 7, 4)

LAYOUTS = [
    ([[0], [1]], {"halo_sizes": [1, 1, 2, 0]}),
    ([[1, 0]], {}),
    ([[], [0]], {"sharded_dims_offsets": [[0, 0, 7]]}),
    ([[0]], {"partial_axes": [1]}),
    ([], {}),
]
KEYS = {
    "two arrays": (lambda x, i, j: x[i, j]),
    "an integer after": (lambda x, i, j: x[i, -3]),
    "an integer before": (lambda x, i, j: x[np.int64(4), j]),
    "unsigned": (lambda x, i, j: x[np.abs(i).astype("u1") % 11, j.astype("i2")]),
    "with a plain array": (lambda x, i, j: x[np.arange(5)[:, None], j]),
    "no numbers": (lambda x, i, j: x[i[:0], j]),
    "all cells": (lambda x, i, j: np.take(x, i * 7)),
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_cells(spmd, layout):
    axes, options = layout

    def body():
        grid = sg.init_grid((2, 3))
        a = sg.from_global(X, sg.Sharding(grid, axes), grid).reshard(sg.Sharding(grid, axes, **options))
        for of_i, of_j in (([[1]], [[0, 1]]), ([[0], [1]], []), ([[], [1, 0]], [[1]])):
            i, j = (sg.from_global(n, sg.Sharding(grid, s), grid) for n, s in ((ROWS, of_i), (COLUMNS, of_j)))
            for function in KEYS.values():
                same(function(a, i, j), function(X, ROWS, COLUMNS))

    spmd(6, body)


WRITES = {
    "two arrays": (lambda i, j: (i, j), (5, 4)),
    "a row": (lambda i, j: (i, j), (1, 1, 4)),
    "an integer before": (lambda i, j: (np.int64(4), j), (4,)),
    "an array of two dimensions": (lambda i, j: (i, 3), (5, 1)),
    "with a plain array": (lambda i, j: (np.arange(5)[:, None] % 3, j), (5, 4)),
    "no numbers": (lambda i, j: (i[:0], j), (0, 4)),
    "numbers alone": (lambda i, j: (i, j), ()),
}


@pytest.mark.parametrize("layout", [each for each in LAYOUTS if "partial_axes" not in each[1]], ids=str)
def test_writes_to_cells(spmd, layout):
    """Of cells that are named twice the last value counts, as in numpy."""
    axes, options = layout

    def body():
        grid = sg.init_grid((2, 3))
        spreads = [([[1]], [[0, 1]], [[0], [1]]), ([[0], [1]], [], [[], [], [1, 0]]), ([[], [1, 0]], [[1]], [])]
        for number, (key, shape) in enumerate(WRITES.values()):
            for of_i, of_j, of_v in spreads[number % 3 :][:2]:
                i, j = (sg.from_global(n, sg.Sharding(grid, s), grid) for n, s in ((ROWS, of_i), (COLUMNS, of_j)))
                values = np.arange(1.0, 1 + np.prod(shape)).reshape(shape) * 1000
                spread = sg.from_global(values, sg.Sharding(grid, of_v[: len(shape)]), grid)
                for value in (values, spread, -1):
                    a = sg.from_global(X, sg.Sharding(grid, axes, **options), grid)
                    want = X.copy()
                    want[key(ROWS, COLUMNS)] = values if value is spread else value
                    a[key(i, j)] = value
                    same(a, want)
                    same(a + 0, want)

    spmd(6, body)


@pytest.mark.parametrize("layout", LINES)
def test_rows(spmd, layout):
    x, n = np.arange(11.0) ** 2, RANDOM.integers(-11, 11, 17)

    def body():
        grid = sg.init_grid((2, 3))
        a, i = line(x, layout, grid), sg.from_global(n, sg.Sharding(grid, [[1, 0]]), grid)
        same(a[i], x[n])
        same(np.take(a, i), x[n])
        same(np.take_along_axis(a, i, 0), x[n])
        same(a[np.argsort(-a)], x[::-1])
        assert a[i].sharding == i.sharding

    spmd(6, body)


def test_rows_of_a_matrix(spmd):
    def body():
        grid = sg.init_grid((2, 3))
        j = sg.from_global(COLUMNS, sg.Sharding(grid, [[1]]), grid)
        for axes in ([[0], [1]], [[0, 1]], [[], [1]]):
            a = sg.from_global(X, sg.Sharding(grid, axes), grid)
            same(np.take(a, j, axis=1), X[:, COLUMNS])
            same(np.take(a, j, axis=0), X[COLUMNS])

    spmd(6, body)


def test_what_moves():
    """Cells 0 to 11 in blocks of 4; every rank asks the next for two cells, or twice for one.

    A number goes there, a double comes back; besides, counts of requests and bounds of the numbers are exchanged.
    """

    def body():
        grid = sg.init_grid((3,))
        rows = sg.Sharding(grid, [[0]])
        a = sg.from_function(lambda i: 1.0 * i, (12,), rows, grid)
        numbers = sg.from_global(np.array([5, 6, 8, 8, 1, 0]), rows, grid)
        return updates_and_bytes(lambda a: a[numbers], a)[1] // 8

    bounds, counts = 2 * 2, 2 * 3
    requests, replies = [2, 1, 2], [2, 2, 1]
    assert sg.run_spmd(body, ranks=3) == [bounds + counts + n + m for n, m in zip(requests, replies)]
