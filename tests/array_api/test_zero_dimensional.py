"""Arrays without dimensions: held by every process, kept by the namespace, and Python's numbers when asked."""

import numpy as np

import spmd_grid as sg

xp = sg.array_api


def test_numpy_gives_numbers_and_the_namespace_arrays(spmd):
    def body():
        grid = sg.init_grid((3,))
        a = sg.from_function(lambda i: 1.0 * i, (7,), sg.Sharding(grid, [[0]]), grid)
        assert type(np.sum(a)) is type(a[3]) is type(a @ a) is np.float64
        total = xp.sum(a)
        assert isinstance(total, sg.ShardedArray) and total.shape == () and total.local.tolist() == 21.0
        assert total.sharding == sg.Sharding(grid, [])
        # What is computed from arrays without dimensions has none, and stays an array.
        for x in (total + 1, -total, total[()], total[...], np.sqrt(total), total * total, xp.sum(total), total > 3):
            assert isinstance(x, sg.ShardedArray) and x.shape == ()
        assert type(np.sum(total)) is np.float64
        assert (a / total).to_global().tolist() == (np.arange(7.0) / 21.0).tolist()
        assert np.where(a > total / 7, a, total).to_global().tolist() == [21.0] * 4 + [4.0, 5.0, 6.0]

    spmd(3, body)


def test_numbers(spmd):
    def body():
        grid = sg.init_grid((3,))
        four = xp.asarray(4, grid=grid)
        assert (bool(four), int(four), float(four), complex(four), range(9)[four]) == (True, 4, 4.0, 4 + 0j, 4)
        assert not xp.asarray(False, grid=grid)
        partial = sg.ShardedArray.from_local(np.asarray(2.0), sg.Sharding(grid, [], partial_axes=[0]), grid, ())
        assert float(partial) == 6.0 and float(partial + 1) == 7.0

    spmd(3, body)


def test_cells_are_arguments(spmd):
    def body():
        grid = sg.init_grid((3,))
        with sg.use_sharding_defaults(grid):
            a = xp.arange(7)
            assert int(xp.add(a[2], a[3])) == 5 and int(xp.square(a[3])) == 9
            assert xp.add(a, a[2]).dtype == xp.int64
            b = xp.zeros(7)
            b[1:3] = xp.sum(a)
            b[()] += xp.asarray(1.0)
            assert b.to_global().tolist() == [1.0, 22.0, 22.0, 1.0, 1.0, 1.0, 1.0]
            number = xp.asarray(1.5)
            number[...] = 2.5
            number[()] += 1
            assert float(number) == 3.5

    spmd(3, body)
