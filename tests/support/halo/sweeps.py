"""Cases of halos that tests of update_halo, of plans and of compiled loops sweep over."""

import random
from itertools import product

from spmd_grid.grid.blocks import block_starts
from support.halo.halo_oracle import HaloCase

GRIDS_2D = [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1), (2, 3), (3, 2), (1, 6), (5, 1)]
UNEVEN = (0, 3, 3, 4)
SPLITS = [
    # grid, split_axes, starts per dimension, halos per dimension, periodic per dimension
    ((3,), [[0]], [UNEVEN, (0, 4), (0, 2)], [(2, 1), (0, 0), (0, 0)], [False, True, True]),
    ((3,), [[], [0]], [(0, 4), UNEVEN, (0, 2)], [(0, 0), (1, 4), (0, 0)], [False, True, False]),
    ((3,), [[], [], [0]], [(0, 2), (0, 3), UNEVEN], [(0, 0), (0, 0), (2, 2)], [True, True, False]),
    ((2, 3), [[0], [], [1]], [(0, 4, 5), (0, 3), UNEVEN], [(1, 2), (0, 0), (3, 1)], [True, False, False]),
    ((2, 3), [[1], [0]], [UNEVEN, (0, 0, 2)], [(1, 2), (3, 1)], [True, False]),
    ((2, 3), [[0, 1]], [(0, 2, 4, 4, 5, 6, 7), (0, 2)], [(3, 2), (0, 0)], [False, False]),
    ((2, 3), [[1, 0]], [(0, 2, 4, 4, 5, 6, 7), (0, 2)], [(2, 3), (0, 0)], [True, False]),
    ((2, 1, 3), [[2], [1, 0]], [UNEVEN, (0, 1, 3)], [(1, 1), (2, 1)], [True, True]),
    ((2, 2), [[1]], [(0, 3, 5), (0, 3)], [(1, 1), (0, 0)], [False, False]),  # axis 0 replicates
    ((1, 2), [[0], [1]], [(0, 4), (0, 2, 4)], [(5, 2), (1, 1)], [True, False]),  # wraps around itself, twice
    ((4,), [[0]], [(0, 1, 2, 3, 4)], [(3, 3)], [False]),  # several devices on
    ((2, 2, 1), [[0], [2], [1]], [(0, 2, 3), (0, 2), (0, 1, 3)], [(1, 1), (1, 1), (1, 1)], [True, False, True]),
]


def lines_of(n_blocks, extents):
    """Every way to cut an extent that the block rules know, and one of explicit offsets."""
    found = []
    for extent in extents:
        ways = [block_starts(extent, (n_blocks,), "ceil"), block_starts(extent, (n_blocks,), "balanced")]
        ways.append((0, *sorted((7 * i + 1) % (extent + 1) for i in range(n_blocks - 1)), extent))
        found += dict.fromkeys(ways)
    return found


def choices_1d(n):
    """The independent choices that make a case on a line of n devices."""
    return [(n,)], [[[0]]], lines_of(n, range(8)), list(product(range(4), repeat=2)), [False, True]


def case_1d(grid_shape, split_axes, starts, halo, periodic):
    return HaloCase(grid_shape, split_axes, [starts], [halo], [periodic])


def choices_2d(grid_shape, split_axes):
    widths = [(0, 0), (1, 1), (0, 2), (2, 1), (3, 0), (1, 3), (3, 3)]
    lines = [lines_of(grid_shape[axes[0]], [0, 1, 3, 5]) for axes in split_axes]
    return [grid_shape], [split_axes], *lines, widths, widths, [False, True], [False, True]


def case_2d(grid_shape, split_axes, starts0, starts1, halo0, halo1, periodic0, periodic1):
    return HaloCase(grid_shape, split_axes, [starts0, starts1], [halo0, halo1], [periodic0, periodic1])


def sampled(choices, n):
    rng = random.Random(7)
    return [[rng.choice(of) for of in choices] for _ in range(n)]
