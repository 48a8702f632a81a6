"""Sums of long runs: by rows against their twin in numpy, bit for bit, and whole runs against exact sums."""

from math import fsum

import numpy as np
import pytest

from spmd_grid import kernels
from spmd_grid.functions.reductions.totals import total
from spmd_grid.kernels import reference

SUMS = {"f4": "sum_rows_f4", "f8": "sum_rows_f8"}


def cells_of(dtype, n):
    draw = np.random.default_rng(n)
    return (draw.standard_normal(n) * 10.0 ** draw.integers(-9, 9, n)).astype(dtype)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 23])
@pytest.mark.parametrize("dtype", SUMS)
def test_rows(dtype, n):
    cells = cells_of(dtype, n * 4096 // np.dtype(dtype).itemsize + 1)[1:]  # which do not begin on a line
    cells[:9] = [0.0, -0.0, 1.0, -1.0, 5e-39, -5e-39, 2.0, 3.0, 4.0]

    def found():
        levels = np.empty(64)
        getattr(kernels, SUMS[dtype])(kernels.address_of(cells), n, 4096, kernels.address_of(levels))
        return levels[0]

    assert found().tobytes() == np.float64(reference.sum_rows(cells.reshape(n, -1))).tobytes()
    cells[-1] = np.inf
    assert found() == np.inf
    cells[:] = -0.0
    assert found() == 0.0 and np.signbit(found())


@pytest.mark.parametrize("dtype", SUMS)
@pytest.mark.parametrize("shape", [(300, 301), (257, 513), (2, 1 << 16)])
def test_totals_are_as_close_as_those_of_numpy(dtype, shape):
    cells = cells_of(dtype, shape[0] * shape[1]).reshape(shape)
    exact, weight = fsum(cells.ravel().tolist()), fsum(abs(cells).ravel().tolist())
    for each in (cells, np.asfortranarray(cells), cells.T):
        found = total(each, each.dtype)
        assert type(found) is np.float64
        assert abs(found - exact) <= 36 * weight * np.finfo(dtype).eps / 2  # the bound of pairwise sums
    for special in (np.inf, -np.inf, np.nan):
        spoilt = cells.copy()
        spoilt[-1, -1] = special
        np.testing.assert_equal(total(spoilt, spoilt.dtype), special)
        spoilt[0, 7] = -special
        with np.errstate(invalid="ignore"):  # as reductions do
            assert np.isnan(total(spoilt, spoilt.dtype))
    assert total(np.full(shape, -0.0, dtype), np.dtype(dtype)) == 0.0
