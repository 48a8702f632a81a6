"""Histograms, counts and searches: numpy's values, in arrays that every process has whole."""

import numpy as np
import pytest
from support.compute.layouts import line, lines_for, same

import spmd_grid as sg

RANDOM = np.random.default_rng(8)
FLOATS = np.round(RANDOM.normal(size=40), 1)
NUMBERS = RANDOM.integers(0, 9, 40)
WEIGHTS = RANDOM.random(40)

FUNCTIONS = {
    "histogram": lambda x, n, w: np.histogram(x),
    "histogram, bins and range": lambda x, n, w: np.histogram(x, 7, (-1, 0.5)),
    "histogram, edges": lambda x, n, w: np.histogram(x, [-2, -1, -0.5, 1]),
    "histogram, density": lambda x, n, w: np.histogram(x, 4, density=True),
    "histogram, weights": lambda x, n, w: np.histogram(x, [-2, 0, 0.5, 3], weights=w),
    "histogram, weights, density": lambda x, n, w: np.histogram(x, 6, density=True, weights=w),
    "histogram of ints": lambda x, n, w: np.histogram(n, 5),
    "histogram of bools": lambda x, n, w: np.histogram((n > 3).astype("u1"), 2),
    "edges": lambda x, n, w: (np.histogram_bin_edges(x, 3), np.histogram_bin_edges(n)),
    "bincount": lambda x, n, w: (np.bincount(n), np.bincount(n, minlength=12), np.bincount(n, w)),
    "digitize": lambda x, n, w: (np.digitize(x, [-1, 0, 2.0]), np.digitize(x, [2, 0, -1.0], right=True)),
    "searchsorted": lambda x, n, w: (np.searchsorted([-1, 0, 0.3], x), np.searchsorted(np.arange(5), n, "right")),
    "searchsorted in cells": lambda x, n, w: (
        np.searchsorted(np.sort(x), [-0.3, 0.0, 9]),
        np.searchsorted(np.sort(n), 4, "right"),
    ),
    "interp": lambda x, n, w: (np.interp(x, [-1, 0, 2], [5.0, 1, 3]), np.interp(x, [0, 1], [1, 4], left=9, period=3)),
    "edges of another": lambda x, n, w: (
        np.digitize(x, np.histogram(x, 4)[1]),
        np.histogram(x, np.histogram(w, 3)[1])[0],
    ),
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_counts(spmd, function):
    def body():
        grid = sg.init_grid((2, 3))
        for layout in lines_for(function, FUNCTIONS):
            arrays = line(FLOATS, layout, grid), line(NUMBERS, layout, grid), line(WEIGHTS, "rows", grid)
            results = FUNCTIONS[function](*arrays), FUNCTIONS[function](FLOATS, NUMBERS, WEIGHTS)
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
