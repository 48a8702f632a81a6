"""Layouts of arrays with one dimension, and comparisons with numpy's arrays."""

import numpy as np

import spmd_grid as sg

# On a grid of 2 x 3: split axes, and options given the extent.
LINES = {
    "rows": ([[0, 1]], lambda n: {}),
    "swapped, halos": ([[1, 0]], lambda n: {"halo_sizes": [1, 2]}),
    "one axis, balanced": ([[1]], lambda n: {"blocks": "balanced"}),
    "offsets": ([[0, 1]], lambda n: {"sharded_dims_offsets": [0, 0, n // 4, n // 4, n // 2, n, n]}),
    "replicated": ([], lambda n: {}),
    "partial": ([[0]], lambda n: {"partial_axes": [1], "partial_kind": "max"}),
}


def lines_for(case, cases):
    """Two of the layouts, others for the next case, so that all are used."""
    return list(LINES)[list(cases).index(case) % 3 :: 3]


def line(x, layout, grid):
    axes, options = LINES[layout]
    sharding = sg.Sharding(grid, axes, **options(len(x)))
    return sg.ShardedArray.from_global(x, sharding, grid)


def gathered(found):
    return found.to_global() if isinstance(found, sg.ShardedArray) else np.asarray(found)


def same(found, want):
    got, want = gathered(found), np.asarray(want)
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    assert got.shape == want.shape, (got.shape, want.shape)
    if want.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, rtol=1e-12 if want.dtype.itemsize >= 8 else 1e-5, atol=1e-12)
    else:
        np.testing.assert_array_equal(got, want)


def growing(grid, shape):
    """Shardings of matrices on a line: blocks that grow along rows or columns, the first ones empty; one with halos."""
    shardings = []
    for dim, options in ((0, {}), (0, {"halo_sizes": [1, 2]}), (1, {})):
        starts = [shape[dim] * k * k // grid.size**2 for k in range(grid.size + 1)]
        shardings.append(sg.Sharding(grid, [*[[]] * dim, [0]], sharded_dims_offsets=[starts], **options))
    return shardings
