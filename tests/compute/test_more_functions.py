"""Functions made of slices, windows and other functions, on several layouts, against numpy on the global array."""

import numpy as np
import pytest
from support.compute.layouts import LINES, gathered, line, same
from test_functions import globals_of, sharded
from test_what_moves import bytes_received

import spmd_grid as sg

windows = np.lib.stride_tricks.sliding_window_view

MATRIX = {
    "pad by numbers": lambda a, b: np.pad(a, ((1, 2), (0, 3)), constant_values=((1, 2), (3, 4))),
    "pad, edge": lambda a, b: np.pad(a, ((9, 1), (0, 2)), mode="edge"),
    "pad, reflect": lambda a, b: np.pad(a, ((3, 20), (6, 2)), mode="reflect"),
    "pad, symmetric": lambda a, b: np.pad(a, ((15, 2), (1, 0)), mode="symmetric"),
    "pad, wrap": lambda a, b: np.pad(a, ((3, 9), (2, 1)), mode="wrap"),
    "pad, ramp": lambda a, b: np.pad(a, 3, mode="linear_ramp", end_values=((5, -4), (0, 1))),
    "pad, ramp of ints": lambda a, b: np.pad(a.astype("i4"), 2, mode="linear_ramp", end_values=7),
    "repeat": lambda a, b: np.repeat(a, [2, 0, 1, 3, 0, 0, 1], axis=0),
    "repeat, columns": lambda a, b: np.repeat(a, [0, 2, 1, 0, 4], axis=1) + np.repeat(a, [3], axis=0)[::3, :1],
    "reshape, columns first": lambda a, b: np.reshape(a, (5, -1), order="F") + b.reshape(5, 7, order="A"),
    "ravel, columns first": lambda a, b: np.ravel(a, order="F") - np.ravel(b, "K"),
    "windows": lambda a, b: windows(a, 3, 0) + b[2:, :, None],
    "windows of two dimensions": lambda a, b: windows(a, (4, 2)).sum(axis=(2, 3)),
    "windows, twice along one": lambda a, b: windows(a, (2, 3), (0, 0)),
    "windows, as long as the array": lambda a, b: windows(a, 7, axis=0),
    "convolve": lambda a, b: np.convolve(a[:, 1], [1, 2.0, -1, 3]) + np.convolve(b[:, 0], [1.0, 0, 0, 2]),
    "convolve, same": lambda a, b: np.convolve(a[:, 1], [1, 2.0, -1], "same") + np.convolve(b[:, 0], [4, 1], "same"),
    "correlate": lambda a, b: np.correlate(a[:, 1], [1, 2j, -1]) + np.correlate(a[:, 0], [1.0, 0, 2]),
    "correlate, full": lambda a, b: np.correlate(a[:, 1], [1, 2.0, 4, 5, 6, 7, 8], "full"),
    "gradient": lambda a, b: np.gradient(a)[0] + np.gradient(b, 0.5, edge_order=2)[1],
    "gradient, coordinates": lambda a, b: np.gradient(a, np.array([0, 1, 3, 4, 8, 9, 9.5]), axis=0, edge_order=2),
    "gradient, coordinates, first order": lambda a, b: np.gradient(a, [0, 1, 3, 4, 9], axis=1),
    "gradient of ints": lambda a, b: np.gradient(a.astype(int), axis=-1),
    "unwrap": lambda a, b: np.unwrap(a * 3, axis=0) + np.unwrap(b.astype(int), period=4),
    "cov": lambda a, b: np.cov(a) + np.cov(b, ddof=0),
    "cov of columns": lambda a, b: np.cov(a, rowvar=False) + np.corrcoef(b, rowvar=False),
    "cov of two": lambda a, b: np.cov(a[0], b[1] * 1j),
    "accumulate": lambda a, b: np.maximum.accumulate(a) + np.add.accumulate(b, axis=1),
    "accumulate of bools": lambda a, b: np.logical_and.accumulate(a > -4, axis=0) ^ np.logical_or.accumulate(b > 2, 1),
    "accumulate, dtype": lambda a, b: np.multiply.accumulate(a.astype("i2"), 0, "f4") + np.fmin.accumulate(a, 1),
    "stacks": lambda a, b: np.dstack([a, b]) + np.column_stack([a[:, 0], b[:, :4]])[:, :, None],
    "append": lambda a, b: np.append(a, b, axis=1)[:, :4] + np.append(a, [1.0])[:4],
    "block": lambda a, b: np.block([[a, b[:, :1]], [b[:2], np.ones((2, 1))]]) + np.block([a[0], 7])[0],
    "splits": lambda a, b: np.hsplit(a, [2])[1] + np.vsplit(b, [7])[0][:, 2:] + np.array_split(a, 2, 1)[0],
    "rot90": lambda a, b: np.rot90(a) + np.rot90(b, 3) + np.rot90(np.rot90(a, 2), -1, (1, 0)),
    "broadcast_arrays": lambda a, b: sum(np.broadcast_arrays(a, b[0], b[:, :1])),
    "meshgrid": lambda a, b: (
        sum(np.meshgrid(a[0], b[:, 1])) + sum(np.meshgrid(a[:, 0], b[0], indexing="ij", sparse=True))
    ),
    "diagonal": lambda a, b: np.diagonal(a)[:4] + np.diag(b, 1) + np.diagonal(a, -3),
    "diag": lambda a, b: np.diag(a[:, 1], 2) + np.diag(b[:, 0], -2) + np.diagflat(a[:3, :3]),
    "vander": lambda a, b: np.vander(a[:, 1], 4) + np.vander(b[:, 1].astype("i4"), 4, increasing=True),
    "ediff1d": lambda a, b: np.ediff1d(a, to_begin=[0.5], to_end=7.0),
    "select": lambda a, b: np.select([a > 2, b < 0], [a, b * 10], 9) + np.select([a > 0], [1], 0.5),
    "piecewise": lambda a, b: np.piecewise(a, [a < -1, a > b], [lambda x: x * x, -1.0, lambda x: x + 10]),
    "take_along_axis": lambda a, b: np.take_along_axis(a, np.argsort(b, axis=0), axis=0),
    "take_along_axis, plain": lambda a, b: np.take_along_axis(a, np.array([[1, -1, 4]]), axis=1),
    "apply_along_axis": lambda a, b: np.apply_along_axis(np.sort, 1, a) + np.apply_along_axis(np.ptp, 1, b)[:, None],
    "apply_along_axis, more": lambda a, b: np.apply_along_axis(lambda row: np.outer(row, row[:2]), 0, a),
    "atleast": lambda a, b: np.atleast_3d(a[0])[0] + np.atleast_2d(b[1]).T + np.atleast_1d(b[0, 0]),
}

PAIRS = [("blocks", "swapped, halos"), ("columns, balanced", "offsets"), ("offsets", "rows")]


@pytest.mark.parametrize("function", MATRIX)
def test_functions(spmd, function, request):
    """Each function on another pair of layouts than the one before; with --full on all."""
    chosen = PAIRS if request.config.getoption("full") else PAIRS[list(MATRIX).index(function) % len(PAIRS) :][:1]

    def body():
        grid, (x, y) = sg.init_grid((2, 3)), globals_of()
        want = MATRIX[function](x, y)
        for one, other in chosen:
            same(MATRIX[function](sharded(x, one, grid), sharded(y, other, grid)), want)

    spmd(6, body)


IN_PLACE = {
    "nan_to_num": lambda a, b: np.nan_to_num(a, copy=False, nan=3.0),
    "copyto": lambda a, b: np.copyto(a, b[2]),
    "copyto, where": lambda a, b: np.copyto(a, b, where=b > 0),
    "copyto a number": lambda a, b: np.copyto(a, 7, where=a > 1),
    "fill_diagonal": lambda a, b: np.fill_diagonal(a, 5),
    "put_along_axis": lambda a, b: np.put_along_axis(a, np.array([[0, 2, 1, 1, 6]]), 9.0, axis=0),
    "put_along_axis, arrays": lambda a, b: np.put_along_axis(a, np.argsort(b, axis=1), b, axis=1),
    "sort": lambda a, b: a.sort(axis=0),
    "fill": lambda a, b: a.fill(4),
    "accumulate": lambda a, b: np.add.accumulate(b, axis=1, out=a),
}


@pytest.mark.parametrize("function", IN_PLACE)
def test_functions_in_place(spmd, function):
    def body():
        grid, (x, y) = sg.init_grid((2, 3)), globals_of()
        for layout in ("blocks", "offsets", "swapped, halos"):
            a, b, want = sharded(x, layout, grid), sharded(y, layout, grid), x.copy()
            assert (IN_PLACE[function](a, b) is a) == (IN_PLACE[function](want, y) is want)
            same(a, want)

    spmd(6, body)


@pytest.mark.parametrize("layout", LINES)
def test_windows_of_any_layout(spmd, layout):
    """Blocks without cells, blocks shorter than windows, halos, partial values; windows as long as the array."""
    x = np.arange(11.0) ** 2

    def body():
        grid = sg.init_grid((2, 3))
        a = line(x, layout, grid)
        for width in (1, 4, 11):
            same(windows(a, width), windows(x, width))
            kernel = np.arange(1.0, width + 1)
            for mode in ("valid", "same", "full"):
                same(np.convolve(a, kernel, mode), np.convolve(x, kernel, mode))
                same(np.correlate(a, kernel, mode), np.correlate(x, kernel, mode))
        same(np.maximum.accumulate(a), np.maximum.accumulate(x))
        same(np.minimum.accumulate(a), np.minimum.accumulate(x))

    spmd(6, body)


def test_windows_move_borders_alone():
    """12 doubles on 4 ranks, windows of 4: 9 results in blocks of 3, 3, 3, 0, so rank 3 sends all of its cells."""

    def body():
        grid = sg.init_grid((4,))
        a = sg.from_function(lambda i: 1.0 * i, (12,), sg.Sharding(grid, [[0]]), grid)
        moved = [
            bytes_received(lambda a: windows(a, 4), a),
            bytes_received(lambda a: np.convolve(a, [1, 1, 1], "same"), a),
        ]
        return [n // 8 for n in moved]

    assert sg.run_spmd(body, ranks=4) == [[0, 1], [3, 2], [3, 2], [3, 1]]


def test_repeated_cells_stay_on_their_process():
    def body():
        grid = sg.init_grid((3,))
        a = sg.from_function(lambda i: i, (6,), sg.Sharding(grid, [[0]]), grid)
        assert bytes_received(lambda a: np.repeat(a, [0, 3, 1, 1, 0, 2]), a) == 0
        return gathered(np.repeat(a, [0, 3, 1, 1, 0, 2])).tolist()

    assert sg.run_spmd(body, ranks=3)[0] == [1, 1, 1, 2, 3, 5, 5]


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_on_other_grids(spmd, ranks):
    def body():
        grid = sg.init_grid((ranks,))
        a = sg.from_function(lambda i, j: j * 1.0, (5, 4), sg.Sharding(grid, [[0]]), grid)
        same(np.array_equiv(a, np.arange(4.0)), True)
        same(np.array_equiv(a, a[:3]), False)
        same(np.array_equiv(a, a + 1), False)
        same(np.subtract.accumulate(a, axis=1), np.subtract.accumulate(gathered(a), axis=1))  # which is not cut

    spmd(ranks, body)
