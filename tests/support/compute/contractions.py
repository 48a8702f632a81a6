"""Operands of contractions on many layouts, and comparisons with numpy."""

import numpy as np

import spmd_grid as sg

LAYOUTS = {
    "rows": ([[0, 1]], {}),
    "columns": ([[], [1]], {}),
    "blocks": ([[0], [1]], {}),
    "swapped, halos": ([[1], [0]], {"halo_sizes": [1, 2, 0, 1]}),
    "balanced": ([[1], [0]], {"blocks": "balanced"}),
    "partial": ([[1]], {"partial_axes": [0]}),
    "replicated": ([], {}),
}
# Every first layout meets every second one in the course of a few cases.
PAIRS = [(one, other) for one in LAYOUTS for other in LAYOUTS]


def layouts_of(number):
    return [PAIRS[(3 * number + 10 * i) % len(PAIRS)] for i in range(2)]


def offsets(grid, n, parts, axes):
    """A sharding of the first dimension into blocks of which one is empty."""
    return sg.Sharding(grid, axes, sharded_dims_offsets=[[0] + [min(3, n)] * 2 + [n] * (parts - 2)])


def values(*shape, dtype="f8", seed=0):
    x = (np.arange(np.prod(shape)).reshape(shape) * 7 + seed) % 11 - 4
    if np.dtype(dtype).kind == "c":
        return (x + 0.5j * (x % 3)).astype(dtype)
    return (x / 4 if np.dtype(dtype).kind == "f" else x).astype(dtype)


def sharded(x, name, grid):
    axes, options = LAYOUTS[name]
    if x.ndim < len(axes):
        axes, options = axes[: x.ndim], {key: each for key, each in options.items() if key in ("blocks",)}
    return sg.from_global(x, sg.Sharding(grid, axes, **options), grid)


def same(found, want):
    got = found.to_global() if isinstance(found, sg.ShardedArray) else found
    want = np.asarray(want)
    assert np.shape(got) == want.shape and np.asarray(got).dtype == want.dtype
    single = want.dtype in (np.float32, np.complex64)
    np.testing.assert_allclose(got, want, rtol=1e-5 if single else 1e-12, atol=1e-5 if single else 1e-11)


def check(function, arrays, grid, pairs):
    want = function(*arrays)
    for one, other in pairs:
        names = [one, other, "blocks", "rows"]
        same(function(*[sharded(x, name, grid) for x, name in zip(arrays, names)]), want)
