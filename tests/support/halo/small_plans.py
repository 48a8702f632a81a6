"""Small plans of a HaloExchange that tests share, and updates whose results are known without an oracle."""

import numpy as np

import spmd_grid as sg

SHAPE = (8, 3)
N = 4


def plane(halo_sizes=(1, 2, 2, 1)):
    """A small case with neighbours on all sides, uneven blocks and corners: the grid, a sharding, the shape."""
    grid = sg.init_grid((2, 2))
    return grid, sg.Sharding(grid, [[0], [1]], halo_sizes=list(halo_sizes), blocks="balanced"), (5, 4)


def line(path=None, n=3, width=1, dtype="i8", **options):
    """A plan on a line of n ranks with two cells each."""
    grid = sg.init_grid((n,))
    sharding = sg.Sharding(grid, [[0]], halo_sizes=[width, width])
    return grid, sg.HaloExchange(grid, sharding, (2 * n,), dtype, path=path, **options)


def check_line(grid, halo, u, step, update=None):
    """Updates ``u``, an array or sharded array of `line`, with the values of a step; the halos must be right."""
    local = getattr(u, "local", u)
    local[1:-1] = 100 * grid.rank + step
    local[0] = local[-1] = -1
    (update or halo.update)(u)
    low = 100 * (grid.rank - 1) + step if grid.rank else -1
    high = 100 * (grid.rank + 1) + step if grid.rank < grid.size - 1 else -1
    assert local.tolist() == [low, *[100 * grid.rank + step] * 2, high], (grid.rank, step, local)


def make(grid, split_axes=([0],), halo_sizes=(1, 1), shape=SHAPE, dtype="f8", *args, blocks="ceil", **options):
    sharding = sg.Sharding(grid, list(split_axes), halo_sizes=list(halo_sizes), blocks=blocks)
    return sg.HaloExchange(grid, sharding, shape, dtype, *args, **options)


def check_it_works(grid, halo, n_fields=1, again=1):
    """The next updates are right; for the plan of `make`."""
    for step in range(again):
        fields = []
        for f in range(n_fields):
            local = np.full((4, 3), 10.0 * step + grid.rank + f).astype(halo.dtypes[f])
            local[0] = local[-1] = -1
            fields.append(local)
        halo.update(*fields)
        for f, local in enumerate(fields):
            low = 10 * step + grid.rank - 1 + f if grid.rank else -1
            high = 10 * step + grid.rank + 1 + f if grid.rank < grid.size - 1 else -1
            mine = 10 * step + grid.rank + f
            assert local[:, 1].tolist() == [low, mine, mine, high]
