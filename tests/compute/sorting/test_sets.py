"""Unique cells, sets, and cells that are found: numpy's values, in blocks where they are found."""

import numpy as np
import pytest
from support.compute.layouts import LINES, gathered, line, lines_for, same

import spmd_grid as sg

RANDOM = np.random.default_rng(6)
SMALL = RANDOM.integers(-3, 4, 23)
CELLS = {
    "few values": SMALL,
    "distinct": RANDOM.permutation(23) * 1.5,
    "all equal": np.ones(23, dtype="u1"),
    "NaN": np.where(SMALL > 0, np.nan, SMALL),
    "complex NaN": np.where(SMALL > 1, complex(np.nan, 1), SMALL * 1j),
    "bool": SMALL > 1,
    "none": np.zeros(0, dtype="i4"),
}


@pytest.mark.parametrize("cells", CELLS)
def test_unique(spmd, cells):
    x = CELLS[cells]

    def body():
        grid = sg.init_grid((2, 3))
        for layout in lines_for(cells, CELLS):
            a = line(x, layout, grid)
            same(np.unique(a), np.unique(x))
            for found, want in zip(np.unique(a, True, True, True), np.unique(x, True, True, True), strict=True):
                same(found, want)
            same(np.unique(a, return_counts=True)[1], np.unique(x, return_counts=True)[1])
            same(np.unique(a, equal_nan=False), np.unique(x, equal_nan=False))

    spmd(6, body)


def test_unique_of_more_dimensions_and_by_name(spmd):
    x = SMALL[:20].reshape(5, 4)

    def body():
        grid = sg.init_grid((3,))
        a = sg.ShardedArray.from_global(x, sg.Sharding(grid, [[], [0]]), grid)
        for found, want in zip(np.unique(a, True, True, True), np.unique(x, True, True, True), strict=True):
            same(found, want)
        everything, want = np.unique_all(a), np.unique_all(x)
        same(everything.indices, want.indices)
        same(everything.inverse_indices, want.inverse_indices)
        same(np.unique_counts(a).counts, want.counts)
        same(np.unique_inverse(a).inverse_indices, want.inverse_indices)
        same(np.sort(np.unique_values(a)), want.values)

    spmd(3, body)


def test_unique_cells_stay_where_they_are_found():
    def body():
        grid = sg.init_grid((3,))
        a = sg.from_function(lambda i: i // 4, (9,), sg.Sharding(grid, [[0]]), grid)
        found = np.unique(a)
        return found.local.tolist(), found.sharding.sharded_dims_offsets

    assert sg.run_spmd(body, ranks=3) == [(cells, ((0, 1, 2, 3),)) for cells in ([0], [1], [2])]


SETS = {
    "isin": lambda a, b: np.isin(a, b),
    "not isin": lambda a, b: np.isin(a, b, invert=True),
    "union": np.union1d,
    "intersection": np.intersect1d,
    "difference": np.setdiff1d,
    "symmetric difference": np.setxor1d,
}


@pytest.mark.parametrize("function", SETS)
def test_sets(spmd, function):
    x, y = SMALL.astype("f8"), np.array([-1.0, 2.0, 9.0, np.nan, 2.0, 0.0])

    def body():
        grid = sg.init_grid((2, 3))
        for one, other in [("offsets", "swapped, halos"), ("replicated", "rows"), ("rows", "replicated")]:
            same(SETS[function](line(x, one, grid), line(y, other, grid)), SETS[function](x, y))

    spmd(6, body)


def test_isin_a_plain_list(spmd):
    def body():
        grid = sg.init_grid((2, 3))
        a = sg.ShardedArray.from_global(SMALL[:20].reshape(4, 5), sg.Sharding(grid, [[0], [1]]), grid)
        same(np.isin(a, [1, 3]), np.isin(SMALL[:20].reshape(4, 5), [1, 3]))
        same(np.isin(a, a[1]), np.isin(SMALL[:20].reshape(4, 5), SMALL[5:10]))

    spmd(6, body)


SHARDINGS = {
    "rows": ([[0, 1]], {}),
    "blocks, halos": ([[0], [1]], {"halo_sizes": [1, 0, 1, 1]}),
    "columns": ([[], [1, 0]], {}),
    "offsets": ([[1]], {"sharded_dims_offsets": [0, 0, 6, 7]}),
    "replicated": ([], {}),
    "partial": ([[1]], {"partial_axes": [0], "partial_kind": "max"}),
}


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_cells_that_are_found(spmd, sharding):
    axes, options = SHARDINGS[sharding]
    x = np.where(RANDOM.random((7, 4)) < 0.4, 0.0, 1.5)

    def body():
        grid = sg.init_grid((2, 3))
        a = sg.ShardedArray.from_global(x, sg.Sharding(grid, axes, **options), grid)
        for found, want in zip(np.nonzero(a), x.nonzero(), strict=True):
            same(found, want)
        for found, want in zip((a > 0).nonzero(), x.nonzero(), strict=True):
            same(found, want)
        same(np.argwhere(a), np.argwhere(x))
        same(np.flatnonzero(a), np.flatnonzero(x))
        same(np.extract(a > 1, a * 2), np.extract(x > 1, x * 2))
        same(np.argwhere(a > 9), np.argwhere(x > 9))
        if sharding == "rows":
            rows = np.nonzero(a)[0]
            inside = (gathered(rows) >= a.global_slices[0].start) & (gathered(rows) < a.global_slices[0].stop)
            assert rows.local.tolist() == gathered(rows)[inside].tolist()

    spmd(6, body)


def test_compress_by_masks(spmd):
    def body():
        grid = sg.init_grid((2, 3))
        for layout in LINES:
            a = line(SMALL, layout, grid)
            same(np.compress(a > 0, a), SMALL[SMALL > 0])
            same(np.compress(line(SMALL > 1, "offsets", grid), a), SMALL[SMALL > 1])

    spmd(6, body)
