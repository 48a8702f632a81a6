"""Grids as values: numbering, names, processes, neighbours, refusals."""

import pickle
import subprocess
import sys
from itertools import combinations_with_replacement, product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spmd_grid.errors import AxisError, DeviceError, GridError
from spmd_grid.grid.device_grid import Grid, near_square, resolve_shape

NAMED = Grid((2, 3), axis_names=("x", "y"))
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


@given(shapes)
def test_linear_indices_are_row_major(shape):
    grid = Grid(shape)
    for linear, coords in enumerate(product(*map(range, shape))):
        assert grid.linear_index(coords) == linear and grid.multi_index(linear) == coords
        assert sum(c * s for c, s in zip(coords, grid.strides, strict=True)) == linear
    assert grid.size == linear + 1


def test_axes_by_number_name_and_array():
    assert NAMED.axes(["y", "x"]) == NAMED.axes([1, 0]) == NAMED.axes(np.array([1, 0])) == (1, 0)
    assert NAMED.axes([]) == ()
    assert all(type(axis) is int for axis in NAMED.axes([np.int64(1)]))


def test_grid_shape_and_multi_index_in_the_order_asked():
    grid = Grid((3, 4, 5))
    assert grid.grid_shape() == grid.grid_shape([]) == (3, 4, 5)
    assert grid.grid_shape([2, 0]) == (5, 3)
    assert grid.multi_index(24, [2, 0]) == (4, 1)
    assert NAMED.grid_shape(["y"]) == (3,)


@pytest.mark.parametrize(
    ("split_axes", "expected"),
    [([0], (4, 44)), ([1], (-1, 29)), ([2], (23, -1)), ([], (-1, -1)), ([0, 1], (15 + 4, 29)), ([1, 0], (4, 44))],
)
def test_neighbors_of_1_0_4(split_axes, expected):
    assert Grid((3, 4, 5)).neighbors_linear_indices((1, 0, 4), split_axes) == expected


@given(shapes, st.data())
def test_neighbors_are_the_group_order(shape, data):
    grid = Grid(shape)
    axes = data.draw(st.permutations(range(grid.ndim)))[: data.draw(st.integers(0, grid.ndim))]
    coords = grid.multi_index(data.draw(st.integers(0, grid.size - 1)))
    digits = [range(shape[d]) if d in axes else [coords[d]] for d in range(grid.ndim)]
    group = sorted(product(*digits), key=lambda member: [member[axis] for axis in axes])
    here = group.index(coords)
    down = grid.linear_index(group[here - 1]) if here > 0 else -1
    up = grid.linear_index(group[here + 1]) if here + 1 < len(group) else -1
    assert grid.neighbors_linear_indices(coords, axes) == (down, up)


def test_processes_of_a_reordered_part_of_the_world():
    grid = Grid((3,), ranks=[5, 0, 7])
    assert [grid.process(device) for device in range(3)] == [5, 0, 7]
    assert [grid.device_of_process(process) for process in (0, 1, 5, 7)] == [1, None, 0, 2]
    assert [Grid((3,)).device_of_process(process) for process in (-1, 0, 2, 3)] == [None, 0, 2, None]


def test_equal_values():
    assert Grid([2, np.int32(3)], axis_names=["x", "y"]) == NAMED and NAMED.grid is NAMED
    assert Grid((3,), ranks=(0, 1, 2)) == Grid((3,)), "ranks that say the default are the default"
    assert len({NAMED, Grid((2, 3)), Grid((3, 2)), Grid((2, 3), ranks=range(5, -1, -1))}) == 4
    with pytest.raises(AttributeError):
        NAMED.shape = (1,)


def test_prints():
    assert (str(NAMED), str(Grid((2, 3)))) == ("2x3 (x, y)", "2x3")
    for grid in (NAMED, Grid((2,), ranks=(1, 0)), Grid((1, 2, 3))):
        assert eval(repr(grid)) == grid


def test_hash_does_not_travel_between_processes():
    hash(NAMED)
    program = (
        "import pickle, sys; from spmd_grid.grid.device_grid import Grid;"
        "grid = pickle.load(sys.stdin.buffer); assert grid in {Grid((2, 3), ('x', 'y'))}"
    )
    subprocess.run([sys.executable, "-c", program], input=pickle.dumps(NAMED), check=True)


def test_a_million_devices_cost_nothing():
    grid = Grid((1024, 1024))
    assert grid.ranks is None and grid.size == 2**20
    assert grid.neighbors_linear_indices((1023, 5), [0]) == (1022 * 1024 + 5, -1)
    assert grid.device_of_process(2**20 - 1) == 2**20 - 1


@pytest.mark.parametrize("shape", [(), (0,), (2, -1), (True,), (2.0,), 4, "23", None])
def test_refused_shapes(shape):
    with pytest.raises(GridError, match="must list at least one size"):
        Grid(shape)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"axis_names": ("x",)}, "must list 2 names"),
        ({"axis_names": "xy"}, "must list 2 names"),
        ({"axis_names": ("x", "x")}, "names must differ"),
        ({"axis_names": (0, 1)}, "must list 2 names"),
        ({"ranks": (0, 1)}, "lists 2 processes; a grid of 2x3 needs 6"),
        ({"ranks": (0, 1, 2, 3, 4, 4)}, "must not be two devices"),
        ({"ranks": (0, 1, 2, 3, 4, -1)}, "integers from 0"),
        ({"ranks": 6}, "integers from 0"),
    ],
)
def test_refused_names_and_ranks(options, message):
    with pytest.raises(GridError, match=message):
        Grid((2, 3), **options)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ([2], "go from 0 to 1"),
        ([-1], "go from 0 to 1"),
        ([0, 0], "must not be listed twice"),
        ([7, 7], "must not be listed twice"),
        (["x", 0], "must not be listed twice"),
        (["z"], "has no axis 'z': its axes are x, y"),
        ([True], "neither the number nor the name"),
        ([1.0], "neither the number nor the name"),
        (0, "must be a list of axes"),
        ("x", "must be a list of axes"),
        (None, "must be a list of axes"),
        ({0, 1}, "must be a list of axes"),
    ],
)
def test_refused_axes(axes, message):
    with pytest.raises(AxisError, match=f"^split_axes is .*{message}"):
        NAMED.axes(axes, "split_axes")


def test_refused_name_on_a_nameless_grid():
    with pytest.raises(AxisError, match="its axes have no names"):
        Grid((2,)).axes(["x"])


@pytest.mark.parametrize("coords", [(0,), (0, 3), (-1, 0), (0, 0, 0), (0, True), 0, None])
def test_refused_coords(coords):
    with pytest.raises(DeviceError, match="has 2 integer coordinates"):
        NAMED.linear_index(coords)


@pytest.mark.parametrize("linear", [-1, 6, True, None, 1.0])
def test_refused_linear_index(linear):
    with pytest.raises(DeviceError, match="go from 0 to 5"):
        NAMED.multi_index(linear)
    with pytest.raises(DeviceError, match="go from 0 to 5"):
        NAMED.process(linear)


@pytest.mark.parametrize(
    ("shape", "n_processes", "expected"),
    [((2, -1), 6, (2, 3)), ((-1,), 5, (5,)), ((2, 2), 6, (2, 2)), ((-1, 3, 2), 6, (1, 3, 2))],
)
def test_resolve_shape(shape, n_processes, expected):
    assert resolve_shape(shape, n_processes) == expected


@pytest.mark.parametrize(
    ("shape", "n_processes", "message"),
    [
        ((-1, 4, -1), 6, "it needs a multiple of 4 processes; there are 6"),
        ((-1, 0, -1), 6, "must list at least one size"),
        ((-1, -1), 0, "there are 0"),
        ((4, -1), 6, "a multiple of 4 processes; there are 6"),
        ((2, 4), 6, "needs 8 processes; there are 6"),
        ((0, -1), 6, "must list at least one size"),
        ((-2, 3), 6, "must list at least one size"),
        (6, 6, "must list at least one size"),
    ],
)
def test_refused_resolve_shape(shape, n_processes, message):
    with pytest.raises(GridError, match=message):
        resolve_shape(shape, n_processes)


@pytest.mark.parametrize(
    ("shape", "shapes"),
    [
        ((-1, -1), {1: (1, 1), 2: (2, 1), 3: (3, 1), 4: (2, 2), 6: (3, 2), 12: (4, 3)}),
        ((-1, -1, -1), {1: (1, 1, 1), 2: (2, 1, 1), 4: (2, 2, 1), 6: (3, 2, 1), 12: (3, 2, 2), 1024: (16, 8, 8)}),
        ((-1, 2, -1), {2: (1, 2, 1), 4: (2, 2, 1), 6: (3, 2, 1), 12: (3, 2, 2)}),
    ],
)
def test_several_unknown_sizes_are_near_square(shape, shapes):
    assert {n: resolve_shape(shape, n) for n in shapes} == shapes


@pytest.mark.parametrize("n_factors", [1, 2, 3, 4])
def test_near_square_is_the_first_of_all_factorisations(n_factors):
    for size in range(1, 73):
        divisors = [d for d in range(1, size + 1) if size % d == 0]
        descending = combinations_with_replacement(divisors[::-1], n_factors)
        assert near_square(size, n_factors) == min(factors for factors in descending if prod(factors) == size)


@pytest.mark.parametrize("n", [6, 3000])
def test_ranks_as_an_array(n):
    """They are those of the same list; arrays may change afterwards."""
    for numbers in (np.arange(n), np.arange(n)[::-1], np.roll(np.arange(n), 5).astype("i4")):
        given = numbers.copy()
        grid, listed = Grid((n // 3, 3), ranks=given), Grid((n // 3, 3), ranks=numbers.tolist())
        given[:] = 0
        assert grid == listed and grid.ranks == listed.ranks and hash(grid) == hash(listed)
        np.testing.assert_array_equal(grid.rank_numbers, numbers)
        for process in (0, 1, n - 1, n, -1):
            found = grid.device_of_process(process)
            assert found == listed.device_of_process(process)
            assert found == (int(np.flatnonzero(numbers == process)[0]) if 0 <= process < n else None)
    for wrong in (np.zeros(n, int), np.arange(n) - 1, np.arange(n - 1), np.arange(n) * 1.0):
        with pytest.raises(GridError, match="process"):
            Grid((n // 3, 3), ranks=wrong)
    sparse = Grid((n // 3, 3), ranks=np.arange(n) * 7)
    assert (sparse.device_of_process(7), sparse.device_of_process(8)) == (1, None)
