"""Sorts of arrays that are cut along their one dimension: numpy's values, the array's layout, each cell moved once."""

import numpy as np
import pytest
from support.compute.layouts import gathered, line, lines_for, same
from support.compute.moving import bytes_sent

import spmd_grid as sg
from spmd_grid.compute.sorting.splitting import find_cuts

RANDOM = np.random.default_rng(5)
SMALL = RANDOM.integers(-3, 4, 23)
CELLS = {
    "distinct": RANDOM.permutation(23),
    "few values": SMALL,
    "all equal": np.zeros(23, dtype="f4"),
    "sorted": np.arange(23.0),
    "backwards": np.arange(23.0)[::-1],
    "infinities, NaN, two zeros": np.array([np.nan, 3.0, -np.inf, 0.0, -0.0, np.inf, np.nan, *RANDOM.normal(size=16)]),
    "NaN": np.where(SMALL > 1, np.nan, SMALL),
    "all NaN": np.full(23, np.nan, dtype="f2"),
    "bool": SMALL > 0,
    "bytes": SMALL.astype("i1"),
    "unsigned": SMALL.astype("u8"),
    "complex": np.where(
        SMALL == 1, complex(2, np.nan), np.where(SMALL == 2, complex(np.nan, 1), SMALL * 1j + SMALL[::-1])
    ),
    "complex, small": (SMALL + 1j * SMALL[::-1]).astype("c8"),
    "none": np.zeros(0),
    "one": np.array([7.5]),
}


@pytest.mark.parametrize("cells", CELLS)
def test_sort_and_argsort(spmd, cells):
    x = CELLS[cells]

    def body():
        grid = sg.init_grid((2, 3))
        for layout in lines_for(cells, CELLS):
            a = line(x, layout, grid)
            for kind in (None, "stable"):
                found = np.sort(a, kind=kind)
                same(found, np.sort(x, kind=kind))
                assert found.sharding == sg.Sharding(
                    grid,
                    a.sharding.split_axes,
                    blocks=a.sharding.blocks,
                    sharded_dims_offsets=a.sharding.sharded_dims_offsets,
                )
            same(np.argsort(a, stable=True), np.argsort(x, kind="stable"))
            same(a, x)  # which is left as it was

    spmd(6, body)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (3, 1)])
def test_on_three_processes(spmd, shape):
    def body():
        grid = sg.init_grid(shape)
        for x in CELLS.values():
            a = sg.ShardedArray.from_global(x, sg.Sharding(grid, [list(range(len(shape)))]), grid)
            same(np.sort(a), np.sort(x))
            same(np.argsort(a), np.argsort(x, kind="stable"))

    spmd(3, body)


def test_sorts_of_other_arrays(spmd):
    x = RANDOM.permutation(35).reshape(7, 5)

    def body():
        grid = sg.init_grid((2, 3))
        a = sg.ShardedArray.from_global(x, sg.Sharding(grid, [[1], [0]], halo_sizes=[1, 1, 0, 1]), grid)
        same(np.sort(a, axis=None), np.sort(x, axis=None))
        same(np.argsort(a, axis=None), np.argsort(x, axis=None))
        same(np.sort(a, axis=0), np.sort(x, axis=0))
        same(a[2].argsort(), x[2].argsort())
        same(np.partition(a[:, 1], 3), np.sort(x[:, 1]))
        same(np.take(x.ravel(), gathered(np.argpartition(a, 9, axis=None))), np.sort(x, axis=None))
        row = a[:, 2]
        row.sort()
        same(row, np.sort(x[:, 2]))

    spmd(6, body)


@pytest.mark.parametrize("cells", ["distinct", "few values", "NaN", "complex, small", "one", "bool"])
def test_places_in_the_order(spmd, cells):
    x = CELLS[cells]

    def body():
        grid = sg.init_grid((2, 3))
        for layout in lines_for(cells, CELLS):
            a = line(x, layout, grid)
            same(np.median(a), np.median(x))
            if x.dtype.kind in "if":
                same(np.quantile(a, [0, 0.1, 0.5, 0.77, 1]), np.quantile(x, [0, 0.1, 0.5, 0.77, 1]))
                same(np.percentile(a, 30, keepdims=True), np.percentile(x, 30, keepdims=True))
                same(np.quantile(a, 0.4, method="lower"), np.quantile(x, 0.4, method="lower"))

    spmd(6, body)


def test_quantiles_along_a_dimension(spmd):
    x = RANDOM.normal(size=(7, 5))

    def body():
        grid = sg.init_grid((2, 3))
        a = sg.ShardedArray.from_global(x, sg.Sharding(grid, [[0], [1]]), grid)
        same(np.median(a), np.median(x))
        same(np.median(a, axis=1), np.median(x, axis=1))
        same(np.quantile(a, [0.2, 0.9], axis=0), np.quantile(x, [0.2, 0.9], axis=0))
        same(
            np.percentile(a, 40, axis=1, keepdims=True, method="hazen"),
            np.percentile(x, 40, axis=1, keepdims=True, method="hazen"),
        )
        same(np.quantile(a, 0.3, axis=None, keepdims=True), np.quantile(x, 0.3, keepdims=True))

    spmd(6, body)


def test_each_cell_moves_at_most_once():
    """Cells that are in place stay; to reverse 4 blocks of 25,000, all but none move."""
    n = 100_000

    def body(make):
        grid = sg.init_grid((4,))
        a = sg.from_function(make, (n,), sg.Sharding(grid, [[0]]), grid)
        np.sort(a)
        return bytes_sent(np.sort, a)

    rounds = 3 * 4 * 8 * 3 * (64 + 8) * 6  # at most 6, of samples and counts of 3 cuts
    for sent in sg.run_spmd(body, lambda i: 1.0 * i, ranks=4):
        assert sent <= rounds
    for sent in sg.run_spmd(body, lambda i: -1.0 * i, ranks=4):
        assert 25_000 * 8 <= sent <= 25_000 * 8 + rounds
    for sent in sg.run_spmd(body, lambda i: (i * 7919.0) % n, ranks=4):
        assert 25_000 * 8 * 0.7 < sent < 25_000 * 8 * 0.8 + rounds


def test_no_process_holds_more_than_its_blocks():
    """All cells of one process are the largest: the blocks are those of the layout all the same."""

    def body():
        grid = sg.init_grid((4,))
        a = sg.from_function(lambda i: np.where(i < 25, 1e9, i % 3), (100,), sg.Sharding(grid, [[0]]), grid)
        return np.sort(a).local.shape[0]

    assert sg.run_spmd(body, ranks=4) == [25] * 4


@pytest.mark.parametrize("seed", range(20))
def test_cuts_are_exact(seed):
    """Cuts of random runs with many equal cells, all ranks, against a stable sort of (cell, run) pairs."""
    random = np.random.default_rng(seed)
    runs = [np.sort(random.integers(0, 6, random.integers(0, 9))) for _ in range(4)]
    owners = np.concatenate([np.full(len(run), i) for i, run in enumerate(runs)])
    order = owners[np.argsort(np.concatenate(runs), kind="stable")]
    ranks = list(range(len(order) + 1))
    want = [[int((order[:rank] == i).sum()) for i in range(4)] for rank in ranks]

    def body():
        grid = sg.init_grid((4,))

        def swap(row):
            return sg.all_gather(row[None], grid, [0], 0)

        return find_cuts(runs[grid.rank], grid.rank, [len(run) for run in runs], ranks, swap).tolist()

    assert sg.run_spmd(body, ranks=4) == [want] * 4
