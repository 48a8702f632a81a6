"""The pieces of map_overlap: interior, boundary and tiles; and what is refused of them."""

import numpy as np
import pytest
from support.halo.overlap_cases import CASES

import spmd_grid as sg
from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.overlap_boxes import overlap_boxes, tiles


@pytest.mark.parametrize("name", CASES)
def test_boxes_are_those_found_cell_by_cell(name):
    case = CASES[name]
    sharded, computed = case.sharding.sharded_dims, case.computed()
    for device in range(case.ranks):
        coords = case.layout.grid.multi_index(device)
        core, origin = case.layout.core_in_local(coords), case.layout.local_box(coords).starts
        interior, boundary = overlap_boxes(case.layout, coords, case.radius, case.region)
        seen = np.zeros(case.layout.local_shape(coords), "u1")
        for number, box in enumerate((interior, *boundary)):
            assert number == 0 or not box.is_empty
            seen[box.slices()] += 1 if number else 10
        for cell in np.ndindex(seen.shape):
            wanted = 0
            if core.contains(Box(cell, tuple(i + 1 for i in cell))):
                near = any(
                    d in sharded and not core.starts[d] <= cell[d] + o < core.stops[d]
                    for d, (low, high) in enumerate(case.reach)
                    for o in (-low, high)
                )
                wanted = computed[tuple(i + o for i, o in zip(cell, origin))] * (1 if near else 10)
            assert seen[cell] == wanted, (coords, cell, seen, wanted)


@pytest.mark.parametrize("cells", [1, 2, 5, 7, 24, 60, 61, 10**9])
@pytest.mark.parametrize("box", [Box((), ()), Box((2,), (9,)), Box((1, 2, 3), (4, 6, 8)), Box((0, 3), (4, 3))], ids=str)
def test_tiles_are_runs_in_order(box, cells):
    found = tiles(box, cells)
    numbers = np.arange(np.prod(box.stops, dtype=int)).reshape(box.stops)
    inside = numbers[box.slices()]
    every = [numbers[tile.slices()].ravel() for tile in found]
    assert np.array_equal(np.concatenate([[], *every]), inside.ravel())
    assert all(0 < tile.size <= cells for tile in found)
    assert len(found) <= 2 * max(1, -(-box.size // cells)) + sum(box.shape)


@pytest.mark.parametrize(
    ("radius", "words"),
    [
        (2, "beyond"),
        ([1, 2], "dimension 1"),
        ([(1, 1), (0, 2)], "dimension 1"),
        (-1, "whole number"),
        (1.0, "whole number"),
        (True, "whole number"),
        ("1", "whole number"),
        (None, "whole number"),
        ([1], "list of 2"),
        ([1, (1, 1, 1)], "pair"),
    ],
)
def test_radius_is_refused(radius, words):
    layout = Layout(Sharding(Grid((2, 2)), [[0], [1]], halo_sizes=[2, 1, 1, 1]), (8, 8))
    with pytest.raises(sg.ShapeError, match=words):
        overlap_boxes(layout, (0, 0), radius)


@pytest.mark.parametrize("region", [3, (1, 2), [slice(None, None, 2)], (slice(1), slice(1), slice(1)), np.s_[..., 1:2]])
def test_region_is_refused(region):
    layout = Layout(Sharding(Grid((2, 2)), [[0], [1]], halo_sizes=[1, 1, 1, 1]), (8, 8))
    with pytest.raises(sg.ShapeError, match="slices"):
        overlap_boxes(layout, (0, 0), 1, region)


def test_coords_are_checked():
    with pytest.raises(sg.DeviceError):
        overlap_boxes(CASES["2-d"].layout, (0, 2), 1)
