"""update_halo against slices of the global array: exhaustive on small grids, with --full; a sample by default."""

from itertools import product

import numpy as np
import pytest
from hypothesis import settings
from support.halo.sweeps import GRIDS_2D, case_1d, case_2d, choices_1d, choices_2d, sampled

import spmd_grid as sg

PATHS = ["direct", "inline", "message"]


def update_all(case_lists):
    """Runs on every rank: the cases of one grid one after the other."""
    grid = sg.init_grid(case_lists[0].grid_shape)
    for case in case_lists:
        local, wanted = case.before_and_after(grid.coords)
        result = sg.update_halo(local, grid, case.split_axes, case.halo_sizes, case.periodic)
        assert result is local
        assert np.array_equal(local, wanted), (vars(case), grid.coords, local, wanted)


def run_cases(spmd, make, chosen, path):
    cases = [make(*parts) for parts in chosen]
    with sg.forced_path(path):
        spmd(int(np.prod(cases[0].grid_shape)), update_all, cases)


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
