"""Errors that the values of cells decide are raised by all processes, of one class and with one text, or by none."""

import numpy as np
import pytest

import spmd_grid as sg


class OfTheProgram(Exception):
    """A class that other processes cannot know."""


def spread(x, grid):
    x = np.asarray(x)
    return sg.from_global(x, sg.Sharding(grid, [[0]] + [[]] * (x.ndim - 1)), grid)


def fails_at_0(v):
    return 1 // int(v)


def fails_by_itself(v):
    if not v:
        raise OfTheProgram(v)
    return v


def strictly(function, **modes):
    def run(p):
        with np.errstate(**(modes or {"all": "raise"})):
            return function(p)

    return run


def called(p):
    def told(text, flag):
        raise OfTheProgram(text)

    with np.errstate(over="call", call=told):
        return np.exp(p([1.0, 2, 3, 1000]))


IN_CONTEXT = {
    "operator": (strictly(lambda p: 1.0 / p([1.0, 2, 3, 0]), divide="raise"), FloatingPointError),
    "operators": (strictly(lambda p: 2 * (p([1.0] * 4) / p([1.0, 2, 3, 0])) + 1), FloatingPointError),
    "in place": (strictly(lambda p: p([1.0] * 4).__itruediv__(p([1.0, 1, 1, 0]))), FloatingPointError),
    "ufunc": (strictly(lambda p: np.exp(p([1.0, 2, 3, 1000]))), FloatingPointError),
    "method": (strictly(lambda p: p([[1.0], [2], [3], [np.inf]]).std(axis=1)), FloatingPointError),
    "scan": (strictly(lambda p: np.cumsum(p([1.0, 2, 1e308, 1e308]))), FloatingPointError),
    "contraction": (strictly(lambda p: p([[1.0], [2], [3], [1e308]]) @ np.array([[10.0]])), FloatingPointError),
    "cast": (strictly(lambda p: p([1.0, 2, 3, np.nan]).astype(int)), FloatingPointError),
    "setitem": (strictly(lambda p: p([1, 2, 3, 4]).__setitem__(..., p([1.0, 2, 3, np.inf]))), FloatingPointError),
    "calls": (called, (OfTheProgram, sg.SpmdError)),
}
OF_CELLS = {
    "power": (lambda p: p([1, 2, 3, 4]) ** p([1, 1, 1, -1]), ValueError),
    "power of a plain array": (lambda p: p([1, 2, 3, 4]) ** np.array([1, 1, 1, -1]), ValueError),
    "power where": (lambda p: np.power(2, p([1, 1, 1, -1]), where=p([True] * 4)), ValueError),
    "text": (lambda p: p(["1", "2", "3", "x"]).astype(float), ValueError),
    "date": (lambda p: p(["2020-01-01"] * 3 + ["20x"]).astype("M8[D]"), ValueError),
    "along an axis": (
        lambda p: np.apply_along_axis(lambda r: fails_at_0(r[0]), 1, p([[1], [1], [1], [0]])),
        ZeroDivisionError,
    ),
    "piecewise": (
        lambda p: np.piecewise(p([1, 2, 3, 0]), [p([True] * 4)], [lambda v: np.array([fails_at_0(i) for i in v])]),
        ZeroDivisionError,
    ),
    "frompyfunc": (lambda p: np.frompyfunc(fails_at_0, 1, 1)(p([1, 1, 1, 0])), ZeroDivisionError),
    "of the program": (lambda p: np.frompyfunc(fails_by_itself, 1, 1)(p([1, 1, 1, 0])), (OfTheProgram, sg.SpmdError)),
}
CASES = IN_CONTEXT | OF_CELLS


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_all_raise_and_go_on(spmd, case, ranks):
    function, kind = CASES[case]

    def body():
        grid = sg.init_grid((ranks,), check=False)
        found = []
        for _ in range(3):
            with pytest.raises(kind) as caught:
                function(lambda x: spread(x, grid))
            found.append(str(caught.value))
            b = spread(np.arange(4), grid)
            assert b.sum() == 6 and (b + 0).to_global().tolist() == [0, 1, 2, 3]
        return type(caught.value), found

    by_rank = spmd(ranks, body)
    if not isinstance(kind, tuple):  # else the one that failed keeps its own class
        assert len({str(each) for each in by_rank}) == 1


@pytest.mark.parametrize("case", [*IN_CONTEXT, *OF_CELLS])
def test_none_raises_where_no_cell_fails(spmd, case):
    """The same functions on cells that do not fail; what they give is not looked at here."""
    function, _ = CASES[case]

    def body():
        grid = sg.init_grid((2,), check=False)
        good = {"U": ["1", "2", "3", "4"], "f": 1.0, "i": 1, "b": True}

        def fill(x):
            x = np.asarray(x)
            if x.dtype.kind == "U":
                x = np.array(["2020-01-01"] * 4 if x[0].startswith("20") else good["U"])
            else:
                x = np.full(x.shape, good[x.dtype.kind])
            return spread(x, grid)

        if case != "power of a plain array":
            function(fill)
        return spread(np.arange(4), grid).sum()

    assert spmd(2, body) == [6, 6]


def test_out_is_not_written(spmd):
    def body():
        grid = sg.init_grid((2,), check=False)
        a, b = spread([1, 2, 3, 4], grid), spread([1, 1, 1, -1], grid)
        out = spread([9, 9, 9, 9], grid)
        with pytest.raises(ValueError, match=r"negative integer powers.*on rank 1 \(1,\)"):
            np.power(a, b, out=out)
        return out.to_global().tolist()

    assert spmd(2, body) == [[9] * 4] * 2


def test_a_fallback_as_in_numpy(spmd):
    def body():
        grid = sg.init_grid((2,), check=False)
        x = spread([1.0, 2, 4, 0], grid)
        with np.errstate(divide="raise"):
            try:
                y = 1 / x
            except FloatingPointError:
                y = x * 0
        return y.to_global().tolist()

    assert spmd(2, body) == [[0.0] * 4] * 2


def test_calls_of_the_programs_function(spmd):
    """Each process calls it for its own cells, as numpy does."""

    def body():
        grid, told = sg.init_grid((2,), check=False), []
        with np.errstate(divide="call", call=lambda text, flag: told.append(text)):
            y = 1 / spread([1.0, 2, 4, 0], grid)
        return y.to_global().tolist(), told

    assert [told for _, told in spmd(2, body)] == [[], ["divide by zero"]]


def test_ignored_errors_send_nothing(spmd):
    """And cost no more than the look at the context."""

    def body():
        grid = sg.init_grid((2,), check=False)
        x = spread([1.0, 2, 4, 0], grid)
        with np.errstate(all="ignore"):
            if grid.rank == 0:
                1 / x  # one process alone computes
            return (1 / x).to_global().tolist()

    assert spmd(2, body) == [[1.0, 0.5, 0.25, np.inf]] * 2
