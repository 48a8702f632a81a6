"""Halo patterns as values: their boxes, sizes and refusals."""

import pytest

from spmd_grid.errors import DeviceError, ShapeError, ShardingError
from spmd_grid.grid.box import Box
from spmd_grid.grid.cells import Cells
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.geometry.pattern import HaloPattern, Take

METHODS = ["takes", "gives", "fills", "edges"]


def pattern_of(grid_shape, split_axes, halo_sizes, global_shape, **options):
    sharding = Sharding(Grid(grid_shape), split_axes, halo_sizes=halo_sizes)
    return HaloPattern(Layout(sharding, global_shape), **options)


def test_one_box_for_each_neighbour():
    for corners, owners in [(True, [0, 1, 2, 3, 5, 6, 7, 8]), (False, [1, 3, 5, 7])]:
        pattern = pattern_of((3, 3), [[0], [1]], [1, 1, 2, 2], (6, 9), corners=corners)
        assert [take.owner for take in pattern.takes((1, 1))] == owners
        assert [give.taker for give in pattern.gives((1, 1))] == owners
    assert pattern.takes((1, 1))[0] == Take(1, Box((0, 2), (1, 5)), Cells((2, 2), (1, 1), (1, 3)))


@pytest.mark.parametrize(
    ["rule", "cells"],
    [("edge", Cells((3,), (0,), (3,))), ("reflect", Cells((6,), (-1,), (3,))), ("symmetric", Cells((5,), (-1,), (3,)))],
)
def test_one_box_where_one_step_will_do(rule, cells):
    pattern = pattern_of((1,), [[0]], [3, 0], (4,), boundary=rule)
    assert pattern.takes((0,)) == (Take(0, Box((0,), (3,)), cells),)


def test_without_halos_nothing_happens():
    for pattern in (
        pattern_of((2, 2), [[0], [1]], None, (4, 4), periodic=True),
        pattern_of((2,), [], None, ()),
        pattern_of((2,), [[], [0]], [0, 0], (3, 4), boundary=0),
    ):
        for linear in range(pattern.layout.grid.size):
            coords = pattern.layout.grid.multi_index(linear)
            for method in METHODS:
                assert getattr(pattern, method)(coords) == ()


def test_a_value_and_its_spellings():
    layout = Layout(Sharding(Grid((2,)), [[0]], halo_sizes=[1, 1]), (4, 3))
    pattern = HaloPattern(layout)
    assert pattern == HaloPattern(layout, [False, False], True, ["leave", ("leave", "leave")])
    assert hash(pattern) == hash(HaloPattern(layout, (False, False)))
    assert (pattern.periodic, pattern.boundary) == ((False, False), (("leave", "leave"),) * 2)
    assert HaloPattern(layout, boundary="mirror") == HaloPattern(layout, boundary="reflect") != pattern


def test_refusals():
    layout = Layout(Sharding(Grid((2,)), [[0]], halo_sizes=[1, 1]), (4, 3))
    with pytest.raises(ShapeError, match="periodic"):
        HaloPattern(layout, [True])
    with pytest.raises(ShardingError, match="boundary"):
        HaloPattern(layout, boundary=["edge"])
    for method in METHODS:
        with pytest.raises(DeviceError, match="coords"):
            getattr(HaloPattern(layout), method)((2,))


@pytest.mark.parametrize(
    ["split_axes", "halo_sizes", "shape"],
    [([[0], [1]], [1, 1, 1, 1], (100_000, 200_001)), ([[1, 0]], [1, 1], (10**9,))],
    ids=["plane", "line"],
)
def test_a_million_devices(instructions, split_axes, halo_sizes, shape):
    """Nothing walks over them."""
    pattern = pattern_of((1024, 1024), split_axes, halo_sizes, shape, periodic=True)

    def look_at_some():
        for coords in [(0, 0), (5, 1000), (511, 512), (900, 3)]:
            linear = pattern.layout.grid.linear_index(coords)
            for take in pattern.takes(coords):
                gives = pattern.gives(pattern.layout.grid.multi_index(take.owner))
                assert take.source in [give.cells for give in gives if give.taker == linear]

    assert instructions(look_at_some) < 5_000_000
