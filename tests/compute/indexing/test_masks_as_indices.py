"""Masks as indices equal numpy's: cells in row-major order, on blocks that are in that order and on others."""

import numpy as np
import pytest

import spmd_grid as sg

LAYOUTS = {
    "rows": ([[0, 1]], {}),
    "rows of a part": ([[1]], {"halo_sizes": [1, 1]}),
    "blocks": ([[0], [1]], {}),
    "swapped": ([[1], [0]], {"halo_sizes": [1, 2, 0, 1]}),
    "columns": ([[], [1]], {"blocks": "balanced"}),
    "offsets": ([[1]], {"sharded_dims_offsets": [[0, 5, 5, 13]]}),
    "replicated": ([], {}),
}


def arrays_of(grid, axes, options, shape=(13, 5)):
    sharding = sg.Sharding(grid, axes, **options)
    x = np.random.default_rng(1).integers(-9, 9, shape) * 1.0
    return x, sg.from_global(x, sharding, grid)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values(spmd, layout):
    def body():
        grid = sg.init_grid((2, 3))
        x, a = arrays_of(grid, *LAYOUTS[layout])
        for choose in (lambda x: x > 2, lambda x: x > 99):
            want = x[choose(x)]
            found = a[choose(a)]
            assert found.shape == want.shape and np.array_equal(found.to_global(), want)
            assert np.array_equal(a[choose(x)].to_global(), want)
            if not len(want):
                continue
            assert np.sum(found * 2 + found) == want.sum() * 3
            b, y = a.copy(), x.copy()
            b[choose(b)] *= 3
            y[choose(y)] *= 3
            assert np.array_equal(b.to_global(), y)
            b[choose(a)] = np.arange(float(len(want)))
            y[choose(x)] = np.arange(float(len(want)))
            assert np.array_equal(b.to_global(), y)
            b[choose(a)] = found[::-1]
            y[choose(x)] = want[::-1]
            assert np.array_equal(b.to_global(), y)
            b[choose(x)] = [7]
            y[choose(x)] = [7]
            assert np.array_equal(b.to_global(), y)

    spmd(6, body)


def test_rows_behind_dimensions_of_extent_1_and_partial_values(spmd):
    def body():
        grid = sg.init_grid((3,))
        x, a = arrays_of(grid, [[], [0]], {}, (1, 8))
        assert np.array_equal(a[a > 0].to_global(), x[x > 0])
        x, a = arrays_of(grid, [[0]], {}, (8,))
        mask = a > 0
        assert np.array_equal(a[mask,].to_global(), x[x > 0])
        partial = a.reshard(sg.Sharding(grid, [[]], partial_axes=[0]))
        whole = sg.from_global(x > 0, sg.Sharding(grid, [[]]), grid)
        assert np.array_equal(partial[whole].to_global(), x[x > 0])
        empty = sg.zeros((0, 4), sg.Sharding(grid, [[0]]), grid)
        assert empty[empty > 0].shape == (0,)

    spmd(3, body)


def test_where_blocks_are_in_order_only_counts_move():
    def body():
        grid, sent = sg.init_grid((4,)), []
        _, a = arrays_of(grid, [[0]], {})
        mask = a > 0

        def note(record, moved):
            sent.extend(n for movement in moved for n in movement.traffic().sent.values())

        recorder = grid.process.recorder
        recorder.on_end = note
        a[mask]
        recorder.on_end = None
        return sent

    assert all(set(sent) == {8} for sent in sg.run_spmd(body, ranks=4))  # one count to each other device


REFUSED = {
    "shape": (lambda a, g: a[a[1:] > 0], sg.ShapeError, "getitem: the mask has shape"),
    "dtype": (lambda a, g: a[a], sg.ShapeError, "dtype float64"),
    "layout": (
        lambda a, g: a[(a > 0).reshard(sg.Sharding(g, [[], [0]]))],
        sg.ShardingError,
        "getitem: the mask has sharding",
    ),
    "short rows": (
        lambda a, g: sg.zeros((2, 40), sg.Sharding(g, [[], [0]]), g)[np.ones((2, 40), bool)],
        sg.ImplicitGatherError,
        "row-major order",
    ),
    "length": (lambda a, g: a.__setitem__(a > 0, np.zeros(3)), sg.ShapeError, r"value has shape \(3,\); the mask"),
    "dimensions": (lambda a, g: a.__setitem__(a > 0, np.zeros((3, 1))), sg.ShapeError, "a number or a row"),
    "kind": (lambda a, g: a.__setitem__(a > 0, "x"), sg.DTypeError, "cannot be cast"),
    "mask of rows": (lambda a, g: a[a[:, :1] > 0], sg.ShapeError, "the mask has shape"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(spmd, case):
    function, kind, words = REFUSED[case]

    def body():
        grid = sg.init_grid((6,))
        x, a = arrays_of(grid, [[0]], {})
        with pytest.raises(kind, match=words) as caught:
            function(a, grid)
        assert np.array_equal(a.to_global(), x)
        return str(caught.value)

    assert len(set(spmd(6, body))) == 1


@pytest.mark.parametrize("key", [True, False, np.True_, np.False_, (True,)], ids=repr)
def test_a_bool_as_the_mask_of_an_array_without_dimensions(spmd, key):
    def body():
        grid = sg.init_grid((3,))
        whole = np.array(5.0)
        a = sg.from_global(whole.copy(), sg.Sharding(grid, []), grid)
        assert np.array_equal(a[key].to_global(), whole[key])
        a[key] = 7
        whole[key] = 7
        assert a.to_global() == whole
        matrix = sg.from_function(lambda i, j: i + j, (4, 3), sg.Sharding(grid, [[0]]), grid)
        with pytest.raises(sg.ImplicitGatherError, match="an index has bool.* for dimension 0; sharded arrays take"):
            matrix[key]

    spmd(3, body)
