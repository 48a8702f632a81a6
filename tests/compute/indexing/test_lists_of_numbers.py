"""Lists of numbers as an index along one dimension equal numpy's, and move the cells that are needed, each once."""

import numpy as np
import pytest

import spmd_grid as sg

LAYOUTS = {
    "rows": ([[0, 1]], {}),
    "blocks": ([[0], [1]], {}),
    "swapped": ([[1], [0]], {"halo_sizes": [1, 2, 0, 1]}),
    "columns": ([[], [1]], {"blocks": "balanced"}),
    "offsets": ([[0], [1]], {"sharded_dims_offsets": [[0, 5, 7], [0, 0, 2, 5]]}),
    "last": ([[], [], [1, 0]], {}),
    "replicated": ([], {}),
}
LISTS = [[0, -1, 3, 3], [], [6, 5, 4, 3, 2, 1, 0]]
KEYS = {
    "first": lambda n: n,
    "last": lambda n: np.s_[..., np.array(n, dtype="i2") % 4],
    "middle": lambda n: np.s_[:, np.array(n, dtype=int) % 5],
    "with slices": lambda n: np.s_[1:-1, [each % 5 for each in n], ::-2],
    "new dimensions": lambda n: np.s_[None, n, 1:, None],
    "integer beside it": lambda n: np.s_[n, 2],
    "integer apart from it": lambda n: np.s_[1, :, [each % 4 for each in n]],
    "bools": lambda n: np.s_[[i in n for i in range(7)], 1:],
}


def arrays_of(grid, layout):
    axes, options = LAYOUTS[layout]
    x = np.random.default_rng(1).integers(-99, 99, (7, 5, 4)) * 1.0
    return x, sg.from_global(x, sg.Sharding(grid, axes, **options), grid)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values(spmd, layout):
    def body():
        grid = sg.init_grid((2, 3))
        x, a = arrays_of(grid, layout)
        for numbers in LISTS:
            for name, key in KEYS.items():
                want = x[key(numbers)]
                found = a[key(numbers)]
                assert found.shape == want.shape and np.array_equal(found.to_global(), want), (name, numbers)

    spmd(6, body)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_assignments(spmd, layout):
    def body():
        grid = sg.init_grid((2, 3))
        x, a = arrays_of(grid, layout)
        for number, (name, key) in enumerate(KEYS.items()):
            index, y, b = key(LISTS[number % 3]), x.copy(), a.copy()
            shape = x[index].shape
            value = np.arange(float(np.prod(shape))).reshape(shape)
            for assigned in (sg.from_global(value, sg.Sharding(grid, [[1]]), grid), value * 2, 3, value[..., :1]):
                y[index] = assigned.to_global() if isinstance(assigned, sg.ShardedArray) else assigned
                b[index] = assigned
                assert np.array_equal(b.to_global(), y), name
            y[index] += 1
            b[index] += 1
            assert np.array_equal(b.to_global(), y), name

    spmd(6, body)


def test_take_and_compress(spmd):
    def body():
        grid = sg.init_grid((2, 3))
        x, a = arrays_of(grid, "blocks")
        row, r = a[:, 1, 1], x[:, 1, 1]
        assert np.array_equal(np.take(row, [5, -2, 5]).to_global(), np.take(r, [5, -2, 5]))
        assert np.array_equal(np.compress([True, False, True], row).to_global(), r[[0, 2]])
        assert np.array_equal(np.take(a, [50, 3]).to_global(), np.take(x, [50, 3]))
        out = sg.zeros((2, 5, 4), a.sharding, grid)
        assert np.take(a, [1, 0], axis=0, out=out) is out
        assert np.array_equal(out.to_global(), x[[1, 0]])
        chosen = [True, False, True]
        assert np.array_equal(np.compress(chosen, a, axis=1).to_global(), np.compress(chosen, x, axis=1))
        partial = row.reshard(sg.Sharding(grid, [[1]], partial_axes=[0]))
        assert np.array_equal(partial[[6, 0]].to_global(), r[[6, 0]])

    spmd(6, body)


def test_each_cell_moves_once_to_each_device_that_needs_it():
    """12 rows of 2 doubles on 4 ranks, 3 each; the 8 rows of the result stand on devices 0, 0, 1, 1, 2, 2, 3, 3."""

    def body():
        grid = sg.init_grid((4,))
        a = sg.from_function(lambda i, j: i + j * 1.0, (12, 2), sg.Sharding(grid, [[0]]), grid)
        received = []
        recorder = grid.process.recorder

        def note(record, moved):
            received.extend(n for movement in moved for n in movement.traffic().sent.values())

        recorder.on_end = note
        a[[0, 1, 0, 0, 4, 8, 11, 3]]
        recorder.on_end = None
        return sum(received)

    # 0 to device 1, once for two; 4 and 3 from device 1 to 2 and 3; 8 stays; 11 stays.
    assert sg.run_spmd(body, ranks=4) == [16, 32, 0, 0]


REFUSED = {
    "too large": (lambda a: a[[1, 7]], IndexError, "index 7 is out of bounds for dimension 0 with extent 7"),
    "too small": (lambda a: a[:, [-6]], IndexError, "index -6 is out of bounds for dimension 1 with extent 5"),
    "bools": (lambda a: a[:, [True, False]], IndexError, "2 bools for dimension 1 with extent 5"),
    "floats": (lambda a: a[[1.0]], sg.ImplicitGatherError, "dtype float64"),
    "two dimensions": (lambda a: a[[[1, 2]]], sg.ImplicitGatherError, r"shape \(1, 2\)"),
    "two lists": (lambda a: a[[1], [2]], sg.ImplicitGatherError, "2 lists"),
    "sharded": (lambda a: a[:, a[0].astype(int)], sg.ImplicitGatherError, "sharded array of shape .* for dimension 1"),
    "value": (lambda a: a.__setitem__([1, 2], np.zeros((3, 5, 4))), sg.ShapeError, "it must broadcast to"),
    "value, apart": (
        lambda a: a.__setitem__(np.s_[1, :, [1, 2]], np.zeros((5, 2))),
        sg.ShapeError,
        r"it must broadcast to \(2, 5\)",
    ),
    "take": (lambda a: np.take(a, [9], axis=0), IndexError, "index 9"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(spmd, case):
    function, kind, words = REFUSED[case]

    def body():
        x, a = arrays_of(sg.init_grid((2, 3)), "blocks")
        with pytest.raises(kind, match=words) as caught:
            function(a)
        assert np.array_equal(a.to_global(), x)
        return str(caught.value)

    assert len(set(spmd(6, body))) == 1


@pytest.mark.parametrize("n", [3, 40, 400], ids=["sparse", "between", "dense"])
def test_numbers_that_are_few_or_many_of_the_cells(spmd, n):
    numbers = np.random.default_rng(n).integers(-300, 300, n)
    numbers[: n // 3] = numbers[-1]

    def body():
        grid = sg.init_grid((3,))
        values = np.arange(600.0).reshape(300, 2)
        for blocks in ({}, {"sharded_dims_offsets": [[0, 7, 7, 300]]}):
            a = sg.from_global(values, sg.Sharding(grid, [[0]], **blocks), grid)
            assert np.array_equal(a[numbers].to_global(), values[numbers])

    spmd(3, body)
