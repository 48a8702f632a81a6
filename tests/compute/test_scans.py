"""Running sums and their like along dimensions that are followed by many cells, against numpy's bits."""

import numpy as np
import pytest
from support.same_bytes import same_bytes

import spmd_grid as sg
from spmd_grid.functions.reductions.scans import ASSOCIATIVE, scanned, scanned_dtype

WIDE = 4, 9, 150  # cells of a row: taken row by row


def cells_of(dtype):
    draw = np.random.default_rng(5)
    cells = draw.integers(-3, 4, WIDE) * draw.random(WIDE)
    cells[draw.random(WIDE) < 0.02] = -0.0
    with np.errstate(all="ignore"):
        return cells.astype(dtype)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "f2", "f4", "f8", "c8"])
def test_rows_give_the_bits_of_columns(dtype):
    x = cells_of(dtype)
    functions = [(np.cumsum, np.add), (np.cumprod, np.multiply), *[(f.accumulate, f) for f in ASSOCIATIVE]]
    for function, combine in [*functions, (np.arctan2.accumulate, np.arctan2)]:
        for wanted in (None, "f4", "c16"):
            with np.errstate(all="ignore"):
                try:
                    expected = function(x, axis=1, dtype=wanted)
                except TypeError:  # as of complex numbers, which are not ordered
                    continue
                kind = scanned_dtype("scan", function, combine, x.dtype, wanted)
                for turned in (x, np.asfortranarray(x)):
                    found = scanned(function, combine, turned, 1, kind)
                    assert same_bytes(found, expected), (combine, wanted)


@pytest.mark.parametrize("ranks", [1, 3])
def test_wide_scans(spmd, ranks):
    x = cells_of("i2")

    def body():
        grid = sg.init_grid((-1,))
        for axes in ([[0]], [[], [0]], [[], [], [0]]):
            a = sg.from_global(x, sg.Sharding(grid, axes, halo_sizes=[1, 0]), grid)
            for axis in (0, 1, 2):
                before = a.to_global()
                found = np.cumsum(a, axis=axis)
                assert found.dtype == np.int64 and np.array_equal(found.to_global(), np.cumsum(x, axis=axis))
                low = np.minimum.accumulate(a, axis=axis)
                assert np.array_equal(low.to_global(), np.minimum.accumulate(x, axis=axis))
                assert np.array_equal(a.to_global(), before)
            program = sg.trace(lambda y: np.cumprod(y, axis=0, dtype="f8"), sg.ArraySpec(WIDE, "i2"))
            part = sg.partition(program, grid, [sg.Sharding(grid, axes)])
            expected = np.cumprod(x, axis=0, dtype="f8")
            found = part.run(grid, a.reshard(sg.Sharding(grid, axes)))
            assert np.array_equal(found.to_global(), expected)

    spmd(ranks, body)
