"""Box algebra against brute-force sets of cells."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spmd_grid.grid.box import Box, as_ints, multi_index, row_major


def cells(box):
    return set(product(*map(range, box.starts, box.stops)))


def interval():
    return st.tuples(st.integers(-3, 6), st.integers(0, 4)).map(lambda pair: (pair[0], sum(pair)))


def boxes(ndim):
    rows = st.lists(interval(), min_size=ndim, max_size=ndim)
    return rows.map(lambda rows: Box(tuple(low for low, _ in rows), tuple(high for _, high in rows)))


pairs = st.integers(0, 3).flatmap(lambda ndim: st.tuples(boxes(ndim), boxes(ndim)))


@given(pairs)
def test_algebra_is_that_of_sets(pair):
    a, b = pair
    assert a.size == len(cells(a)) and a.is_empty == (not cells(a))
    assert cells(a.intersect(b)) == cells(a) & cells(b)
    assert min(a.intersect(b).shape, default=0) >= 0
    assert a.contains(b) == (cells(b) <= cells(a))
    rest = a.subtract(b)
    assert not any(box.is_empty for box in rest)
    assert sum(box.size for box in rest) == len(cells(a) - cells(b))
    assert set().union(*map(cells, rest)) == cells(a) - cells(b)


@given(pairs)
def test_shift_and_relative_to_are_inverse(pair):
    a, b = pair
    assert a.shift(b.starts).relative_to(b.starts) == a
    assert a.relative_to(a.starts) == Box.from_shape(a.shape)


def test_grow_adds_cells_before_and_after():
    assert Box((2, 0), (5, 1)).grow((1, 0), (0, 3)) == Box((1, 0), (5, 4))


def test_slices_select_the_cells():
    array = np.arange(24).reshape(4, 6)
    assert (array[Box((1, 2), (3, 6)).slices()] == array[1:3, 2:6]).all()
    assert array[0, 0][Box((), ()).slices()] == 0


def test_without_dimensions_there_is_one_cell():
    point = Box.from_shape(())
    assert (point.size, point.ndim, point.is_empty, point.subtract(point), str(point)) == (1, 0, False, [], "[]")


def test_prints_short_and_hashes():
    assert str(Box((0, 2), (3, 5))) == "[0:3, 2:5]"
    assert len({Box((0,), (1,)), Box.from_shape((1,))}) == 1


@given(st.lists(st.integers(1, 4), max_size=4), st.data())
def test_row_major_is_numpys(sizes, data):
    linear = data.draw(st.integers(0, int(np.prod(sizes)) - 1))
    digits = multi_index(linear, sizes)
    assert row_major(digits, sizes) == linear
    assert not sizes or digits == tuple(map(int, np.unravel_index(linear, sizes)))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), ()),
        (range(2), (0, 1)),
        (np.array([3, 4]), (3, 4)),
        ([np.int8(1)], (1,)),
        ([True], None),
        ([np.True_], None),
        ([1.0], None),
        ({1, 2}, None),
        ({1: 2}, None),
        (b"ab", None),
        (None, None),
        ([[1]], None),
        (np.ones((1, 1), int), None),
    ],
)
def test_as_ints(values, expected):
    assert as_ints(values) == expected
