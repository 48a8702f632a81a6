"""Histograms, counts and searches: numpy's values, in arrays that every process has whole."""

import numpy as np
import pytest
from support.compute.functions import COUNTS
from support.compute.layouts import line, lines_for, same

import spmd_grid as sg

RANDOM = np.random.default_rng(8)
FLOATS = np.round(RANDOM.normal(size=40), 1)
NUMBERS = RANDOM.integers(0, 9, 40)
WEIGHTS = RANDOM.random(40)


@pytest.mark.parametrize("function", COUNTS)
def test_counts(spmd, function):
    def body():
        grid = sg.init_grid((2, 3))
        for layout in lines_for(function, COUNTS):
            arrays = line(FLOATS, layout, grid), line(NUMBERS, layout, grid), line(WEIGHTS, "rows", grid)
            results = COUNTS[function](*arrays), COUNTS[function](FLOATS, NUMBERS, WEIGHTS)
            for found, want in zip(*results, strict=True):
                same(found, want)

    spmd(6, body)


def test_counts_of_more_dimensions(spmd):
    x = FLOATS.reshape(5, 8)

    def body():
        grid = sg.init_grid((2, 3))
        a = sg.ShardedArray.from_global(x, sg.Sharding(grid, [[1], [0]], halo_sizes=[1, 1, 1, 1]), grid)
        same(np.histogram(a, 4)[0], np.histogram(x, 4)[0])
        same(np.histogram(a, 4, weights=x)[0], np.histogram(x, 4, weights=x)[0])
        same(np.digitize(a, [0.0]), np.digitize(x, [0.0]))
        counts, edges = np.histogram(a[:0], 4)
        same(counts, np.zeros(4, int))
        assert counts.sharding == edges.sharding == sg.Sharding(grid, [])
        same(np.bincount(a[0].astype(int)[:0]), np.bincount(np.zeros(0, int)))

    spmd(6, body)
