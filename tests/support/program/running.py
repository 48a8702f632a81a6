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


class Case:
    """A function traced and partitioned once, from shardings that depend on ``number``, and what numpy gives."""

    def __init__(self, grid, function, arrays, number=0, name=""):
        specs = [sg.ArraySpec(x.shape, x.dtype, letter) for x, letter in zip(arrays, "abcdefgh")]
        with np.errstate(all="ignore"):
            self.wanted = function(*[x.copy() for x in arrays])
            program = sg.trace(function, *specs)
        given = [sharding_of(grid, number + i, x.shape) for i, x in enumerate(arrays)]
        if len(given) > 1 and number % 2:
            given[-1] = None
        self.part, self.arrays, self.name = sg.partition(program, grid, given), arrays, name

    def check(self, grid):
        """Run the program and compare.  Collective over the grid."""
        shards = [sg.from_global(x, sharding, grid) for x, sharding in zip(self.arrays, self.part.in_shardings)]
        found = self.part.run(grid, *shards)
        several = isinstance(self.wanted, tuple | list)
        pairs = zip(found, self.wanted, strict=True) if several else [(found, self.wanted)]
        for one, other in pairs:
            got, want = np.asarray(gathered(one)), np.asarray(other)
            assert (got.dtype, got.shape) == (want.dtype, want.shape), (self.name, got.dtype, got.shape, want)
            error = 1e-5 if want.dtype.itemsize < 8 else 1e-11
            np.testing.assert_allclose(got, want, error, 1e-11, err_msg=self.name, equal_nan=True)
        for x, shard in zip(self.arrays, shards):
            np.testing.assert_array_equal(shard.to_global(), x, err_msg=f"{self.name} has changed its arguments")


def check(spmd, shape, function, arrays, number=0, name=""):
    """The partition of a function that gives what numpy gives on a grid of ``shape``."""
    case = Case(sg.Grid(shape), function, arrays, number, name)
    spmd(case.part.grid.size, lambda: case.check(sg.init_grid(shape)))
    return case.part
