"""Groups: their order, that they partition the grid, in-group devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spmd_grid.errors import DeviceError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.groups import (
    group_color,
    group_index,
    group_member,
    group_members,
    group_size,
    in_group_device,
    in_group_index,
)


@st.composite
def grids_and_axes(draw):
    grid = Grid(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    axes = draw(st.permutations(range(grid.ndim)))
    return grid, tuple(axes[: draw(st.integers(0, grid.ndim))])


@given(grids_and_axes())
def test_groups_partition_the_grid(case):
    grid, axes = case
    groups = {}
    for device in range(grid.size):
        coords = grid.multi_index(device)
        members = group_members(grid, coords, axes)
        assert members[group_index(grid, coords, axes)] == device
        assert groups.setdefault(group_color(grid, coords, axes), members) == members
        assert tuple(group_member(grid, coords, axes, i) for i in range(len(members))) == members
    assert sorted(sum(groups.values(), ())) == list(range(grid.size))
    assert sorted(groups) == list(range(grid.size // group_size(grid, axes)))


@given(grids_and_axes())
def test_in_group_devices_are_coordinates_in_the_order_of_axes(case):
    grid, axes = case
    for device in range(grid.size):
        coords = grid.multi_index(device)
        here = tuple(coords[axis] for axis in axes)
        index = in_group_index(grid, axes, here, "root")
        assert index == group_index(grid, coords, axes) and in_group_device(grid, axes, index) == here


def test_axes_3_1_count_axis_1_fastest():
    grid = Grid((2, 3, 4, 5))
    assert group_index(grid, (1, 2, 3, 4), (3, 1)) == 4 * 3 + 2
    assert [grid.multi_index(device)[1::2] for device in group_members(grid, (1, 2, 3, 4), (3, 1))[:4]] == [
        (0, 0),
        (1, 0),
        (2, 0),
        (0, 1),
    ]


def test_without_axes_every_device_is_its_own_group():
    grid = Grid((2, 3))
    assert group_members(grid, (1, 1), ()) == (4,)
    assert (group_color(grid, (1, 1), ()), group_index(grid, (1, 1), ()), group_size(grid, ())) == (4, 0, 1)
    assert in_group_index(grid, (), [], "root") == 0


def test_a_row_of_a_huge_grid():
    assert group_members(Grid((1024, 1024)), (1, 2), (0,))[-1] == 1023 * 1024 + 2


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ([1], r"root is \[1\], of length 1; it must have 2 coordinates"),
        ([1, 0, 0], "of length 3; it must have 2"),
        ([-1, 0], "axis 2 go from 0 to 3, -1 is outside"),
        ([0, 2], "axis 0 go from 0 to 1, 2 is outside"),
        (0, "must be a list of 2 integers"),
        ([0, 1.0], "must be a list of 2 integers"),
        ([0, True], "must be a list of 2 integers"),
    ],
)
def test_refused_devices(device, message):
    with pytest.raises(DeviceError, match=message):
        in_group_index(Grid((2, 3, 4)), (2, 0), device, "root")
