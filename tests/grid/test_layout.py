"""Layouts: cores tile the domain, local arrays hold them, owners are found in closed form."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.layout_parts import layout_parts

from spmd_grid.errors import ShardingError
from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding


@st.composite
def layouts(draw):
    """Any grid, axes on any dimensions, any block rule, halos, partial axes."""
    grid = Grid(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    split_axes, options, shape = draw(layout_parts(grid, st.tuples(st.integers(0, 2), st.integers(0, 2))))
    return Layout(Sharding(grid, split_axes, **options), shape)


def devices(grid):
    return [grid.multi_index(linear) for linear in range(grid.size)]


@given(layouts())
def test_cores_of_distinct_split_coordinates_tile_the_global_array(layout):
    s, seen = layout.sharding, np.zeros(layout.global_shape, int)
    for coords in devices(layout.grid):
        slices = s.shard_slices(layout.global_shape, coords)
        seen[slices] += 1
        assert slices == layout.core_box(coords).slices()
        assert seen[slices].shape == s.core_shape(layout.global_shape, coords)
    split = {axis for axes in s.split_axes for axis in axes}
    copies = math.prod(size for axis, size in enumerate(layout.grid.shape) if axis not in split)
    assert (seen == copies).all()


@given(layouts())
def test_first_copies_with_equal_partial_coordinates_tile_the_domain(layout):
    seen = {}
    for coords in filter(layout.is_owner, devices(layout.grid)):
        partial = tuple(coords[axis] for axis in layout.sharding.partial_axes)
        count = seen.setdefault(partial, np.zeros(layout.global_shape, int))
        count[layout.core_box(coords).slices()] += 1
    assert len(seen) == math.prod(layout.grid.shape[axis] for axis in layout.sharding.partial_axes)
    assert all((count == 1).all() for count in seen.values())


@given(layouts())
def test_local_arrays_are_cores_and_halos(layout):
    for coords in devices(layout.grid):
        local, core = layout.local_box(coords), layout.core_box(coords)
        assert layout.local_shape(coords) == layout.sharding.shard_shape(layout.global_shape, coords) == local.shape
        assert layout.core_in_local(coords) == core.relative_to(local.starts)
        inside = layout.in_domain_local(coords).shift(local.starts)
        cells = {cell for cell in product(*map(range, local.starts, local.stops)) if is_in(cell, layout.global_shape)}
        assert set(product(*map(range, inside.starts, inside.stops))) == cells


def is_in(cell, shape):
    return all(0 <= index < extent for index, extent in zip(cell, shape, strict=True))


@given(layouts(), st.data())
def test_owners_are_all_the_devices_that_meet_a_box(layout, data):
    starts = [data.draw(st.integers(0, extent)) for extent in layout.global_shape]
    stops = [data.draw(st.integers(a, b)) for a, b in zip(starts, layout.global_shape, strict=True)]
    box = Box(tuple(starts), tuple(stops))
    used = {axis for axes in layout.sharding.split_axes for axis in axes}
    expected = {
        coords: piece
        for coords in devices(layout.grid)
        if all(coords[axis] == 0 for axis in range(layout.grid.ndim) if axis not in used)
        and not (piece := layout.core_box(coords).intersect(box)).is_empty
    }
    found = list(layout.owners(box))
    assert dict(found) == expected and len(found) == len(expected)
    assert sum(piece.size for _, piece in found) == box.size


def test_owners_in_a_million_devices():
    layout = Layout(Sharding(Grid((1024, 1024)), [[0], [1]]), (2**20, 2**20))
    found = dict(layout.owners(Box((1023, 5), (1025, 6))))
    assert found == {(0, 0): Box((1023, 5), (1024, 6)), (1, 0): Box((1024, 5), (1025, 6))}


def test_is_a_value_and_prints():
    s = Sharding(Grid((2, 3)), [[0]])
    assert Layout(s, [4, 5]) == Layout(Sharding(Grid((2, 3)), [[0], []]), (4, 5)) and hash(Layout(s, [4, 5]))
    assert str(Layout(s, [4, 5])) == "[[0]] on 2x3, global shape (4, 5)"
    assert Layout(s, (4,)).domain_box == Box((0,), (4,))


def test_refuses_what_does_not_fit():
    with pytest.raises(ShardingError, match="must cover its extent 5"):
        Layout(Sharding(Grid((2,)), [[0]], sharded_dims_offsets=[0, 1, 4]), (5,))
