"""Pairs of shardings on small grids, which tests of planning and of running sweep over."""

import random
from itertools import product

from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.geometry.messages import Redistribution
from support.reshard.reshard_oracle import all_split_axes

GRIDS = [(2,), (3,), (2, 3), (2, 2, 2), (2, 3, 2)]
# By tensor rank: extents that all grids divide, and extents that none divides; some blocks of these are empty.
SHAPES = {1: [(12,), (7,)], 2: [(12, 12), (5, 7)], 3: [(12, 12, 12), (5, 3, 7)]}
MOST_PAIRS = 10_000
SOME_GRIDS = [*GRIDS, (3, 1, 2), (4, 2), (6,), (4, 3), (1,)]


def pairs_of(grid_shape, ndim, part):
    """All ordered pairs of shardings, or a random 10,000 where there are more; ``part`` of them, evenly spread."""
    choices = all_split_axes(len(grid_shape), ndim)
    pairs = [(shape, pair) for shape in SHAPES[ndim] for pair in product(choices, repeat=2)]
    rng = random.Random(11)
    rng.shuffle(pairs)
    return pairs[: max(min(len(pairs), 20), int(part * min(len(pairs), 2 * MOST_PAIRS)))]


def moved_between(grid, source, target, shape, **options) -> Redistribution:
    return Redistribution(Layout(Sharding(grid, source), shape), Layout(Sharding(grid, target), shape), **options)


def some_shape(rng, ndim=None):
    return tuple(rng.choice([0, 1, 2, 3, 5, 7, 12, 13]) for _ in range(rng.randrange(4) if ndim is None else ndim))


def how_many(request, n):
    return 10 * n if request.config.getoption("full") else n
