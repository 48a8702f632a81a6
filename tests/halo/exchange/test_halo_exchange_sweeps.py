"""HaloExchange against the global array: exhaustive on small grids, with --full; a sample by default."""

import random
from itertools import islice, product

import numpy as np
import pytest
from hypothesis import settings
from support.halo.any_plan import GRIDS, check_any
from support.halo.exchange_oracle import Copies, check_case, check_updates, dawdle, keep_updating, own_random, values_at
from support.halo.halo_oracle import HaloCase
from support.halo.sweeps import GRIDS_2D, SPLITS, case_1d, case_2d, choices_1d, choices_2d, sampled

import spmd_grid as sg


def check_cases(cases, options, seed=None):
    """Runs on every rank: the cases of one grid one after the other."""
    grid = sg.init_grid(cases[0].grid_shape)
    rng = None if seed is None else own_random(seed, grid)
    for case in cases:
        check_case(case, grid, rng=rng, **options)


def run_cases(spmd, make, chosen, path):
    cases = [make(*parts) for parts in chosen]
    spmd(int(np.prod(cases[0].grid_shape)), check_cases, cases, {"path": path})


def size(divisor: int) -> int:
    """The number of cases: a part of what the profile allows (500 with --full)."""
    return max(1, settings().max_examples // divisor)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_lines(spmd, n, path):
    run_cases(spmd, case_1d, sampled(choices_1d(n), size(8)), path)


@pytest.mark.full
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_all_lines(spmd, n, path):
    """All of them on simulated ranks, a large sample under MPI, where plans take longer."""
    chosen = list(product(*choices_1d(n)))
    if settings().max_examples < 500:
        chosen = random.Random(n).sample(chosen, min(len(chosen), 150))
    run_cases(spmd, case_1d, chosen, path)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("split_axes", [[[0], [1]], [[1], [0]]], ids=str)
@pytest.mark.parametrize("grid_shape", GRIDS_2D, ids=str)
def test_planes(spmd, grid_shape, split_axes, path):
    run_cases(spmd, case_2d, sampled(choices_2d(grid_shape, split_axes), size(30)), path)


@pytest.mark.full
@pytest.mark.parametrize("split_axes", [[[0], [1]], [[1], [0]]], ids=str)
@pytest.mark.parametrize("grid_shape", GRIDS_2D, ids=str)
def test_many_planes(spmd, grid_shape, split_axes, path):
    """A large sample: all there are would be 100,000 for each grid."""
    run_cases(spmd, case_2d, sampled(choices_2d(grid_shape, split_axes), size(2)), path)


# -- any grid, any rule for cells outside the domain, with and without corners --------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize(["grid_shape", "split_axes"], GRIDS, ids=str)
def test_any_plan(spmd, grid_shape, split_axes, path):
    spmd(int(np.prod(grid_shape)), check_any, grid_shape, split_axes, size(12), 3, path)


@pytest.mark.full
@pytest.mark.parametrize(["grid_shape", "split_axes"], GRIDS, ids=str)
def test_many_plans(spmd, grid_shape, split_axes, path):
    spmd(int(np.prod(grid_shape)), check_any, grid_shape, split_axes, size(2), 4, path)


def test_any_plan_in_any_order(in_any_order, path):
    """Ranks that drift apart, or take turns as a seed says."""
    in_any_order(6, check_any, (2, 3), [[0], [1]], 2, 5, path, True)
    in_any_order(4, check_any, (4,), [[0]], 2, 6, path, True)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap", "constant"])
def test_numpy_pad(spmd, mode, path):
    """The local arrays of all ranks are pieces of the array as numpy pads it, corners too."""

    def body():
        grid = sg.init_grid((2, 2))
        sharding = sg.Sharding(grid, [[0], [1]], halo_sizes=[2, 3, 6, 1], blocks="balanced")
        shape = 5, 7
        boundary = {"wrap": "leave", "constant": 2.5}.get(mode, mode)
        options = {"constant_values": 2.5} if mode == "constant" else {}
        with sg.HaloExchange(grid, sharding, shape, "f8", mode == "wrap", boundary=boundary, path=path) as halo:
            box = halo.layout.local_box(grid.coords).shift((2, 6))
            for step in range(5):
                array = np.arange(35.0).reshape(shape) + 100 * step
                u = sg.ShardedArray.from_global(array, sharding, grid)
                halo.update(u)
                padded = np.pad(array, [(2, 3), (6, 1)], mode=mode, **options)
                assert np.array_equal(u.local, padded[box.slices()])

    spmd(4, body)


def test_functions_set_cells_outside_the_domain(spmd, path):
    """They are called side by side, when all other cells are there, and see what the ones before them have set."""

    def low(local, outside):
        local[outside] = -100 - abs(int(local.sum())) % 50

    def high(local, outside):
        local[outside] = np.flip(local, 0)[outside] + 1

    def body(corners):
        grid = sg.init_grid((2, 3))
        sharding = sg.Sharding(grid, [[0], [1]], halo_sizes=[1, 2, 2, 1])
        boundary = [(low, high), ("edge", low)]
        with sg.HaloExchange(grid, sharding, (5, 6), "i8", boundary=boundary, corners=corners, path=path) as halo:
            copies = Copies(halo.layout, grid.coords, False, corners, boundary)
            u = sg.zeros((5, 6), sharding, grid, "i8")
            n_calls = 0
            for step in range(6):
                values = values_at(step, halo.layout, grid.coords)
                u.core[...] = values.reshape(5, 6)[u.global_slices]
                wanted = copies.refreshed(u.local, values)
                for side in (0, 0), (0, 1), (1, 1):
                    mask = copies.sides[side]
                    if mask.any():
                        dims = [np.flatnonzero(mask.any(axis=1 - d)) for d in range(2)]
                        outside = tuple([slice(int(line[0]), int(line[-1]) + 1) for line in dims])
                        (high if side == (0, 1) else low)(wanted, outside)
                        n_calls += 1
                if step % 2:
                    halo.start(u)
                    halo.wait()
                else:
                    halo.update(u.local)
                assert np.array_equal(u.local, wanted), (grid.coords, step, u.local, wanted)
        return n_calls

    for corners in True, False:
        assert sum(spmd(6, body, corners)) == 6 * 8


def test_a_function_that_fails_fails_on_its_rank_alone(spmd):
    def once(local, outside):
        if fail[0]:
            raise ZeroDivisionError("on purpose")
        local[outside] = -1

    fail = [False]

    def body():
        grid = sg.init_grid((3,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 0])
        u = sg.zeros((6,), sharding, grid)
        with sg.HaloExchange(grid, sharding, (6,), "f8", boundary=once) as halo:
            for step in range(6):
                u.core[:] = 10 * grid.rank + step
                sg.all_reduce(0, grid, [0], "sum")
                fail[0] = step % 2 == 1
                sg.all_reduce(0, grid, [0], "sum")
                if grid.rank == 0 and fail[0]:
                    with pytest.raises(ZeroDivisionError):
                        halo.update(u)
                else:
                    halo.update(u)
                    assert u.local[0] == (10 * (grid.rank - 1) + step if grid.rank else -1)
                sg.all_reduce(0, grid, [0], "sum")

    spmd(3, body)


# -- the kinds of shardings that update_halo is tested on -----------------------------------------------------


def test_splits(spmd, path):
    for split in SPLITS:
        spmd(int(np.prod(split[0])), check_cases, [HaloCase(*split)], {"path": path})


def test_splits_in_any_order(in_any_order, path):
    for split in islice(SPLITS, 3, 5):
        in_any_order(int(np.prod(split[0])), check_cases, [HaloCase(*split)] * 2, {"path": path}, 11)


def test_large(spmd, path):
    """Faces of all kinds, past the sizes from which kernels copy and arrays are read in place."""
    cut = {"rows": ([[0], []], (64, 9000)), "columns": ([[], [0]], (3000, 64)), "both": ([[0], [1]], (300, 400))}

    def body():
        for name, (split_axes, shape) in cut.items():
            grid = sg.init_grid((2, 2) if name == "both" else (4,))
            halo_sizes = [31, 17, 29, 33] if name == "both" else [2, 2]
            sharding = sg.Sharding(grid, split_axes, halo_sizes=halo_sizes)
            check_updates(grid, sharding, shape, memory=("arena", "C", "arena", "F"), path=path, periodic=[True, False])

    spmd(4, body)


def test_a_long_run_of_ranks_that_drift_apart(spmd, path):
    """Many updates by one plan, without anything else between that would hold ranks together."""

    def body():
        grid = sg.init_grid((4,))
        rng = own_random(8, grid)
        for halo_sizes in ([1, 1], [2, 0], [0, 5]):
            sharding = sg.Sharding(grid, [[0]], halo_sizes=halo_sizes)
            with sg.HaloExchange(grid, sharding, (11,), "i8", path=path) as halo:
                keep_updating(grid, halo, updates=60, rng=rng)
                dawdle(rng)

    spmd(4, body)
