"""Values that are written: shapes as numpy takes them, and refusals on all processes before any cell is written."""

import numpy as np
import pytest

import spmd_grid as sg

LAYOUTS = {"rows": ([[0]], {}), "halo": ([[0]], {"halo_sizes": [1, 1]}), "columns": ([[], [0]], {})}
KEYS = {
    "some rows": np.s_[1:4],
    "all": np.s_[0:9],
    "a column": np.s_[1:4, 2],
    "a row": 2,
    "backwards": np.s_[::-2, None],
    "a list": np.s_[[1, 3, 8]],
    "a list beside an integer": np.s_[[1, 3, 8], 2],
    "nothing": np.s_[4:4],
}


def array_on(grid, layout):
    split, options = LAYOUTS[layout]
    return sg.from_function(lambda i, j: 10.0 * i + j, (9, 9), sg.Sharding(grid, split, **options), grid)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("key", KEYS)
def test_leading_dimensions_of_extent_1(spmd, layout, key):
    """numpy drops those that the selected cells do not have."""
    wanted = np.add.outer(10.0 * np.arange(9), np.arange(9.0))
    shape = wanted[KEYS[key]].shape
    values = [np.full((1,) * n, 5.0 + n) for n in (0, 1, 2, 3, 4, 32)]
    values += [np.arange(1.0 * np.prod(shape)).reshape((1,) * n + shape) for n in (1, 2, 3)]

    def body():
        grid = sg.init_grid((3,))
        a = array_on(grid, layout)
        found = []
        for value in values:
            a[KEYS[key]] = value
            found.append(a.to_global())
        return found

    for found in spmd(3, body):
        for value, whole in zip(values, found, strict=True):
            wanted[KEYS[key]] = value
            assert np.array_equal(whole, wanted), value.shape


REFUSED = {
    "wrong shape": (np.ones((2, 9)), sg.ShapeError, "must broadcast to"),
    "too many dimensions": (np.ones((2, 3, 9)), sg.ShapeError, "must broadcast to"),
    "text": (np.array(["a"] * 9), sg.DTypeError, "cannot be cast to float64"),
    "text of numbers": (["1"] * 9, sg.DTypeError, "cannot be cast to float64"),
    "objects": (np.array([None] * 9), sg.DTypeError, "object"),
    "rows of different lengths": ([[1, 2], [3]], sg.DTypeError, "cannot become an array"),
    "None": (None, sg.DTypeError, "None"),
    "a set": ({1, 2}, sg.DTypeError, "object"),
    "times": (np.zeros(9, "M8[s]"), sg.DTypeError, "cannot be cast to float64"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", REFUSED)
def test_values_are_refused_before_any_cell_is_written(spmd, layout, case):
    value, kind, words = REFUSED[case]

    def body():
        grid = sg.init_grid((3,))
        a = array_on(grid, layout)
        before = a.local.copy()
        said = []
        for key in (np.s_[1:4], np.s_[[1, 3, 8]]):
            with pytest.raises(kind, match=words) as caught:
                a[key] = value
            said.append(str(caught.value))
        assert np.array_equal(a.local, before)
        assert sg.all_reduce(1, grid) == 3
        return said

    assert len(set(map(tuple, spmd(3, body)))) == 1
