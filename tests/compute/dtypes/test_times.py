"""Dates and durations are reduced, scanned, sorted and chosen with numpy's values and dtypes, NaT included."""

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.errors import DTypeError

BLOCKS = [(5, 2), (7, 0), (0, 7)]
CELLS = np.array([[5, 30], [1, -4], [3, 3], [-7, 9], [2, 6], [7, 0], [0, 8]])
OF_BOTH = {
    "max": np.max,
    "min": np.min,
    "ptp": np.ptp,
    "argmax": np.argmax,
    "argmin": np.argmin,
    "nanmax": np.nanmax,
    "nanmin": np.nanmin,
    "nanargmax": np.nanargmax,
    "max along": lambda a: np.max(a, axis=0),
    "min along, keepdims": lambda a: np.min(a, axis=0, keepdims=True),
    "argmin along": lambda a: np.argmin(a, axis=0),
    "ptp along": lambda a: np.ptp(a, axis=1),
    "nanmax along": lambda a: np.nanmax(a, axis=1),
    "max, initial": lambda a: np.max(a, axis=0, initial=a.dtype.type(4, "h")),
    "max, where": lambda a: np.max(a, axis=0, initial=a.dtype.type(0, "h"), where=a > a.dtype.type(2, "h")),
    "maximum.reduce": np.maximum.reduce,
    "maximum.accumulate": np.maximum.accumulate,
    "fmin.accumulate": np.fmin.accumulate,
    "diff": lambda a: np.diff(a, axis=0),
    "gradient": lambda a: np.gradient(a, axis=0),
    "sort": lambda a: np.sort(a, axis=0),
    "argsort": lambda a: np.argsort(a[:, 0]),
    "unique": np.unique,
    "quantile": lambda a: np.quantile(a[:, 1], 0.3),
    "percentile along": lambda a: np.percentile(a, 40, axis=0),
    "nonzero": lambda a: np.nonzero(a)[0],
    "where": lambda a: np.where(a > a.dtype.type(2, "h"), a, np.flip(a)),
    "clip": lambda a: np.clip(a, a.dtype.type(0, "h"), a.dtype.type(4, "h")),
    "any": np.any,
    "isnat": np.isnat,
    "a method": lambda a: a.max(axis=0),
}
OF_DURATIONS = {
    "sum": np.sum,
    "sum along": lambda a: np.sum(a, axis=0),
    "sum, initial": lambda a: np.sum(a, initial=np.timedelta64(1, "D")),
    "sum, where": lambda a: np.sum(a, axis=0, where=a > np.timedelta64(2, "h")),
    "sum, dtype": lambda a: np.sum(a, dtype="f8"),
    "add.reduce": np.add.reduce,
    "add.accumulate": np.add.accumulate,
    "cumsum": lambda a: np.cumsum(a, axis=0),
    "cumsum of all": np.cumsum,
    "nancumsum": lambda a: np.nancumsum(a, axis=0),
    "nansum": np.nansum,
    "mean": np.mean,
    "mean along": lambda a: np.mean(a, axis=0),
    "mean, where": lambda a: np.mean(a, axis=0, where=a > np.timedelta64(2, "h")),
    "median": np.median,
    "average along": lambda a: np.mean(a, axis=1),
    "abs": np.abs,
    "sum of none": lambda a: np.sum(a[:0], axis=0),
    "mean of none": lambda a: np.mean(a[:0]),
}
REFUSED = {
    "M8[h]": [np.sum, np.mean, np.prod, np.cumsum, np.var, np.add.accumulate],
    "m8[h]": [np.prod, np.cumprod, np.var, np.std, lambda a: np.sum(a, dtype="m8[s]")],
}


def times(dtype, has_nat):
    x = CELLS.astype(dtype)
    if has_nat:
        x[3, 0] = "NaT"
    return x


def cut(x, blocks):
    grid = sg.init_grid((2,))
    offsets = [[0, blocks[0], sum(blocks)]]
    return sg.from_global(x, sg.Sharding(grid, [[0]], sharded_dims_offsets=offsets), grid)


def is_same(found, want):
    found = np.asarray(found.to_global() if isinstance(found, sg.ShardedArray) else found)
    want = np.asarray(want)
    return found.dtype.newbyteorder("=") == want.dtype.newbyteorder("=") and np.array_equal(
        found, want, equal_nan=want.dtype.kind in "mM"
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_values_are_those_of_numpy(spmd, blocks):
    def body():
        wrong = []
        for dtype in ("M8[h]", "m8[h]", ">m8[h]"):
            for has_nat in (False, True):
                x = times(dtype, has_nat)
                a = cut(x, blocks)
                for name, function in (OF_BOTH if "M" in dtype else OF_BOTH | OF_DURATIONS).items():
                    found, want = function(a), function(x)
                    if not is_same(found, want):
                        wrong.append((name, dtype, has_nat, found, want))
        return wrong

    assert spmd(2, body) == [[], []]


def test_what_numpy_refuses_is_refused_on_all_and_the_program_goes_on(spmd):
    def body():
        for dtype, functions in REFUSED.items():
            x = times(dtype, False)
            a = cut(x, (7, 0))
            for function in functions:
                with pytest.raises(TypeError):
                    function(x)
                with pytest.raises(DTypeError):
                    function(a)
        with pytest.raises(DTypeError, match="Python objects"):
            np.convolve(cut(times("m8[h]", True)[:, 0], (5, 2)), np.ones(2))
        return int(sg.sum(cut(CELLS, (5, 2))))

    assert spmd(2, body) == [63, 63]


@pytest.mark.parametrize("n", [3, 70_000])
def test_collectives_reduce_times(spmd, n):
    """Short arrays are folded by each member, long ones in slices or in a relay."""

    def body():
        grid = sg.init_grid((2,))
        x = (np.arange(n) * (1 - 2 * grid.rank)).astype("m8[s]")
        x[1] = "NaT" if grid.rank else 1
        total = sg.all_reduce(x, grid, [0], "sum")
        assert np.isnat(total[1]) and not total[2:].astype(int).any() and total.dtype == x.dtype
        latest = sg.all_reduce(np.datetime64(0, "s") + x, grid, [0], "max")
        assert np.isnat(latest[1]) and (latest[2:].astype(int) == np.arange(2, n)).all() and latest.dtype == "M8[s]"
        with pytest.raises(DTypeError, match="reduced by max, min"):
            sg.all_reduce(latest, grid, [0], "sum")
        with pytest.raises(DTypeError, match="reduced by sum, max, min"):
            sg.all_reduce(x, grid, [0], "average")
        return True

    assert spmd(2, body) == [True, True]


def test_partial_sums_of_durations(spmd):
    def body():
        grid = sg.init_grid((2,))
        x = np.arange(4).astype("m8[s]")
        partial = sg.from_local(x, sg.Sharding(grid, [], partial_axes=[0]), grid, (4,))
        whole = sg.reshard(partial.local, partial.sharding, sg.Sharding(grid, [[0]]), grid, (4,))
        return (whole == 2 * x[2 * grid.rank : 2 * grid.rank + 2]).all() and np.sum(partial) == np.timedelta64(12, "s")

    assert spmd(2, body) == [True, True]
