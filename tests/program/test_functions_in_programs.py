"""Every function of the table of rules in a traced program, against numpy, from several shardings."""

import numpy as np
import pytest
from support.compute.functions import ASSIGNMENTS, COMPOSED, COUNTS, IN_PLACE, MATRIX, SCALARS, WITHOUT_NANS, globals_of
from support.compute.moving import bytes_sent
from support.program.running import SHARDINGS, Case, check, sharding_of

import spmd_grid as sg
from spmd_grid.functions.table import _TABLE
from spmd_grid.program.trace import traced_array
from spmd_grid.program.trace.eager import DATA_DEPENDENT

PER_TEST = 20
RANDOM = np.random.default_rng(8)
ROWS = np.round(RANDOM.normal(size=40), 1), RANDOM.integers(0, 9, 40), RANDOM.random(40)

# Functions that those tables leave out.
OTHERS = {
    "copies of shape": lambda a, b: np.zeros_like(a) + np.full_like(b, 3) + np.empty_like(a, dtype="i2") * 0,
    "parts": lambda a, b: np.real(a * 1j) + np.imag(b * 1j) + np.angle(a) + np.isreal(a) + np.iscomplex(b),
    "infinities": lambda a, b: np.isposinf(a / 0) + np.isneginf(b) + np.i0(a / 9) + np.sinc(b),
    "rounding": lambda a, b: np.round(a / 3, 1) + np.around(b),
    "orders": lambda a, b: np.partition(np.ravel(a), 3)[3] + np.sort(b, axis=None)[:5] + np.sort(a[:, 0])[2],
    "places": lambda a, b: (
        np.median(a) + np.quantile(b, [0.1, 0.5])[0] + np.percentile(a[:, 1], 30) + np.median(b, keepdims=True)
    ),
    "quantiles of rows": lambda a, b: np.quantile(a, 0.3, axis=1) + np.percentile(b, [5.0], axis=1)[0],
    "argpartition": lambda a, b: a[:, 1][np.array([0, 1])] + np.argpartition(b[:, 1], 6)[6] * 0,
    "lists": lambda a, b: a[[0, 3, -1]] + b[1:, [2, 0, 4]][:3, :1] + np.take(a, [1, 1, 6], axis=0),
    "by arrays of numbers": lambda a, b: (
        a[np.argsort(b[:, 0]), 1] + np.ravel(a)[np.argmax(b, axis=1)] + a[:, 2][np.argsort(b[:, 3])]
    ),
    "isin": lambda a, b: np.isin(a, [1.5, -0.5]) | np.isin(a, b[2] * 2, invert=True),
    "tables of the program": lambda a, b: (
        np.digitize(a, np.sort(b[:, 0])) + np.searchsorted(np.sort(b[0]), a) + np.interp(a, np.sort(b[1]), a[0])
    ),
    "products": lambda a, b: (
        np.vecdot(a, b)[:, None] + np.matvec(a, b[0])[:, None] + np.vecmat(a[:, 0], b) + np.kron(a[:1, :1], b)
    ),
    "linear algebra": lambda a, b: (
        np.linalg.multi_dot([a, b.T, a])
        + np.linalg.outer(a[:, 0], b[0])
        + np.linalg.matmul(a, b.T)[0, 0]
        + np.linalg.tensordot(a, b, axes=2)
        + np.linalg.vecdot(a, b)[:, None]
    ),
    "powers": lambda a, b: (
        np.linalg.matrix_power(a[:5], 3) + np.linalg.trace(b[:5]) + np.linalg.diagonal(a[:5]) + np.trace(a)
    ),
    "cross": lambda a, b: np.cross(a[:, :3], b[:, 2:]) + np.linalg.cross(a[:, 1:4], b[:, :3]),
    "norms": lambda a, b: np.linalg.vector_norm(a, axis=1) + np.linalg.matrix_norm(b) + np.linalg.norm(a, axis=1),
    "permute_dims": lambda a, b: np.permute_dims(a, (1, 0)) + np.permute_dims(b),
    "flips": lambda a, b: np.flipud(a) + np.fliplr(b),
    "dsplit": lambda a, b: np.dsplit(a[:, :, None] * b[:, None, :], [2])[0],
    "facts": lambda a, b: a * np.size(b, 0) + np.ndim(a) + np.shape(b)[1] + np.array_equiv(a, b),
    "transforms": lambda a, b: (
        np.fft.irfft(np.fft.rfft(a, axis=0), 7, axis=0)
        + np.fft.ifft(np.fft.fft(b)).real
        + np.fft.ifftn(np.fft.fftn(a)).real
        + np.fft.ifft2(np.fft.fft2(b)).real
        + np.fft.irfftn(np.fft.rfftn(a), (7, 5), axes=(0, 1))
        + np.fft.irfft2(np.fft.rfft2(b), (7, 5))
        + np.fft.hfft(a)[:, :5]
        + np.fft.ihfft(b)[:, :1].real
    ),
    "insert, delete": lambda a, b: (
        np.insert(a, [1, 3, 3], b[:3], axis=0)[:7] + np.delete(np.insert(b, 2, 7.0, axis=1), [0], axis=1)
    ),
    "in place": lambda a, b: [a.__setitem__(np.s_[1:, ::2], b[:-1, :3]), a][1],
    "by a list, in place": lambda a, b: [a.__setitem__([5, 0, 1], b[:3]), a][1],
    "by a mask, in place": lambda a, b: [a.__setitem__(b > 0, 2.5), a][1],
    "operators in place": lambda a, b: [a.__iadd__(b), a.__imul__(2), a.sort(axis=0), a][3],
    "out": lambda a, b: [np.add(a, 1, out=b, where=a > 0), np.cumsum(a, axis=0, out=a), a + b][2],
    "spectra of rows": lambda a, b: (
        np.fft.ifft(np.fft.fft(a[:, 0])).real[:, None] + np.fft.irfft(np.fft.rfft(b[:, 1]), 7)[:, None]
    ),
    "frequencies": lambda a, b: np.fft.fftshift(a) + np.fft.ifftshift(b, axes=0),
    "norm of all": lambda a, b: np.linalg.norm(a) + np.linalg.norm(b[0], 2),
    "nan_to_num": lambda a, b: np.nan_to_num(np.where(a > 0, np.nan, a), nan=b.shape[0]),
}
CASES = {
    **{f"{name} (of rules)": function for name, function in {**MATRIX, **SCALARS}.items()},
    **{f"{name} (composed)": function for name, function in COMPOSED.items()},
    **{
        f"{name} (assigned)": lambda a, b, key=key, value=value: [a.__setitem__(key, value(a, b)), a][1]
        for name, (key, value) in ASSIGNMENTS.items()
    },
    **{
        f"{name} (in place)": lambda a, b, function=function: [function(a, b), a][1]
        for name, function in IN_PLACE.items()
    },
    **{
        f"{name} (without NaNs)": lambda a, b, function=function: function(a, axis=0, keepdims=False)
        for name, function in WITHOUT_NANS.items()
    },
    **OTHERS,
}
NAMES = list(CASES)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("first", range(0, len(NAMES), PER_TEST))
def test_functions(spmd, first):
    chosen = range(first, min(first + PER_TEST, len(NAMES)))
    cases = [Case(sg.Grid((2, 3)), CASES[NAMES[n]], globals_of(), n, NAMES[n]) for n in chosen]

    def body():
        grid = sg.init_grid((2, 3))
        for case in cases:
            case.check(grid)

    spmd(6, body)


@pytest.mark.parametrize("name", [name for name in COUNTS if name != "bincount"])
def test_counts_and_searches(spmd, name):
    check(spmd, (3,), COUNTS[name], ROWS, 0, name)


def test_the_table_is_covered(monkeypatch):
    """Each function of the table occurs in a program above, or is on the list of those that are refused."""
    seen = set()

    def noticing(find):
        def found(function):
            seen.add(function)
            return find(function)

        return found

    for find in "entry_of", "entry_of_ufunc":
        monkeypatch.setattr(traced_array, find, noticing(getattr(traced_array, find)))
    with np.errstate(all="ignore"):
        for function in CASES.values():
            sg.trace(function, *[sg.ArraySpec(x.shape, x.dtype) for x in globals_of()])
        for name, function in COUNTS.items():
            if name != "bincount":
                sg.trace(function, *[sg.ArraySpec(x.shape, x.dtype) for x in ROWS])
    left_out = {function for function in _TABLE if function not in seen and function not in DATA_DEPENDENT}
    assert not {f"{function.__module__}.{function.__name__}" for function in left_out if _is_of_numpy(function)}


def _is_of_numpy(function):
    """Others are parts of rules, or of tests that ran before in this process."""
    return function.__module__.partition(".")[0] == "numpy"


@pytest.mark.parametrize("function", DATA_DEPENDENT)
def test_shapes_that_depend_on_cells_are_refused(function):
    of_two = np.compress, np.extract, np.union1d, np.intersect1d, np.setdiff1d, np.setxor1d
    with pytest.raises(sg.ImplicitGatherError, match=r"shape of its result depends on cells.*%a: .*, at .*\.py:\d+"):
        sg.trace(lambda a: function(a > 0, a) if function in of_two else function(a), sg.ArraySpec(9))


def test_shardings_differ():
    grid = sg.Grid((2, 3))
    assert len({sharding_of(grid, n, (7, 5)) for n in range(len(SHARDINGS))}) == len(SHARDINGS)


AGREEING = {
    "sort": np.sort,
    "argsort": np.argsort,
    "median": np.median,
    "quantile": lambda a: np.quantile(a, [0.1, 0.2, 0.7]),
    "take": lambda a: a[[3, 1, 5, 5]],
    "isin": lambda a: np.isin(a, a[:3]),
}


@pytest.mark.parametrize("ranks", [2, 3, 6])
def test_bytes_of_functions_that_agree_are_bounded(ranks):
    def body():
        grid = sg.init_grid((ranks,))
        sharding, found = sg.Sharding(grid, [[0]]), []
        for extent in (12, 300):
            a = sg.from_function(lambda i: (i * 7) % 11 * 1.0, (extent,), sharding, grid)
            for name, function in AGREEING.items():
                part = sg.partition(sg.trace(function, sg.ArraySpec((extent,))), grid, [sharding])
                bound = sum(each.bytes for each in part.collectives())
                moved = bytes_sent(lambda a, part=part: part.run(grid, a), a)
                found.append((name, moved, bound))
        return found

    for name, moved, bound in [each for found in sg.run_spmd(body, ranks=ranks) for each in found]:
        assert moved <= bound, name
