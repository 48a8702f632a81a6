"""Functions made of slices, windows and other functions, on several layouts, against numpy on the global array."""

import numpy as np
import pytest
from support.compute.functions import COMPOSED, IN_PLACE, MATRIX, SCALARS, globals_of, windows
from support.compute.layouts import LINES, gathered, growing, line, same
from support.compute.moving import bytes_sent
from test_functions import sharded

import spmd_grid as sg

PAIRS = [("blocks", "swapped, halos"), ("columns, balanced", "offsets"), ("offsets", "rows")]


@pytest.mark.parametrize("function", COMPOSED)
def test_functions(spmd, function, request):
    """Each function on another pair of layouts than the one before; with --full on all."""
    chosen = PAIRS if request.config.getoption("full") else PAIRS[list(COMPOSED).index(function) % len(PAIRS) :][:1]

    def body():
        grid, (x, y) = sg.init_grid((2, 3)), globals_of()
        want = COMPOSED[function](x, y)
        for one, other in chosen:
            same(COMPOSED[function](sharded(x, one, grid), sharded(y, other, grid)), want)

    spmd(6, body)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
def test_functions_on_fewer_ranks(spmd, ranks, request):
    """Each function on one number of ranks; with --full on all."""
    functions = [*MATRIX.values(), *COMPOSED.values(), *SCALARS.values()]
    chosen = functions if request.config.getoption("full") else functions[ranks - 1 :: 5]

    def body():
        grid, (x, y) = sg.init_grid((ranks,)), globals_of()
        rows, halos, columns = growing(grid, x.shape)
        for number, function in enumerate(chosen):
            one, other = [(rows, halos), (halos, columns), (columns, rows)][number % 3]
            same(function(sg.from_global(x, one, grid), sg.from_global(y, other, grid)), function(x, y))

    spmd(ranks, body)


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
            bytes_sent(lambda a: windows(a, 4), a),
            bytes_sent(lambda a: np.convolve(a, [1, 1, 1], "same"), a),
        ]
        return [n // 8 for n in moved]

    assert sg.run_spmd(body, ranks=4) == [[0, 1], [3, 2], [3, 2], [3, 1]]


def test_repeated_cells_stay_on_their_process():
    def body():
        grid = sg.init_grid((3,))
        a = sg.from_function(lambda i: i, (6,), sg.Sharding(grid, [[0]]), grid)
        assert bytes_sent(lambda a: np.repeat(a, [0, 3, 1, 1, 0, 2]), a) == 0
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
