"""Expressions on small blocks, whose operators are compiled once they come again, against numpy."""

import warnings

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.compute import alike, temporaries

EXPRESSIONS = {
    "a stencil": lambda a: 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]),
    "all operators": lambda a: (a[1:] - a[:-1] * 0.5) / (2.0 - a[1:]) + 1.5 / (a[:-1] - 7.25) - 3.0,
    "whole numbers": lambda a: 2 * (a[1:] + a[:-1]) - 1,
}


@pytest.fixture
def runs(monkeypatch):
    """The calls of the functions that stand for ufuncs, and whether these are compiled; of sites that are new."""
    temporaries.sites.clear()
    temporaries._codes.clear()
    seen, arithmetic = [], alike.kernels.arithmetic

    def watched(ufunc, operands):
        run = arithmetic(ufunc, operands)

        def call(*args):
            seen.append((ufunc, operands, run is not ufunc))
            return run(*args)

        return call

    monkeypatch.setattr(alike.kernels, "arithmetic", watched)
    return seen


def told(expression, a):
    """The result, and the warnings, of the fourth of equal calls."""
    for _ in range(4):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = expression(a)
    return found, sorted(str(each.message) for each in seen)


@pytest.mark.parametrize("spoilt", [False, True])
@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_against_numpy(spmd, runs, expression, spoilt):
    x = np.random.default_rng(4).standard_normal((19, 21))
    if spoilt:
        x[3:5, 7], x[15, 16], x[16, 16] = 1.7e308, np.inf, -np.inf
    expected, messages = told(expression, x)

    def body():
        grid = sg.init_grid((-1,), check=False)  # nothing is recorded: operators take the short way
        for halos in (None, [1, 1]):
            a = sg.from_global(x, sg.Sharding(grid, [[0]], halo_sizes=halos), grid)
            if grid.size == 1:
                found, seen = told(expression, a)
                assert seen == messages
            else:  # threads must not change the filters of warnings
                with np.errstate(all="ignore"):
                    found = [expression(a) for _ in range(4)][-1]
            assert np.array_equal(found.to_global(), expected, equal_nan=True)
        assert runs and all(is_compiled for _, _, is_compiled in runs)

    spmd(2, body)
    spmd(1, body)


@pytest.mark.parametrize("dtype", ["f4", "c16", "i8"])
def test_other_elements_are_numpys(spmd, runs, dtype):
    x = np.random.default_rng(4).integers(1, 99, (12, 11)).astype(dtype)
    expression = EXPRESSIONS["a stencil"]

    def body():
        grid = sg.init_grid((1,), check=False)
        a = sg.from_global(x, sg.Sharding(grid, [[0]]), grid)
        found, _ = told(expression, a)
        assert found.dtype == expression(x).dtype
        assert np.array_equal(found.to_global(), expression(x))

    spmd(1, body)
    # The fourth product of whole numbers is one of doubles.
    assert {operands for _, operands, _ in runs} <= {"number and block"}
