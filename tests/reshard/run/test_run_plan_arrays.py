"""Plans run on arrays of any strides, dtypes and extents, in place, and several at once."""

import numpy as np
import pytest
from support.reshard.reshard_run_oracle import STRATEGIES, Case, given, local_in
from support.same_bytes import same_bytes

import spmd_grid as sg
from spmd_grid.grid.layout import Layout


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
        assert same_bytes(result, values[target.shard_slices((5, 4), grid.coords)])

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
        assert same_bytes(result, expected)

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
