"""Plans run: every pair of layouts, strategy and path against the global array."""

import random

import numpy as np
import pytest
from hypothesis import settings
from support.reshard.reshard_run_oracle import (
    GRIDS,
    Case,
    check_case,
    check_result,
    given,
    local_in,
    random_case,
    wanted,
)

import spmd_grid as sg
from spmd_grid.grid.layout import Layout

STRATEGIES = ["direct", "basis", "auto"]
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
        with pytest.raises(sg.ShapeError, match="local has shape"):
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


# -- arrays ------------------------------------------------------------------------------------------------------


def test_inputs_and_outputs_of_any_strides(spmd):
    def body():
        grid = sg.init_grid((2, 2))
        values = np.arange(63.0).reshape(9, 7)
        source, target = sg.Sharding(grid, [[0], [1]]), sg.Sharding(grid, [[1, 0]])
        local = values[source.shard_slices((9, 7), grid.coords)]
        expected = values[target.shard_slices((9, 7), grid.coords)]
        wide = np.full((2 * expected.shape[0], expected.shape[1]), -1.0)
        for x in (local, np.asfortranarray(local), local[::-1].copy()[::-1], np.repeat(local, 2, 1)[:, ::2]):
            for out in (None, np.empty_like(expected), np.empty_like(expected, order="F"), wide[::2]):
                result = sg.reshard(x, source, target, grid, (9, 7), out)
                assert np.array_equal(result, expected) and (out is None or result is out)
        assert (wide[1::2] == -1).all()

    spmd(4, body)


def test_in_place(spmd):
    """``out`` may be the input itself where shapes are equal, whatever stays on a process, and where."""

    def body(shape, grid_shape, source, target):
        grid = sg.init_grid(grid_shape)
        source, target = (sg.Sharding(grid, split, **options) for split, options in (source, target))
        values = np.arange(np.prod(shape)).reshape(shape)
        for strategy in STRATEGIES:
            local = given(Case(shape, (), (), "i8"), source, grid.coords)
            result = sg.reshard(local, source, target, grid, shape, local, strategy=strategy)
            assert result is local
            expected = local_in(Layout(target, shape), grid.coords, values % 97, halos=True)
            assert np.array_equal(local, expected), (strategy, grid.coords, local, expected)

    cases = [
        ((6, 6), (2, 2), ([[0], [1]], {}), ([[1], [0]], {})),
        ((8, 4), (2, 2), ([[0, 1]], {}), ([[1, 0]], {})),
        ((8,), (4,), ([[0]], {}), ([[0]], {"blocks": "balanced"})),
        ((7,), (4,), ([[0]], {"halo_sizes": [1, 1]}), ([[0]], {"halo_sizes": [0, 2]})),
        ((4, 4), (4,), ([[0]], {}), ([[0]], {})),
    ]
    for path in ("auto", "read", "message", "packed"):
        with sg.forced_path(path):
            for case in cases:
                spmd(4, body, *case)


def test_several_arrays_share_an_exchange(spmd):
    def body():
        grid = sg.init_grid((3,))
        source, target = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
        values = [np.arange(35.0).reshape(5, 7), np.arange(35, dtype="i2").reshape(5, 7) + 1]
        locals_ = [value[source.shard_slices((5, 7), grid.coords)] for value in values]
        expected = [value[target.shard_slices((5, 7), grid.coords)] for value in values]
        for strategy in STRATEGIES:
            outs = [np.empty_like(each) for each in expected]
            for out in (None, outs):
                results = sg.reshard(locals_, source, target, grid, (5, 7), out, strategy=strategy)
                assert all(map(np.array_equal, results, expected))
                assert [result.dtype for result in results] == [value.dtype for value in values]
        plan = sg.plan_reshard(source, target, (5, 7), ["f8", "i2"])
        assert plan.itemsize == 10
        assert all(map(np.array_equal, sg.run_plan(plan, locals_, grid), expected))

    spmd(3, body)


@pytest.mark.parametrize("dtype", ["S3", "M8[s]", "V5", [("a", "i2"), ("b", ">f8")], ">i4", "f2"], ids=str)
def test_dtypes_that_are_only_moved(spmd, dtype):
    def body():
        grid = sg.init_grid((3,))
        source, target = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
        n = np.dtype(dtype).itemsize * 20
        values = np.frombuffer(bytes(i % 251 for i in range(n)), dtype).reshape(5, 4)
        local = values[source.shard_slices((5, 4), grid.coords)]
        result = sg.reshard(local, source, target, grid, (5, 4))
        assert result.tobytes() == values[target.shard_slices((5, 4), grid.coords)].tobytes()

    spmd(3, body)


def test_zero_dimensions_and_empty_arrays(spmd):
    def body():
        grid = sg.init_grid((2, 2))
        nothing = sg.Sharding(grid, [])
        assert sg.reshard(np.array(3.0), nothing, nothing, grid, ()) == 3.0
        summed = sg.reshard(np.array(1.0), sg.Sharding(grid, [], partial_axes=[0, 1]), nothing, grid, ())
        assert summed == 4.0 and summed.shape == ()
        for strategy in STRATEGIES:
            assert sg.reshard(
                np.empty((0, 3)), sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [1]]), grid, (0, 3),
                strategy=strategy,
            ).shape == (0, 2 - grid.coords[1])  # fmt: skip

    spmd(4, body)


def test_other_orders_of_the_same_processes(spmd):
    """Layouts that differ in nothing but which process is which device have plans of their own."""

    def body():
        for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 1, 2]):
            grid = sg.init_grid((3,), ranks=order)
            source, target = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
            values = np.arange(15).reshape(5, 3)
            for strategy in STRATEGIES:
                local = values[source.shard_slices((5, 3), grid.coords)]
                result = sg.reshard(local, source, target, grid, (5, 3), strategy=strategy)
                assert np.array_equal(result, values[target.shard_slices((5, 3), grid.coords)])

    spmd(3, body)


def test_in_place_from_halos(spmd):
    """The cells that an all_gather sends may lie elsewhere in the very array that it fills."""

    def body():
        grid = sg.init_grid((2,))
        source, target = sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), sg.Sharding(grid, [])
        for strategy in STRATEGIES:
            local = given(Case((4,), (), (), "i8"), source, grid.coords)
            assert sg.reshard(local, source, target, grid, (4,), local, strategy=strategy).tolist() == [0, 1, 2, 3]

    for path in ("auto", "message"):
        with sg.forced_path(path):
            spmd(2, body)


@pytest.mark.parametrize("dtype", ["S3", "U2", "V5", "M8[s]", [("a", "i2"), ("b", "S2")]], ids=str)
def test_cells_outside_the_domain_are_zero_in_any_dtype(spmd, dtype):
    def body():
        grid = sg.init_grid((2,))
        source, target = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        values = np.frombuffer(bytes(range(1, 1 + 5 * np.dtype(dtype).itemsize)), np.uint8).view(dtype)
        result = sg.reshard(values[source.shard_slices((5,), grid.coords)], source, target, grid, (5,))
        expected = sg.ShardedArray.from_global(values, target, grid).local
        assert result.tobytes() == expected.tobytes()

    spmd(2, body)


def test_lists_stay_lists(spmd):
    """A list of one gives a list, also on a process that has none itself."""

    def body():
        first, last = sg.init_grid((1,), ranks=[0]), sg.init_grid((2,))
        source, target = sg.Sharding(first, []), sg.Sharding(last, [[0]])
        for n in (1, 2, 3):
            local = [np.arange(4) + k for k in range(n)] if first.coords is not None else None
            results = sg.reshard(local, source, target, last, (4,))
            assert [each.tolist() for each in results] == [[2 * last.rank + k, 2 * last.rank + 1 + k] for k in range(n)]
        plan = sg.plan_reshard(source, target, (4,), ("f8", "i2"))
        assert plan.several and plan.dtypes == (np.dtype("f8"), np.dtype("i2"))
        assert not sg.plan_reshard(source, target, (4,), [("a", "i2"), ("b", "f4")]).several

    spmd(2, body)


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
