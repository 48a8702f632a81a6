"""All ordered pairs of shardings, run: a global array must arrive whatever the strategy.

On simulated ranks the default takes some dozen pairs of each grid, by one strategy after the other; ``--full`` all of
them by each.  Under mpiexec random ones run on each number of processes: 150, or a thousand with ``--full``.
"""

import random
from itertools import cycle
from math import prod

import numpy as np
import pytest
from support.reshard.pairs import GRIDS, SHAPES, pairs_of
from support.reshard.reshard_oracle import all_split_axes
from support.reshard.reshard_run_oracle import STRATEGIES

import spmd_grid as sg

MOST_CASES = 50  # in a test of the default


def planned(grid_shape, cases):
    """(plan, split) of each case; plans are values, so simulated ranks share one, as they share this process."""
    grid = sg.Grid(grid_shape)
    for shape, (source, target), strategy in cases:
        yield sg.plan_reshard(sg.Sharding(grid, source), sg.Sharding(grid, target), shape, "int64", strategy)


def run_plans(grid_shape, plans):
    """Runs on every rank: one plan after the other, against a global array."""
    grid = sg.init_grid(grid_shape)
    for plan in plans:
        shape = plan.source.global_shape
        whole = np.arange(prod(shape)).reshape(shape)
        local = whole[plan.source.sharding.shard_slices(shape, grid.coords)]
        expected = whole[plan.target.sharding.shard_slices(shape, grid.coords)]
        result = sg.run_plan(plan, local, grid)
        assert np.array_equal(result, expected), (plan.signature, grid.coords, result, expected)


def run_pairs(grid_shape, cases):
    """Runs on every rank, each making its own plans."""
    run_plans(grid_shape, planned(grid_shape, cases))


def check_pairs(grid_shape, cases):
    for start in range(0, len(cases), 250):  # plans are let go between, with what they have found out
        plans = list(planned(grid_shape, cases[start : start + 250]))
        sg.run_spmd(run_plans, grid_shape, plans, ranks=prod(grid_shape))


@pytest.mark.parametrize("part", range(2))  # which two processes of pytest-xdist may share
@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("grid_shape", GRIDS, ids=str)
def test_some_pairs(grid_shape, ndim, part):
    cases = [(*pair, way) for pair, way in zip(pairs_of(grid_shape, ndim, 1 / 10), cycle(STRATEGIES))]
    check_pairs(grid_shape, cases[: 2 * MOST_CASES][part::2])


@pytest.mark.full
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("grid_shape", GRIDS, ids=str)
def test_all_pairs(grid_shape, ndim, strategy):
    check_pairs(grid_shape, [(*pair, strategy) for pair in pairs_of(grid_shape, ndim, 1)])


@pytest.mark.parametrize("grid_shape", [(2,), (3,), (2, 2), (2, 3)], ids=str)
def test_random_pairs_also_under_mpi(request, spmd, grid_shape):
    rng = random.Random(repr(grid_shape))
    splits = {ndim: all_split_axes(len(grid_shape), ndim) for ndim in SHAPES}
    cases = []
    with_mpi, full = request.config.getoption("with_mpi", default=False), request.config.getoption("full")
    for _ in range(1000 if full else 150 if with_mpi else 50):
        ndim = rng.choice([1, 2, 3])
        split = rng.choice(splits[ndim]), rng.choice(splits[ndim])
        cases.append((rng.choice(SHAPES[ndim]), split, rng.choice(STRATEGIES)))
    spmd(prod(grid_shape), run_pairs, grid_shape, cases)
