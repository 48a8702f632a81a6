"""Every function with a rule, on several layouts, against numpy on the global array."""

from itertools import permutations

import numpy as np
import pytest
from support.compute.functions import ASSIGNMENTS, MATRIX, SCALARS, globals_of

import spmd_grid as sg

LAYOUTS = {
    "rows": ([[0, 1]], {}),
    "blocks": ([[0], [1]], {}),
    "swapped, halos": ([[1], [0]], {"halo_sizes": [1, 2, 0, 1]}),
    "columns, balanced": ([[], [1]], {"blocks": "balanced"}),
    "offsets": ([[0], [1]], {"sharded_dims_offsets": [[0, 5, 7], [0, 0, 2, 5]]}),
    "replicated": ([], {}),
}


def same(found, want):
    got = found.to_global() if isinstance(found, sg.ShardedArray) else found
    assert np.asarray(got).dtype == np.asarray(want).dtype, (np.asarray(got).dtype, np.asarray(want).dtype)
    np.testing.assert_allclose(got, want, rtol=1e-6 if np.asarray(want).dtype == np.float32 else 1e-12, atol=1e-12)


def sharded(x, name, grid):
    axes, options = LAYOUTS[name]
    return sg.ShardedArray.from_global(x, sg.Sharding(grid, axes, **options), grid)


@pytest.mark.parametrize("function", MATRIX)
def test_functions(spmd, function):
    def body():
        grid, (x, y) = sg.init_grid((2, 3)), globals_of()
        want = MATRIX[function](x, y)
        for one, other in [("rows", "rows"), ("blocks", "swapped, halos"), ("columns, balanced", "offsets")]:
            found = MATRIX[function](sharded(x, one, grid), sharded(y, other, grid))
            same(found, want)
            assert found.shape == want.shape and found.sharding.halo_sizes is None

    spmd(6, body)


@pytest.mark.parametrize("function", SCALARS)
def test_functions_that_give_a_number(spmd, function):
    def body():
        grid, (x, y) = sg.init_grid((2, 3)), globals_of()
        found = [
            SCALARS[function](sharded(x, one, grid), sharded(y, other, grid))
            for one, other in [("rows", "replicated"), ("offsets", "swapped, halos")]
        ]
        for each in found:
            same(each, SCALARS[function](x, y))
        return found

    assert len({repr(each) for each in spmd(6, body)}) == 1  # equal bits on every process


@pytest.mark.parametrize("case", ASSIGNMENTS)
def test_assignments(spmd, case):
    key, value = ASSIGNMENTS[case]

    def body():
        grid, (x, y) = sg.init_grid((2, 3)), globals_of()
        for one, other in [("blocks", "swapped, halos"), ("offsets", "rows"), ("swapped, halos", "blocks")]:
            a, b, want = sharded(x, one, grid), sharded(y, other, grid), x.copy()
            want[key] = value(want.copy(), y)
            a[key] = value(a, b)
            same(a, want)

    spmd(6, body)


def test_masks_and_in_place_operators(spmd):
    def body():
        grid, (x, y) = sg.init_grid((2, 3)), globals_of()
        a, b = sharded(x, "blocks", grid), sharded(y, "swapped, halos", grid)
        before = a
        a[b > 0] = -1.0
        a += b
        a *= 2
        np.add(a, 1, out=a)
        assert a is before
        want = x.copy()
        want[y > 0] = -1.0
        same(a, (want + y) * 2 + 1)

    spmd(6, body)


def test_layouts_of_results(spmd):
    def body():
        grid, (x, y) = sg.init_grid((2, 3)), globals_of()
        a, b = sharded(x, "blocks", grid), sharded(y.astype("f4"), "rows", grid)
        halos = sharded(x, "swapped, halos", grid)
        found = {
            "equal layouts": (a + a).sharding,
            "halos aside": (halos * 2).sharding,
            "most bytes": (b + a).sharding,
            "the first of equals": (halos + a).sharding,
            "a reduced dimension": a.sum(axis=0).sharding,
            "a transpose": a.T.sharding,
            "a slice": a[1:, ::2].sharding,
            "a new dimension": a[None].sharding,
        }
        wanted = {
            "equal layouts": [[0], [1]],
            "halos aside": [[1], [0]],
            "most bytes": [[0], [1]],
            "the first of equals": [[1], [0]],
            "a reduced dimension": [[1]],
            "a transpose": [[1], [0]],
            "a slice": [[0], [1]],
            "a new dimension": [[], [0], [1]],
        }
        assert found == {name: sg.Sharding(grid, axes) for name, axes in wanted.items()}

    spmd(6, body)


def test_out(spmd):
    def body():
        grid, (x, y) = sg.init_grid((2, 3)), globals_of()
        a, b = sharded(x, "blocks", grid), sharded(y, "swapped, halos", grid)
        rows, new = sg.Sharding(grid, [[0]]), sg.zeros((7, 5), a.sharding, grid)
        same(np.sum(a, 1, None, sg.zeros((7,), rows, grid, dtype="f4")), x.sum(axis=1).astype("f4"))
        same(np.mean(a, axis=1, out=sg.zeros((7,), rows, grid)), x.mean(axis=1))
        assert np.clip(a, -1, 1, new) is new
        same(new, x.clip(-1, 1))
        same(np.cumsum(a, axis=0, out=new), x.cumsum(axis=0))
        same(np.add(a, 1, where=b > 0, out=a.copy()), np.add(x, 1, where=y > 0, out=x.copy()))
        same(np.divmod(a, 3, out=(sg.zeros((7, 5), a.sharding, grid), new))[1], np.divmod(x, 3)[1])
        number = sg.zeros((), sg.Sharding(grid, []), grid)
        number[...] = 5
        assert np.max(a, out=number) is number
        same(number, x.max())

    spmd(6, body)


def test_operands_on_other_grids_and_partial_values(spmd):
    def body():
        grid, line, (x, y) = sg.init_grid((2, 3)), sg.init_grid((6,)), globals_of()
        a = sg.ShardedArray.from_global(x, sg.Sharding(grid, [[0]], partial_axes=[1]), grid)
        b = sg.ShardedArray.from_global(y, sg.Sharding(line, [[], [0]], halo_sizes=[1, 1]), line)
        same(a + b, x + y)
        same(a @ b.T, x @ y.T)
        same(a * 2, x * 2)
        same(a[1:, 2], x[1:, 2])
        same(a[None, ::-1].sum(axis=0), x[::-1])
        same(np.cumsum(a, axis=0), np.cumsum(x, axis=0))
        same(a.reshape(5, 7), x.reshape(5, 7))
        same(np.where(a > 1, b, a), np.where(x > 1, y, x))
        same(np.concatenate([b, a], axis=1), np.concatenate([y, x], axis=1))

    spmd(6, body)


def test_calls_that_look_the_same_are_kept_apart_by_what_differs():
    grid, (x, _) = sg.init_grid((1, 1)), globals_of()
    a = sharded(x, "rows", grid)
    for indices in ([0, 1], np.array([1, 0]), np.array([2, 0])):
        same(np.take(a, indices, axis=1), x[:, indices])
    for row in (np.arange(5.0), np.ones(5), np.ones(5, dtype="f4")):
        same(a * row, x * row)
    for axis in (0, 1, None, (0, 1), (1,)):
        same(np.sum(a, axis), np.sum(x, axis))
        same(np.sum(a, axis=axis, keepdims=True), np.sum(x, axis=axis, keepdims=True))
    for initial in (0.0, -0.0, 3, 3.5, True):
        same(np.sum(a[:0], 0, initial=initial), np.sum(x[:0], 0, initial=initial))
    for other in (a, a.astype("f4"), a.astype("i8")):
        same(np.sum(other, 0), np.sum(x.astype(other.dtype), 0))
    for key in (np.s_[1:], np.s_[1:, None], np.s_[1:,], np.s_[1], np.s_[1, ...], np.s_[:1], np.s_[None, 1:]):
        same(a[key], x[key])


def test_differences_of_a_higher_order_than_there_are_cells():
    grid, (x, _) = sg.init_grid((1, 1)), globals_of()
    a = sharded(x, "rows", grid)
    for axis, n in ((0, 2), (1, 5), (1, 6)):
        same(np.diff(a, n, axis), np.diff(x, n, axis))
    same(np.diff(a, 2**62), np.diff(x, 6))


def test_an_array_that_occurs_twice_is_told_from_two_arrays():
    grid, (x, y) = sg.init_grid((1, 1)), globals_of()
    a, b = sharded(x, "rows", grid), sharded(y, "rows", grid)
    same(np.where(a, a, 1.0), np.where(x, x, 1.0))
    same(np.where(a, b, 1.0), np.where(x, y, 1.0))
    square, other = a[:5], b[:5]
    same(square @ square, x[:5] @ x[:5])
    same(square @ other, x[:5] @ y[:5])
    same(square @ square, x[:5] @ x[:5])


def test_a_second_call_finds_the_course_of_the_first():
    grid, (x, _) = sg.init_grid((1, 1)), globals_of()
    a = sharded(x, "blocks", grid)

    def calls(a):
        np.sum(a, axis=0), a[1:, ::2], np.where(a, a, 1.0), a @ a.T, np.clip(a, 0, x[0]), a.mean()

    calls(a)
    known = dict(grid.functions)
    calls(a + 1)
    assert known and grid.functions == known
    np.sum(a, axis=1)
    assert len(grid.functions) == len(known) + 1


def test_a_method_called_again_takes_the_short_way(monkeypatch):
    grid = sg.init_grid((1,))
    a = sg.from_global(np.arange(12.0).reshape(4, 3), sg.Sharding(grid, [[0]]), grid)
    methods = ("sum", "max", "min", "any", "all")
    found = [getattr(a, name)() for name in methods]
    monkeypatch.delattr("spmd_grid.compute.protocol.ComputingArray.__array_function__")  # the long way
    assert [getattr(a, name)() for name in methods] == found
    assert found[:2] == [66.0, 11.0]


@pytest.mark.parametrize("dtype", ["f8", "c16", "i2", "?"])
def test_large_transposes(spmd, dtype):
    """Blocks of which a compiled copy makes the transpose, and smaller ones."""
    whole = np.random.default_rng(3).integers(0, 99, (70, 41, 65)).astype(dtype)

    def body():
        grid = sg.init_grid((-1,))
        for axes in ([[0]], [[], [0]]):
            a = sg.from_global(whole, sg.Sharding(grid, axes), grid)
            for order in permutations(range(3)):
                assert np.array_equal(np.transpose(a, order).to_global(), whole.transpose(order)), order
            assert np.array_equal(a[::2].T.to_global(), whole[::2].T)

    spmd(3, body)
