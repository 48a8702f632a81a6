"""Plans run: every pair of layouts, strategy and path against the global array."""

import random

import numpy as np
import pytest
from hypothesis import settings
from support.reshard.reshard_run_oracle import (
    GRIDS,
    STRATEGIES,
    Case,
    check_case,
    check_result,
    given,
    random_case,
    wanted,
)

import spmd_grid as sg

PATHS = ["auto", "read", "staged", "packed", "message"]


def n_cases(divisor: int) -> int:
    return max(1, settings().max_examples // divisor)


def check_cases(grid_shape, cases, strategy):
    grid = sg.init_grid(grid_shape)
    for case in cases:
        check_case(case, grid, strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("grid_shape", GRIDS, ids=str)
def test_any_layout_to_any_layout(spmd, grid_shape, strategy):
    rng = random.Random(repr((grid_shape, strategy)))
    cases = [random_case(rng, grid_shape) for _ in range(n_cases(4))]
    spmd(int(np.prod(grid_shape)), check_cases, grid_shape, cases, strategy)


@pytest.mark.parametrize("path", PATHS)
def test_every_path(spmd, path):
    rng = random.Random(path)
    cases = [random_case(rng, (2, 2)) for _ in range(n_cases(4))]
    with sg.forced_path(path):
        spmd(4, check_cases, (2, 2), cases, "auto")


def test_the_regression_of_a_peer(spmd):
    """(5, 3) over 2x2 from [[0, 1]] to replicated: a peer loses a row and makes one of zeros."""
    case = Case((5, 3), ([[0, 1]], {}), ([[]], {}), "f8")
    for strategy in STRATEGIES:
        spmd(4, check_cases, (2, 2), [case], strategy)


# -- other grids -------------------------------------------------------------------------------------------------


def test_from_grid_to_grid(spmd):
    """Other shapes, other orders, other subsets; a process in neither grid is not asked."""

    def body(seed):
        rng, world = random.Random(seed), sg.init_grid((6,))
        for _ in range(n_cases(5)):
            grids = []
            for _ in range(2):
                shape = rng.choice([(1,), (2,), (3,), (2, 2), (5,), (2, 3)])
                grids.append(sg.init_grid(shape, ranks=rng.sample(range(6), int(np.prod(shape)))))
            case = random_case(rng, grids[0].shape, grids[1].shape)
            source, target = case.shardings(*grids)
            local = None if grids[0].coords is None else given(case, source, grids[0].coords)
            involved = grids[0].coords is not None or grids[1].coords is not None
            for grid in grids:
                for strategy in STRATEGIES:
                    result = sg.reshard(local, source, target, grid, case.shape, strategy=strategy)
                    assert (result is None) == (grids[1].coords is None), involved
                    if result is not None:
                        check_result(case, source, target, grids[1].coords, result, grids[1])
            sg.all_reduce(np.zeros(()), world, [0])

    for seed in range(2):
        spmd(6, body, seed)


def test_a_plan_runs_itself(spmd):
    """`Plan.run` is `run_plan`: the same result, in ``out`` or new, and the same prepared operation."""

    def body():
        grid = sg.init_grid((3,))
        rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
        plan = sg.plan_reshard(rows, columns, (4, 7), "i8")
        values = np.arange(28).reshape(4, 7)
        local, expected = (values[each.shard_slices((4, 7), grid.coords)] for each in (rows, columns))
        out = np.empty_like(expected)
        assert np.array_equal(plan.run(local, grid), expected)
        prepared = dict(grid.calls)
        assert np.array_equal(sg.run_plan(plan, local, grid), expected)
        assert plan.run(local, grid, out) is out and np.array_equal(out, expected)
        assert grid.calls == prepared
        with pytest.raises(sg.ShapeError, match="^run_plan: local has shape"):
            plan.run(np.zeros((9, 9), int), grid)
        with pytest.raises(sg.GridError, match="bound to processes"):
            plan.run(local, sg.Grid((3,)))

    spmd(3, body)


def test_from_one_process_to_all_and_back(spmd):
    def body():
        grid = sg.init_grid((2, 2))
        one = sg.init_grid((1,), ranks=[2])
        values = np.arange(35.0).reshape(5, 7)
        lone, everywhere = sg.Sharding(one, []), sg.Sharding(grid, [])
        local = values if one.coords is not None else None
        plan = sg.plan_reshard(lone, everywhere, (5, 7), "f8")
        assert np.array_equal(sg.run_plan(plan, local, grid), values)
        spread = sg.Sharding(grid, [[1], [0]])
        mine = sg.reshard(local, lone, spread, grid, (5, 7))
        assert np.array_equal(mine, values[spread.shard_slices((5, 7), grid.coords)])
        back = sg.reshard(mine, spread, lone, grid, (5, 7))
        assert np.array_equal(back, values) if one.coords is not None else back is None

    for path in ("auto", "message"):
        with sg.forced_path(path):
            spmd(4, body)


# -- partial values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("sum", "f8"), ("max", "f4"), ("min", "i2"), ("product", "c16"), ("bitwise_xor", "u4"), ("bitwise_and", "?")],
)
def test_kinds_of_partial_values(spmd, kind, dtype, strategy):
    ufunc = {"sum": np.add, "max": np.maximum, "min": np.minimum, "product": np.multiply}.get(kind)
    ufunc = ufunc or getattr(np, kind)

    def body():
        grid = sg.init_grid((3, 2))
        rng = np.random.default_rng(5)
        parts = [(rng.integers(-3, 4, (4, 5)) + 0.5 * (dtype[0] in "fc")).astype(dtype) for _ in range(3)]
        source = sg.Sharding(grid, [[1]], partial_axes=[0], partial_kind=kind)
        local = parts[grid.coords[0]][source.shard_slices((4, 5), grid.coords)]
        expected = ufunc(ufunc(parts[0], parts[1]), parts[2])
        for target in (sg.Sharding(grid, []), sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[1], [0]])):
            result = sg.reshard(local, source, target, grid, (4, 5), strategy=strategy)
            assert np.array_equal(result, expected[target.shard_slices((4, 5), grid.coords)]), (target, result)
        other = sg.Sharding(grid, [], partial_axes=[1], partial_kind=kind)
        result = sg.reshard(local, source, other, grid, (4, 5), strategy=strategy)
        assert np.array_equal(sg.all_reduce(result, grid, [1], kind), expected)

    spmd(6, body)


def test_nothing_that_is_added_changes_a_value(spmd):
    """Replicated to partial: one keeps the value, the others the identity; -0.0 stays what it is."""

    def body():
        grid = sg.init_grid((3,))
        values = np.array([-0.0, 0.0, 1.5, np.inf, np.nan])
        for strategy in STRATEGIES:
            target = sg.Sharding(grid, [], partial_axes=[0])
            local = sg.reshard(values, sg.Sharding(grid, []), target, grid, (5,), strategy=strategy)
            again = sg.reshard(local, target, sg.Sharding(grid, []), grid, (5,), strategy=strategy)
            assert np.array_equal(again, values, equal_nan=True)
            assert np.array_equal(np.signbit(again[:2]), [True, False])
            assert np.array_equal(local, values, equal_nan=True) == (grid.rank == 0)

    spmd(3, body)


def test_the_order_of_addition_is_fixed(spmd):
    """1e16 + 1 - 1e16 depends on the order; every device gets the bits of the written one."""

    def body():
        grid = sg.init_grid((3, 2))
        local = np.array([[1e16], [1.0], [-1e16]][grid.coords[0]])
        source = sg.Sharding(grid, [], partial_axes=[0])
        for target in (sg.Sharding(grid, []), sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[1]])):
            for strategy in STRATEGIES:
                result = sg.reshard(local, source, target, grid, (1,), strategy=strategy)
                assert result.tolist() == [(1e16 + 1.0) - 1e16][: result.size]

    spmd(6, body)


# -- ShardedArray ------------------------------------------------------------------------------------------------


def test_sharded_arrays(spmd):
    def body():
        grid = sg.init_grid((2, 2))
        values = np.arange(35).reshape(5, 7)
        source = sg.Sharding(grid, [[0], [1]], halo_sizes=[1, 1, 2, 0])
        a = sg.ShardedArray.from_global(values, source, grid)
        target = sg.Sharding(grid, [[1, 0]], halo_sizes=[0, 2])
        b = a.reshard(target)
        assert b.sharding == target and b.grid is grid and b.shape == (5, 7)
        assert np.array_equal(b.local, sg.ShardedArray.from_global(values, target, grid).local)
        back = sg.zeros((5, 7), source, grid, "int64")
        assert b.reshard(source, out=back) is back and np.array_equal(back.local, a.local)
        with pytest.raises(sg.SpmdError, match="layout"):
            b.reshard(source, out=b)
        outer = np.empty(target.shard_shape((5, 7), grid.coords), "int64")
        d = a.reshard(target, out=outer)
        assert d.local is outer and d.sharding == target and np.array_equal(outer, b.local)
        with pytest.raises(sg.GridError, match="bound to processes"):
            a.reshard(target, grid.grid)
        line = sg.init_grid((3,), ranks=[3, 1, 0])
        c = a.reshard(sg.Sharding(line, [[], [0]]), line)
        assert (c is None) == (line.coords is None)
        if c is not None:
            assert np.array_equal(c.local, values[c.global_slices])

    spmd(4, body)


def test_wanted_is_what_the_oracle_says():
    """The oracle itself: contributions 1 and 2 of a value make three of it."""
    case = Case((2,), ([[]], {"partial_axes": [0]}), ([[]], {}), "i8")
    source, _ = case.shardings(sg.Grid((2,)))
    assert wanted(case, source).tolist() == [0, 3]
    assert [given(case, source, (k,)).tolist() for k in range(2)] == [[0, 1], [0, 2]]
