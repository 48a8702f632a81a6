"""ShardedArray: its constructors, its methods, and partial values."""

import numpy as np
import pytest
from support.sharded_arrays import ROW, on_grid, refused

import spmd_grid as sg

# -- what constructors make ------------------------------------------------------------------------------------


def test_zeros_and_empty(spmd):
    def check(grid):
        s = sg.Sharding(grid, [[], ROW[0]], halo_sizes=[1, 2])
        a = sg.zeros((2, 7), s, grid)
        assert a.dtype == np.float64 and a.shape == (2, 7) and a.ndim == 2
        assert a.local.shape == s.shard_shape((2, 7), grid.coords) and not a.local.any()
        assert a.sharding == s and a.grid is grid
        b = sg.empty((2, 7), s, grid, dtype="i2")
        assert b.dtype == np.int16 and b.local.shape == a.local.shape
        return a.core.shape

    assert on_grid(spmd, 3, check) == [(2, 3), (2, 3), (2, 1)]


def test_full_fills_the_domain_only(spmd):
    def check(grid):
        s = sg.Sharding(grid, ROW, halo_sizes=[1, 2])
        a = sg.full((5,), s, grid, "int64", fill_value=7)
        assert a.dtype == np.array(7).dtype
        assert sg.full((5,), s, grid, fill_value=7, dtype="f4").dtype == np.float32
        return a.local.tolist()

    assert on_grid(spmd, 3, check) == [[0, 7, 7, 7, 7], [7, 7, 7, 7, 0], [7, 7, 0, 0]]


def test_from_function(spmd):
    def check(grid):
        s = sg.Sharding(grid, [[1], [0]], halo_sizes=[1, 0, 0, 2])
        shape = (5, 4)
        a = sg.from_function(lambda i, j: 10 * i + j, shape, s, grid)
        expected = 10 * np.arange(5)[:, None] + np.arange(4)
        assert np.array_equal(a.core, expected[s.shard_slices(shape, grid.coords)])
        b = sg.ShardedArray.from_global(expected, s, grid)
        assert np.array_equal(a.local, b.local) and a.dtype == b.dtype
        assert np.array_equal(a.to_global(), expected)
        scalar = sg.from_function(lambda i, j: 3, shape, s, grid, dtype="f4")
        assert scalar.dtype == np.float32 and (scalar.core == 3).all()
        assert sg.from_function(lambda: 5, (), sg.Sharding(grid, []), grid).to_global() == 5

    on_grid(spmd, 6, check, (2, 3))


def test_from_function_of_an_empty_block(spmd):
    def check(grid):
        a = sg.from_function(lambda i: i * 0.5, (2,), sg.Sharding(grid, ROW), grid)
        return a.core.tolist(), a.to_global().tolist()

    assert on_grid(spmd, 3, check) == [([0.0], [0.0, 0.5]), ([0.5], [0.0, 0.5]), ([], [0.0, 0.5])]


def test_from_global_copies_and_fills_halos(spmd):
    def check(grid):
        array = np.arange(1, 8)
        a = sg.ShardedArray.from_global(array, sg.Sharding(grid, ROW, halo_sizes=[2, 1]), grid)
        a.local[:] += 100
        assert array.tolist() == [1, 2, 3, 4, 5, 6, 7]
        assert not np.shares_memory(a.local, array)
        return (a.local - 100).tolist()

    assert on_grid(spmd, 3, check) == [[0, 0, 1, 2, 3, 4], [2, 3, 4, 5, 6, 7], [5, 6, 7, 0]]


def test_from_global_takes_what_numpy_takes(spmd):
    def check(grid):
        return sg.ShardedArray.from_global([[1, 2], [3, 4]], sg.Sharding(grid, [[], [0]]), grid).local.tolist()

    assert on_grid(spmd, 2, check) == [[[1], [3]], [[2], [4]]]


def test_from_local_wraps_without_a_copy(spmd):
    def check(grid):
        s = sg.Sharding(grid, ROW, halo_sizes=[1, 1])
        buffer = np.zeros(20)
        local = buffer[2 : 2 + s.shard_shape((7,), grid.coords)[0]]
        a = sg.ShardedArray.from_local(local, s, grid, [7])
        assert a.local is local
        a.core[:] = grid.rank + 1
        assert (local[1:-1] == grid.rank + 1).all()
        return a.update_halo().to_global().tolist()

    assert on_grid(spmd, 3, check) == [[1, 1, 1, 2, 2, 2, 3]] * 3


def test_from_global_and_from_local_are_functions_too(spmd):
    def check(grid):
        s = sg.Sharding(grid, ROW, halo_sizes=[1, 1])
        a = sg.from_global(np.arange(1, 8), s, grid, name="a")
        b = sg.ShardedArray.from_global(np.arange(1, 8), s, grid, "a")
        assert np.array_equal(a.local, b.local) and (a.layout, a.name, a.dtype) == (b.layout, b.name, b.dtype)
        assert a.local.shape == s.local_shape((7,), grid.coords)
        c = sg.from_local(a.local, s, grid, (7,), name="c")
        assert c.local is a.local and (c.layout, c.name) == (a.layout, "c")
        return c.to_global().tolist()

    assert on_grid(spmd, 3, check) == [[1, 2, 3, 4, 5, 6, 7]] * 3


def test_from_global_and_from_local_refuse_on_all(spmd):
    def from_global(grid):
        sg.from_global(np.zeros((4, 5 if grid.rank == 2 else 4)), sg.Sharding(grid, ROW), grid)

    def from_local(grid):
        sg.from_local(np.zeros((3 if grid.rank == 1 else 2, 4)), sg.Sharding(grid, ROW), grid, (4, 4))

    for make in (from_global, from_local):
        name, message = refused(spmd, make)
        assert name == "ShapeError" and message.startswith(f"{make.__name__}: ")


def test_local_and_core_are_writeable_views(spmd):
    def check(grid):
        a = sg.zeros((4, 4), sg.Sharding(grid, [[0], [1]], halo_sizes=[1, 0, 2, 1]), grid)
        a.core[...] = 1
        assert a.local.sum() == a.core.size == 4
        a.local[...] = 2
        assert (a.core == 2).all() and np.shares_memory(a.core, a.local)
        with pytest.raises(AttributeError):
            a.local = np.zeros(3)

    on_grid(spmd, 4, check, (2, 2))


# -- to_global and update_halo -----------------------------------------------------------------------------------


def test_to_global_on_a_root(spmd):
    def check(grid):
        array = np.arange(20).reshape(4, 5)
        a = sg.ShardedArray.from_global(array, sg.Sharding(grid, [[1], [0]], halo_sizes=[1, 1, 1, 1]), grid)
        whole = a.to_global(root=[1, 2])
        assert (whole is not None) == (grid.coords == (1, 2))
        assert whole is None or np.array_equal(whole, array)
        whole = a.to_global(root=(0, 0))
        return whole is not None

    assert on_grid(spmd, 6, check, (2, 3)) == [True] + [False] * 5


def test_to_global_takes_one_of_equal_copies_and_never_aliases(spmd):
    def check(grid):
        a = sg.ShardedArray.from_global(np.arange(5), sg.Sharding(grid, []), grid)
        whole = a.to_global()
        assert not np.shares_memory(whole, a.local)
        whole[:] = -1
        assert a.to_global().tolist() == [0, 1, 2, 3, 4]

    on_grid(spmd, 2, check)


def test_update_halo_periodic(spmd):
    def check(grid):
        a = sg.ShardedArray.from_global(np.arange(1, 6), sg.Sharding(grid, ROW, halo_sizes=[1, 1]), grid)
        a.core[:] *= 10
        assert a.update_halo(periodic=True) is a
        return a.local.tolist()

    assert on_grid(spmd, 2, check) == [[50, 10, 20, 30, 40], [30, 40, 50, 10]]


def test_update_halo_knows_its_own_blocks(spmd):
    def check(grid):
        for options in {"blocks": "balanced"}, {"sharded_dims_offsets": [0, 0, 5, 7]}:
            s = sg.Sharding(grid, [[], [0]], halo_sizes=[2, 1], **options)
            a = sg.ShardedArray.from_global(np.arange(14).reshape(2, 7), s, grid)
            before = a.local.copy()
            a.local[:, :2], a.local[:, -1:] = 0, 0
            a.update_halo()
            assert np.array_equal(a.local, before)
        a = sg.zeros((3,), sg.Sharding(grid, ROW), grid)
        assert a.update_halo() is a

    on_grid(spmd, 3, check)


# -- partial values --------------------------------------------------------------------------------------------

PARTIAL = [
    ("sum", "i4", 0),
    ("sum", "f8", 0),
    ("sum", "?", False),
    ("product", "i4", 1),
    ("max", "i2", -(2**15)),
    ("max", "f4", -np.inf),
    ("min", "u1", 255),
    ("min", "f8", np.inf),
    ("bitwise_and", "u2", 2**16 - 1),
    ("bitwise_and", "i8", -1),
    ("bitwise_or", "i4", 0),
    ("bitwise_xor", "i4", 0),
]


@pytest.mark.parametrize(("kind", "dtype", "identity"), PARTIAL, ids=str)
def test_partial_axes(spmd, kind, dtype, identity):
    def check(grid):
        array = np.array([1, 0, 1, 5, 3]).astype(dtype)
        s = sg.Sharding(grid, [[1]], halo_sizes=[1, 0], partial_axes=[0], partial_kind=kind)
        a = sg.ShardedArray.from_global(array, s, grid)
        plain = sg.ShardedArray.from_global(array, sg.Sharding(grid, [[1]], halo_sizes=[1, 0]), grid)
        if grid.coords[0] == 0:
            assert np.array_equal(a.local, plain.local)
        else:
            assert (a.core == identity).all() and a.core.shape == plain.core.shape
            assert a.local[0] == (identity if grid.coords[1] else 0)
        whole = a.to_global()
        assert np.array_equal(whole, array) and whole.dtype == dtype
        whole = a.to_global(root=(1, 1))
        assert (whole is None) == (grid.coords != (1, 1))
        assert whole is None or np.array_equal(whole, array)

    on_grid(spmd, 4, check, (2, 2))


def test_partial_values_are_combined(spmd):
    def check(grid):
        s = sg.Sharding(grid, [[1]], partial_axes=[0], partial_kind="max")
        a = sg.full((4,), s, grid, fill_value=0)
        a.core[:] = grid.rank
        return a.to_global().tolist()

    assert on_grid(spmd, 4, check, (2, 2)) == [[2, 2, 3, 3]] * 4


def test_partial_from_function_and_full(spmd):
    def check(grid):
        s = sg.Sharding(grid, [], partial_axes=[0], partial_kind="product")
        a = sg.full((2,), s, grid, fill_value=5)
        b = sg.from_function(lambda i: i + 3, (2,), s, grid)
        return a.local.tolist(), b.local.tolist(), a.to_global().tolist(), b.to_global().tolist()

    assert on_grid(spmd, 2, check) == [([5, 5], [3, 4], [5, 5], [3, 4]), ([1, 1], [1, 1], [5, 5], [3, 4])]


@pytest.mark.parametrize(("kind", "dtype"), [("bitwise_and", "f8"), ("sum", "S3"), ("sum", "M8[s]")])
def test_partial_values_that_cannot_be_reduced(spmd, kind, dtype):
    def check(grid):
        s = sg.Sharding(grid, [], partial_axes=[0], partial_kind=kind)
        makers = [
            lambda: sg.ShardedArray.from_global(np.zeros(2, dtype), s, grid),
            lambda: sg.ShardedArray.from_local(np.zeros(2, dtype), s, grid, (2,)),
            lambda: sg.zeros((2,), s, grid, dtype),
        ]
        for make in makers:
            with pytest.raises(sg.DTypeError, match="reduction"):
                make()
        return True

    assert all(on_grid(spmd, 2, check))


# -- where it lives --------------------------------------------------------------------------------------------


def test_on_a_part_of_the_processes_in_another_order(spmd):
    def check(grid):
        s = sg.Sharding(grid, [["x"], ["y"]], halo_sizes=[1, 0, 0, 1])
        if grid.coords is None:
            for make in (
                lambda: sg.zeros((2, 4), s, grid),
                lambda: sg.ShardedArray.from_global(np.zeros((2, 4)), s, grid),
                lambda: sg.from_function(lambda i, j: i + j, (2, 4), s, grid),
            ):
                with pytest.raises(sg.GridError, match="not in the"):
                    make()
            return None
        array = np.arange(8).reshape(2, 4)
        a = sg.ShardedArray.from_global(array, s, grid)
        a.core[...] += 10
        a.update_halo()
        assert np.array_equal(a.to_global(), array + 10)
        whole = a.to_global(root=[0, 1])
        return grid.coords, a.core[0].tolist(), whole is not None

    results = on_grid(spmd, 4, check, (1, 2), axis_names=("x", "y"), ranks=[3, 1])
    assert results == [None, ((0, 1), [12, 13], True), None, ((0, 0), [10, 11], False)]


def test_repr_is_local():
    def body():
        grid = sg.init_grid((2,))
        a = sg.zeros((3,), sg.Sharding(grid, ROW, halo_sizes=[1, 1]), grid)
        return repr(a) if grid.rank == 1 else None  # rank 0 takes no part

    shown = sg.run_spmd(body, ranks=2)[1]
    for part in "ShardedArray", "(3,)", "float64", "[[0]]", "(3,)", "(1,)":
        assert part in shown


# -- refusals --------------------------------------------------------------------------------------------------


def test_it_becomes_no_numpy_array_by_itself(spmd):
    def check(grid):
        a = sg.zeros((3,), sg.Sharding(grid, ROW), grid)
        for use in (lambda: np.asarray(a), lambda: np.array(a)):
            with pytest.raises(sg.ImplicitGatherError, match="to_global"):
                use()
        with pytest.raises(sg.ImplicitGatherError, match="iterating"):
            iter(a)
        with pytest.raises(sg.OutputError, match="ShardedArray"):
            np.sin(a, out=np.zeros(3))

    on_grid(spmd, 2, check)
