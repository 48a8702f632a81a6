"""Plans with any grid, sharding, block rule, halo and rule for cells outside the domain, checked against an oracle."""

import random

import numpy as np

import spmd_grid as sg
from support.halo.exchange_oracle import check_updates, own_random

BLOCKS = ["ceil", "balanced", "offsets"]
RULES = ["leave", "edge", "reflect", "symmetric", -5, 7.0]
GRIDS = [
    # grid shape, split_axes
    ((4,), [[0]]),
    ((3,), [[], [0], []]),
    ((2, 3), [[0], [1]]),
    ((2, 3), [[1], [], [0]]),
    ((2, 3), [[0, 1]]),
    ((2, 3), [[1, 0], []]),
    ((2, 2), [[1]]),  # axis 0 replicates
    ((3, 2), [[], [0]]),  # axis 1 replicates
    ((2, 2), [[]]),  # both do
    ((1, 2, 3), [[0], [1], [2]]),
    ((2, 1, 2), [[2], [0], [1]]),
    ((2, 1, 3), [[2, 1], [], [0]]),
    ((2, 1, 3), [[2], [1, 0]]),
]


def any_sharding(rng, grid, split_axes):
    """Arguments of a plan, drawn alike on all ranks: a sharding, a shape, and the rest by name."""
    sharded = [dim for dim, axes in enumerate(split_axes) if axes]
    shape = [rng.randrange(8) if rng.random() < 0.8 else rng.randrange(8, 14) for _ in split_axes]
    free = [axis for axis in range(grid.grid.ndim) if not any(axis in axes for axes in split_axes)]
    options = {
        "halo_sizes": [(rng.randrange(4), rng.randrange(4)) for _ in sharded],
        "partial_axes": [axis for axis in free if rng.random() < 0.3],
    }
    blocks = rng.choice(BLOCKS)
    if blocks == "offsets":
        counts = [int(np.prod([grid.grid.shape[axis] for axis in split_axes[dim]])) for dim in sharded]
        cuts = [
            sorted(rng.randrange(shape[dim] + 1) for _ in range(n - 1)) for dim, n in zip(sharded, counts, strict=True)
        ]
        options["sharded_dims_offsets"] = [[0, *cut, shape[dim]] for dim, cut in zip(sharded, cuts, strict=True)]
    else:
        options["blocks"] = blocks
    plan = {
        "periodic": [rng.random() < 0.4 for _ in split_axes],
        "corners": rng.random() < 0.6,
        "boundary": [(rng.choice(RULES), rng.choice(RULES)) for _ in split_axes],
    }
    return sg.Sharding(grid, split_axes, **options), tuple(shape), plan


def check_any(grid_shape, split_axes, count, seed, path, slow=False):
    """Runs on every rank: ``count`` plans with anything there is, on one grid."""
    grid, rng = sg.init_grid(grid_shape), random.Random(seed)
    mine = own_random(seed, grid)
    for _ in range(count):
        sharding, shape, plan = any_sharding(rng, grid, split_axes)
        check_updates(grid, sharding, shape, rng=mine if slow else None, path=path, **plan)
