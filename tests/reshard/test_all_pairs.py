"""All ordered pairs of shardings, run: a global array must arrive whatever the strategy.

On simulated ranks the default takes a tenth of the pairs (a fortieth in three dimensions), each by one strategy;
``--full`` takes all by all.  `test_redistribute` moves arrays for more of them without ranks, which is faster.  Under
mpiexec a thousand random ones run on each number of processes.
"""

import random
from math import prod

import numpy as np
import pytest
from reshard_oracle import all_split_axes
from test_redistribute import GRIDS, SHAPES, pairs_of

import spmd_grid as sg

STRATEGIES = ["direct", "basis", "auto"]


def run_pairs(grid_shape, pairs):
    """Runs on every rank: (shape, (source, target), strategy) one after the other."""
    grid = sg.init_grid(grid_shape)
    arrays = {shape: np.arange(prod(shape)).reshape(shape) for shape, _, _ in pairs}
    for shape, split, strategy in pairs:
        source, target = (sg.Sharding(grid, axes) for axes in split)
        local = arrays[shape][source.shard_slices(shape, grid.coords)]
        plan = sg.plan_reshard(source, target, shape, "int64", strategy)
        result = sg.run_plan(plan, local, grid)
        expected = arrays[shape][target.shard_slices(shape, grid.coords)]
        assert np.array_equal(result, expected), (shape, split, strategy, grid.coords, result, expected)


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("grid_shape", GRIDS, ids=str)
def test_a_tenth_of_all_pairs(grid_shape, ndim):
    pairs = pairs_of(grid_shape, ndim, 1 / 10 if ndim < 3 else 1 / 40)
    cases = [(*pair, STRATEGIES[n % len(STRATEGIES)]) for n, pair in enumerate(pairs)]
    sg.run_spmd(run_pairs, grid_shape, cases, ranks=prod(grid_shape))


@pytest.mark.full
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("grid_shape", GRIDS, ids=str)
def test_all_pairs(grid_shape, ndim, strategy):
    cases = [(*pair, strategy) for pair in pairs_of(grid_shape, ndim, 1)]
    sg.run_spmd(run_pairs, grid_shape, cases, ranks=prod(grid_shape))


@pytest.mark.parametrize("grid_shape", [(2,), (3,), (2, 2), (2, 3)], ids=str)
def test_a_thousand_pairs_on_mpi(request, spmd, grid_shape):
    """Also on simulated ranks, where fewer will do."""
    rng = random.Random(repr(grid_shape))
    splits = {ndim: all_split_axes(len(grid_shape), ndim) for ndim in SHAPES}
    cases = []
    for _ in range(1000 if request.config.getoption("with_mpi", default=False) else 100):
        ndim = rng.choice([1, 2, 3])
        split = rng.choice(splits[ndim]), rng.choice(splits[ndim])
        cases.append((rng.choice(SHAPES[ndim]), split, rng.choice(STRATEGIES)))
    spmd(prod(grid_shape), run_pairs, grid_shape, cases)
