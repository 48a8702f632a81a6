"""xarray's DataArray around a sharded array: it stays one, and is never gathered in silence."""

import sys
from pathlib import Path

import numpy as np
import pytest
from support.jobs import clean_environment
from support.patience import run_in_time

import spmd_grid as sg

ROOT = str(Path(__file__).resolve().parents[2])


@pytest.fixture(autouse=True, scope="module")
def _imported():
    """Imports xarray, which takes half a second, where tests of it run."""
    global xr
    xr = pytest.importorskip("xarray")


N = 7, 5
WHOLE = np.random.default_rng(16).permutation(35).reshape(N) / 4.0
GAPS = np.where(WHOLE % 3 == 0, np.nan, WHOLE)

EXPRESSIONS = {
    "arithmetic": lambda a: (2 * a - a**2) / (a + 1),
    "functions": lambda a: np.exp(-a) + np.maximum(a, 3),
    "broadcasting by name": lambda a: a * a.isel(x=2) + a.mean("y"),
    "comparisons": lambda a: (a > 2) & (a < 7),
    "isel": lambda a: a.isel(x=slice(1, 6, 2), y=3),
    "isel, backwards": lambda a: a.isel(x=slice(None, None, -1)),
    "index": lambda a: a[2:, 1:-1],
    "mean": lambda a: a.mean("x"),
    "sum": lambda a: a.sum("y"),
    "sum of all": lambda a: a.sum(),
    "max, min": lambda a: a.max("x") - a.min("x"),
    "std, var": lambda a: a.std("x") + a.var("x"),
    "without skipna": lambda a: a.fillna(0.0).mean("x", skipna=False),
    "count": lambda a: a.count("x"),
    "transpose": lambda a: a.transpose("y", "x"),
    "T": lambda a: a.T,
    "where": lambda a: a.where(a > 3),
    "where, other": lambda a: a.where(a > 3, -1.0),
    "fillna": lambda a: a.fillna(9.0),
    "isnull": lambda a: a.isnull(),
    "roll": lambda a: a.roll(x=2, y=-1, roll_coords=False),
    "shift": lambda a: a.shift(x=2),
    "shift, back": lambda a: a.shift(y=-1, fill_value=0.0),
    "diff": lambda a: a.diff("x"),
    "astype": lambda a: a.fillna(0.0).astype("f4"),
    "expand_dims": lambda a: a.expand_dims("t"),
    "xr.concat": lambda a: xr.concat([a, a + 1], dim="x"),
    "xr.where": lambda a: xr.where(a > 2, a, 0.0),
}
LAYOUTS = {"rows": ([[0, 1]], {}), "swapped, halos": ([[1], [0]], {"halo_sizes": [1, 2, 0, 1]})}


def wrapped(values, grid, layout):
    axes, options = LAYOUTS[layout]
    a = sg.from_global(values, sg.Sharding(grid, axes, **options), grid)
    return xr.DataArray(a, dims=("x", "y"), name="a")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("values", [WHOLE, GAPS], ids=["whole", "gaps"])
def test_expressions_are_those_of_numpy_arrays(spmd, values, layout):
    def body():
        grid = sg.init_grid((3, 1) if layout == "rows" else (1, 3))
        a, plain = wrapped(values, grid, layout), xr.DataArray(values, dims=("x", "y"), name="a")
        wrong = []
        for name, expression in EXPRESSIONS.items():
            with sg.use_sharding_defaults(grid, "longest"):  # where xarray makes arrays of numbers
                found = expression(a)
            expected = expression(plain)
            if not isinstance(found.data, sg.ShardedArray):
                ok = expected.ndim == 0 and np.allclose(found.data, expected.data, equal_nan=True)
            else:
                whole = found.data.to_global()
                ok = whole.dtype == expected.dtype and np.allclose(whole, expected.data, equal_nan=True)
            ok = ok and found.dims == expected.dims
            if sg.all_reduce(int(not ok), grid, [0, 1], "sum"):
                wrong.append(name)
        return wrong

    assert all(wrong == [] for wrong in spmd(3, body))


def test_values_are_refused(spmd):
    def body():
        grid = sg.init_grid((3, 1))
        a = wrapped(WHOLE, grid, "rows")
        for gather in (lambda: a.values, lambda: a.to_numpy(), lambda: np.asarray(a), a.to_pandas):
            with pytest.raises(sg.ImplicitGatherError, match=r"to_global\(\)"):
                gather()
        assert "ShardedArray" in repr(a) and "<img" in a._repr_html_()
        return np.array_equal(a.data.to_global(), WHOLE)

    assert all(spmd(3, body))


def test_coordinates_and_datasets(spmd):
    """Labels are numpy arrays that all processes hold; variables may be sharded."""

    def body():
        grid = sg.init_grid((3, 1))
        a = wrapped(WHOLE, grid, "rows").assign_coords(x=10 * np.arange(7))
        chosen = a.sel(x=slice(20, 50)) + a.sel(x=30)
        sets = xr.Dataset({"a": a, "b": 2 * a}).mean("x")
        plain = xr.DataArray(WHOLE, dims=("x", "y")).assign_coords(x=10 * np.arange(7))
        expected = plain.sel(x=slice(20, 50)) + plain.sel(x=30)
        return (
            np.allclose(chosen.data.to_global(), expected.data)
            and np.array_equal(chosen.x, expected.x)
            and np.allclose(sets.b.data.to_global(), 2 * WHOLE.mean(0))
        )

    assert all(spmd(3, body))


FRESH = """
import numpy as np, xarray as xr, spmd_grid as sg
def body():
    grid = sg.init_grid((2,))
    x = np.arange(12.0).reshape(4, 3)
    a = xr.DataArray(sg.from_global(x, sg.Sharding(grid, [[0]]), grid), dims=("t", "x"))
    found = a.mean("t")
    assert type(found.data) is sg.ShardedArray and np.array_equal(found.data.to_global(), x.mean(0))
    assert a.data.__array_namespace__() is sg.array_api
sg.run_spmd(body, ranks=2)
"""


def test_in_a_program_that_has_used_nothing_else():
    done = run_in_time([sys.executable, "-c", FRESH], env=clean_environment(PYTHONPATH=ROOT), limit=120)
    assert done.returncode == 0, done.stderr
