"""Reductions that leave out NaNs, and averages that return their weights, against numpy."""

import numpy as np
import pytest
from support.compute.functions import WITHOUT_NANS

import spmd_grid as sg


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("function", WITHOUT_NANS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "?", "D"])
def test_against_numpy(spmd, function, dtype):
    if dtype == "D" and function in ("nanmedian",):
        pytest.skip("numpy sorts complex NaNs to the end")
    x = np.random.default_rng(4).integers(-4, 5, (7, 5)).astype(dtype)
    if dtype in ("f8", "f4", "D"):
        x[[0, 2, 2, 5, 6], [1, 0, 4, 4, 2]] = np.nan
        x[0] = np.nan  # a row without a number

    def body():
        grid = sg.init_grid((2, 3))
        layouts = ([[0], [1]], {}), ([[1], [0]], {"halo_sizes": [1, 1, 1, 0]}), ([[0, 1]], {})
        for number, (axes, options) in enumerate(layouts):
            a = sg.ShardedArray.from_global(x, sg.Sharding(grid, axes, **options), grid)
            for i, axis in enumerate((None, 0, 1)):
                call = {"axis": axis, "keepdims": (number + i) % 2 == 0}
                want = WITHOUT_NANS[function](x, **call)
                found = WITHOUT_NANS[function](a, **call)
                for one, other in zip(*(each if type(want) is tuple else (each,) for each in (found, want))):
                    got = np.asarray(one.to_global() if isinstance(one, sg.ShardedArray) else one)
                    other = np.asarray(other)
                    assert (got.dtype, got.shape) == (other.dtype, other.shape), (call, got, other)
                    np.testing.assert_allclose(got, other, rtol=1e-5 if dtype == "f4" else 1e-12)

    spmd(6, body)


def test_no_number_has_no_position(spmd):
    def body():
        grid = sg.init_grid((3,))
        a = sg.ShardedArray.from_global(np.array([[1, np.nan], [np.nan, np.nan]]), sg.Sharding(grid, [[0]]), grid)
        with pytest.raises(ValueError, match="All-NaN slice"):
            np.nanargmax(a, axis=1)
        with pytest.raises(ValueError, match="initial must be given"):
            np.nanmax(a, where=a > 0)
        return np.nanargmax(a)

    assert spmd(3, body) == [0] * 3
