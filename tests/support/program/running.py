"""Programs partitioned from some sharding of their arguments, run, and compared with numpy."""

import numpy as np

import spmd_grid as sg

SHARDINGS = {
    "blocks": ([[0], [1]], {}),
    "rows": ([[0, 1]], {}),
    "swapped, halos": ([[1], [0]], {"halo_sizes": [1, 2, 0, 1]}),
    "columns, balanced": ([[], [1]], {"blocks": "balanced"}),
    "offsets": ([[0]], {"sharded_dims_offsets": [[0, 5]]}),
    "replicated": ([], {}),
}


def sharding_of(grid, number, shape):
    """The sharding of a number, of an array of any shape on any grid."""
    axes, options = SHARDINGS[list(SHARDINGS)[number % len(SHARDINGS)]]
    cut = [[axis for axis in each if axis < grid.ndim] for each in axes[: len(shape)]]
    options = dict(options)
    if "halo_sizes" in options:
        options["halo_sizes"] = [n for each, pair in zip(cut, ((1, 2), (0, 1))) if each for n in pair]
    if "sharded_dims_offsets" in options:
        devices = grid.shape[0]
        options["sharded_dims_offsets"] = [[0, *[min(shape[0], 5)] * (devices - 1), shape[0]]]
    return sg.Sharding(grid, cut, **options)


def gathered(found):
    return found.to_global() if isinstance(found, sg.ShardedArray) else found


def check(grid, function, arrays, number=0, name=""):
    """Trace ``function``, partition it with shardings of all arguments but the last of several, run it, compare."""
    specs = [sg.ArraySpec(x.shape, x.dtype, letter) for x, letter in zip(arrays, "abcdefgh")]
    with np.errstate(all="ignore"):
        wanted = function(*[x.copy() for x in arrays])
        program = sg.trace(function, *specs)
    given = [sharding_of(grid.grid, number + i, x.shape) for i, x in enumerate(arrays)]
    if len(given) > 1 and number % 2:
        given[-1] = None
    part = sg.partition(program, grid, given)
    shards = [sg.from_global(x, sharding, grid) for x, sharding in zip(arrays, part.in_shardings)]
    found = part.run(grid, *shards)
    several = isinstance(wanted, tuple | list)
    for one, other in zip(found if several else [found], wanted if several else [wanted], strict=True):
        got, want = np.asarray(gathered(one)), np.asarray(other)
        assert (got.dtype, got.shape) == (want.dtype, want.shape), (name, got.dtype, got.shape, want.dtype, want.shape)
        np.testing.assert_allclose(
            got, want, rtol=1e-5 if want.dtype.itemsize < 8 else 1e-11, atol=1e-11, err_msg=name, equal_nan=True
        )
    for x, shard in zip(arrays, shards):
        np.testing.assert_array_equal(shard.to_global(), x, err_msg=f"{name} has changed its arguments")
    return part
