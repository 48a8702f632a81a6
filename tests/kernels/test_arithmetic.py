"""Compiled arithmetic of small blocks against numpy's ufuncs: bits, warnings, and what is left to numpy."""

import warnings

import numpy as np
import pytest
from support.same_bytes import same_bytes

from spmd_grid import kernels

UFUNCS = [np.add, np.subtract, np.multiply, np.true_divide]
WAYS = ["blocks", "number and block", "block and number"]
SOME = [(np.add, "blocks"), (np.subtract, "number and block"), (np.true_divide, "block and number")]
EVERY = [  # each is a function to compile
    pair if pair in SOME else pytest.param(*pair, marks=pytest.mark.full)
    for pair in [(ufunc, way) for ufunc in UFUNCS for way in WAYS]
]


def operands_of(way, a, b):
    return (a, b) if way == "blocks" else (0.3, b) if way == "number and block" else (a, 0.3)


def cells(*shape):
    draw = np.random.default_rng(sum(shape))
    return draw.standard_normal(shape) * 10.0 ** draw.integers(-9, 9, shape)


@pytest.mark.parametrize(("ufunc", "way"), EVERY)
def test_bits(ufunc, way):
    run = kernels.arithmetic(ufunc, way)
    for n_rows, n in [(0, 3), (3, 0), (1, 1), (4, 1), (5, 2), (3, 15), (2, 16), (7, 23)]:
        whole = cells(n_rows + 2, n + 2)
        for a, b, out in [
            (whole[:-2, 1:-1], whole[2:, :-2], np.empty((n_rows, n))),
            (whole[1:-1, 2:], np.ascontiguousarray(whole[2:, 2:]), np.empty((n_rows, n + 3))[:, 1:-2]),
            (whole[:-2, :-2].copy(), whole[2:, 2:].copy(), np.empty((n_rows, n))),
            (whole[1:-1, 0], whole[:-2, 1], np.empty(n_rows)),  # which are not contiguous
            (whole[0, 2:], whole[1, :-2], np.empty(n)),
        ]:
            expected = ufunc(*operands_of(way, a, b))
            run(*operands_of(way, a, b), out)
            assert same_bytes(out, expected)
            for number, operand in enumerate(operands_of(way, a, b)):
                if np.ndim(operand):
                    taken = list(operands_of(way, a, b))
                    place = taken[number] = operand.copy()
                    run(*taken, place)
                    assert same_bytes(place, expected)


@pytest.mark.parametrize(("ufunc", "way"), SOME)
def test_what_is_left_to_numpy(ufunc, way):
    run = kernels.arithmetic(ufunc, way)
    line = cells(40)
    deep, backwards = cells(3, 4, 5), cells(6, 7)[::-1, ::-1]
    raw = np.zeros(7 * 8 + 1, np.uint8)[1:].view(float)  # not aligned
    raw[:] = line[:7]
    for a, b in [(deep, deep), (backwards, backwards), (raw, raw), (line.reshape(8, 5).T, line.reshape(5, 8))]:
        expected = ufunc(*operands_of(way, a, b))
        out = np.empty(expected.shape)
        run(*operands_of(way, a, b), out)
        assert np.array_equal(out, expected)
    expected = ufunc(*operands_of(way, line[:-1], line[:-1]))
    run(*operands_of(way, line[:-1], line[:-1]), line[1:])  # numpy makes a copy of what it overwrites
    assert np.array_equal(line[1:], expected)
    if way == "blocks":
        column, row = cells(4, 1), cells(1, 5)
        out = np.empty((4, 5))
        run(column, row, out)
        assert np.array_equal(out, ufunc(column, row))
    with pytest.raises(ValueError, match="broadcast"):
        run(*operands_of(way, np.ones(3), np.ones(3)), np.ones(4))
    with pytest.raises(TypeError):
        run(1.0)


RAISING = [
    (np.add, 1e308, 1e308),
    (np.add, np.inf, -np.inf),
    (np.subtract, -1e308, 1e308),
    (np.subtract, np.inf, np.inf),
    (np.multiply, 1e200, 1e200),
    (np.multiply, 0.0, np.inf),
    (np.multiply, 1e-200, 1e-200),
    (np.true_divide, 1.0, 0.0),
    (np.true_divide, 0.0, 0.0),
    (np.true_divide, 1e200, 1e-200),
    (np.true_divide, 1e-200, 1e200),
]


def told(run, x, y, setting):
    """The result of a block with one such cell, and what is said of it."""
    a, b = np.ones((3, 5)), np.ones((3, 5))
    a[1, 2], b[1, 2] = x, y
    with np.errstate(all=setting), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            run(a, b, a)
        except FloatingPointError as error:
            return a.tobytes(), str(error)
    return a.tobytes(), [str(each.message) for each in seen]


@pytest.mark.parametrize(("ufunc", "x", "y"), RAISING)
def test_warnings_and_errors(ufunc, x, y):
    run = kernels.arithmetic(ufunc, "blocks")
    for setting in ("ignore", "warn", "raise"):
        found = told(run, x, y, setting)
        assert found == told(ufunc, x, y, setting)
        assert bool(found[1]) == (setting != "ignore")


def test_other_operations_are_numpys():
    assert kernels.arithmetic(np.maximum, "blocks") is np.maximum
