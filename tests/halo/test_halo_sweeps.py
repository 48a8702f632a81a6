"""update_halo against slices of the global array: exhaustive on small grids, with --full; a sample by default."""

import random
from itertools import product

import numpy as np
import pytest
from halo_oracle import HaloCase
from hypothesis import settings

import spmd_grid as sg
from spmd_grid.grid.blocks import block_starts

PATHS = ["direct", "inline", "message"]


def lines_of(n_blocks, extents):
    """Every way to cut an extent that the block rules know, and one of explicit offsets."""
    found = []
    for extent in extents:
        ways = [block_starts(extent, (n_blocks,), "ceil"), block_starts(extent, (n_blocks,), "balanced")]
        ways.append((0, *sorted((7 * i + 1) % (extent + 1) for i in range(n_blocks - 1)), extent))
        found += dict.fromkeys(ways)
    return found


def update_all(case_lists):
    """Runs on every rank: the cases of one grid one after the other."""
    grid = sg.init_grid(case_lists[0].grid_shape)
    for case in case_lists:
        local, wanted = case.before_and_after(grid.coords)
        result = sg.update_halo(local, grid, case.split_axes, case.halo_sizes, case.periodic)
        assert result is local
        assert np.array_equal(local, wanted), (vars(case), grid.coords, local, wanted)


def choices_1d(n):
    """What makes a case on a line of n devices: all that may be chosen, independently."""
    return [(n,)], [[[0]]], lines_of(n, range(8)), list(product(range(4), repeat=2)), [False, True]


def case_1d(grid_shape, split_axes, starts, halo, periodic):
    return HaloCase(grid_shape, split_axes, [starts], [halo], [periodic])


def choices_2d(grid_shape, split_axes):
    widths = [(0, 0), (1, 1), (0, 2), (2, 1), (3, 0), (1, 3), (3, 3)]
    lines = [lines_of(grid_shape[axes[0]], [0, 1, 3, 5]) for axes in split_axes]
    return [grid_shape], [split_axes], *lines, widths, widths, [False, True], [False, True]


def case_2d(grid_shape, split_axes, starts0, starts1, halo0, halo1, periodic0, periodic1):
    return HaloCase(grid_shape, split_axes, [starts0, starts1], [halo0, halo1], [periodic0, periodic1])


def sampled(choices, n):
    rng = random.Random(7)
    return [[rng.choice(of) for of in choices] for _ in range(n)]


def run_cases(spmd, make, chosen, path):
    cases = [make(*parts) for parts in chosen]
    with sg.forced_path(path):
        spmd(int(np.prod(cases[0].grid_shape)), update_all, cases)


GRIDS_2D = [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1), (2, 3), (3, 2), (1, 6), (5, 1)]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_lines(spmd, n, path):
    run_cases(spmd, case_1d, sampled(choices_1d(n), settings().max_examples * 3 // 5), path)


@pytest.mark.full
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_all_lines(spmd, n, path):
    run_cases(spmd, case_1d, product(*choices_1d(n)), path)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("split_axes", [[[0], [1]], [[1], [0]]], ids=str)
@pytest.mark.parametrize("grid_shape", GRIDS_2D, ids=str)
def test_planes(spmd, grid_shape, split_axes, path):
    run_cases(spmd, case_2d, sampled(choices_2d(grid_shape, split_axes), settings().max_examples // 5), path)


@pytest.mark.full
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("split_axes", [[[0], [1]], [[1], [0]]], ids=str)
@pytest.mark.parametrize("grid_shape", GRIDS_2D, ids=str)
def test_all_planes(spmd, grid_shape, split_axes, path):
    """A large sample: all there are would be 100,000 for each grid."""
    run_cases(spmd, case_2d, sampled(choices_2d(grid_shape, split_axes), settings().max_examples * 5), path)
