"""Sharded lists of numbers along one dimension, read and written, and functions that ask processes alike."""

import numpy as np
import pytest
from support.compute.layouts import LINES, line, same
from support.compute.updates import updates_and_bytes

import spmd_grid as sg
from spmd_grid.compute.indexing import requests

RANDOM = np.random.default_rng(5)
X = RANDOM.integers(0, 99, (7, 5, 4)) * 1.0
ROWS, COLUMNS = RANDOM.integers(-7, 7, 9), RANDOM.integers(-5, 5, 6)
MASK = X[:, 0, 0] > 40

LAYOUTS = [
    ([[0], [1]], {}),
    ([[], [0], [1]], {"halo_sizes": [1, 1, 0, 1]}),
    ([[1], [], [0]], {"blocks": "balanced"}),
    ([[0, 1]], {"sharded_dims_offsets": [[0, 0, 1, 5, 5, 6, 7]]}),
    ([], {}),
]
OF_LISTS = [[[0]], [[1, 0]], []]
KEYS = {
    "rows": lambda i, j, m: i,
    "columns of some rows": lambda i, j, m: np.s_[1:4, j],
    "after an ellipsis, an integer apart": lambda i, j, m: np.s_[..., j, 2],
    "an integer apart before": lambda i, j, m: np.s_[3, :, j % 4],
    "a new dimension": lambda i, j, m: np.s_[None, ::-1, j],
    "bools": lambda i, j, m: np.s_[m, 1:],
    "no rows": lambda i, j, m: i[:0],
}


@pytest.fixture
def in_rounds(monkeypatch):
    """Processes answer few requests at a time."""
    monkeypatch.setattr(requests, "_AT_ONCE", 1)


def lists(grid, number):
    axes = OF_LISTS[number % len(OF_LISTS)]
    return (
        sg.from_global(ROWS, sg.Sharding(grid, axes), grid),
        sg.from_global(COLUMNS, sg.Sharding(grid, axes, blocks="balanced"), grid),
        sg.from_global(MASK, sg.Sharding(grid, axes), grid),
    )


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_cells(spmd, layout):
    _check_cells(spmd, *layout)


def test_cells_in_rounds(spmd, in_rounds):
    _check_cells(spmd, *LAYOUTS[0])


def _check_cells(spmd, axes, options):

    def body():
        grid = sg.init_grid((2, 3))
        a = sg.from_global(X, sg.Sharding(grid, axes, **options), grid)
        for number, key in enumerate(KEYS.values()):
            same(a[key(*lists(grid, number + len(axes)))], X[key(ROWS, COLUMNS, MASK)])
        same(np.take(a, lists(grid, 0)[1], axis=1), np.take(X, COLUMNS, axis=1))

    spmd(6, body)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_cells_are_written(spmd, layout):
    _check_writing(spmd, *layout)


def test_cells_are_written_in_rounds(spmd, in_rounds):
    _check_writing(spmd, *LAYOUTS[3])


def _check_writing(spmd, axes, options):
    """The last of equal numbers counts, whichever process has it."""

    def body():
        grid = sg.init_grid((2, 3))
        for number, (name, key) in enumerate(KEYS.items()):
            want = X.copy()
            shape = want[key(ROWS, COLUMNS, MASK)].shape
            values = np.arange(np.prod(shape)).reshape(shape) + 0.5
            given = [
                (values, values),
                (7, 7),
                (values[:1], values[:1]),
                (values, sg.from_global(values, sg.Sharding(grid, [[], [1]]), grid)),
            ]
            plain, value = given[(number + len(axes)) % len(given)]
            a = sg.from_global(X, sg.Sharding(grid, axes, **options), grid)
            a[key(*lists(grid, number))] = value
            want[key(ROWS, COLUMNS, MASK)] = plain
            np.testing.assert_array_equal(a.to_global(), want, name)

    spmd(6, body)


def test_layouts_of_results(spmd):
    def body():
        grid = sg.init_grid((2, 3))
        a = sg.from_global(X, sg.Sharding(grid, [[0], [1]]), grid)
        i = sg.from_global(ROWS, sg.Sharding(grid, [[1, 0]]), grid)
        return [a[i].sharding.axes_of(d) for d in range(3)]

    assert spmd(6, body)[0] == [(0,), (1,), ()]  # axis 1 cuts the columns already


def test_what_moves():
    """Rows of 3 doubles in blocks of 2; every rank asks the next for one row, though it names it twice."""

    def body():
        grid = sg.init_grid((3,))
        rows = sg.Sharding(grid, [[0]])
        a = sg.from_function(lambda i, j: 1.0 * i + j, (6, 3), rows, grid)
        numbers = sg.from_global(np.array([2, 2, 4, 4, 0, 0]), rows, grid)
        read = updates_and_bytes(lambda a: a[numbers], a)[1] // 8
        values = sg.from_function(lambda i, j: 1.0 * i + j, (6, 3), rows, grid)
        written = updates_and_bytes(lambda a: a.__setitem__(numbers, values), a)[1] // 8
        return read, written

    bounds, counts, row = 2 * 2, 2 * 3, 3
    assert sg.run_spmd(body, ranks=3) == [(bounds + counts + 1 + row, bounds + counts + 2 + row)] * 3


# -- functions that ask alike --------------------------------------------------------------------------------------


def test_searchsorted_in_rounds(spmd, in_rounds):
    _check_searches(spmd, "offsets")


@pytest.mark.parametrize("of_cells", [name for name in LINES if name != "partial"])
def test_searchsorted(spmd, of_cells):
    _check_searches(spmd, of_cells)


def _check_searches(spmd, of_cells):
    cells, values = np.sort(RANDOM.integers(0, 9, 11)) * 1.0, RANDOM.integers(-1, 10, 17).astype("f4")
    cells[-2:], values[3] = np.nan, np.nan

    def body():
        grid = sg.init_grid((2, 3))
        a = line(cells, of_cells, grid)
        for name in LINES:
            v = line(values, name, grid)
            for side in ("left", "right"):
                same(np.searchsorted(a, v, side), np.searchsorted(cells, values, side))
        same(np.searchsorted(a, v.reshape(1, 17)), np.searchsorted(cells, values.reshape(1, 17)))
        same(np.searchsorted(a[:0], v), np.searchsorted(cells[:0], values))

    spmd(6, body)


@pytest.mark.parametrize("of_times", LINES)
def test_repeat(spmd, of_times):
    times = RANDOM.integers(0, 4, 7)

    def body():
        grid = sg.init_grid((2, 3))
        n = line(times, of_times, grid)
        for axes, options in LAYOUTS:
            a = sg.from_global(X, sg.Sharding(grid, axes, **options), grid)
            same(np.repeat(a, n, axis=0), np.repeat(X, times, axis=0))
            same(np.repeat(a[:, 1, 0], n), np.repeat(X[:, 1, 0], times))
        twice = np.arange(20) % 3
        same(np.repeat(a[0], line(twice, "rows", grid)), np.repeat(X[0], twice))

    spmd(6, body)


def test_refusals(spmd):
    def body():
        grid = sg.init_grid((2,))
        rows = sg.Sharding(grid, [[0]])
        a = sg.zeros((4, 3), rows, grid)
        i = sg.from_global(np.arange(4), rows, grid)
        refused = [
            (IndexError, "out of bounds for dimension 1 with extent 3", lambda: a[:, i]),
            (IndexError, "4 bools for dimension 1 with extent 3", lambda: a[:, i > 1]),
            (sg.ImplicitGatherError, r"sharded array of shape \(2, 2\)", lambda: a[i.reshape(2, 2), 1:]),
            (sg.ImplicitGatherError, "of dtype|and dtype float64", lambda: a[i * 1.0, 1:]),
            (sg.ImplicitGatherError, "2 lists", lambda: a.__setitem__((i, i % 3, slice(None)), 1.0)),
            (sg.ShapeError, r"value has shape \(2, 3\)", lambda: a.__setitem__(i, np.ones((2, 3)))),
        ]
        for error, message, call in refused:
            with pytest.raises(error, match=message):
                call()
        assert not a.to_global().any()

    spmd(2, body)
