"""Operations that undo each other, or follow each other axis by axis."""

import numpy as np
from support.ops.ops_oracle import all_axes, same, sample

import spmd_grid as sg


def test_inverses(spmd, path):
    """slice(gather x) = x, all_to_all there and back, gather(reduce_scatter x) = all_reduce x; unequal inputs."""

    def body():
        grid = sg.init_grid((2, 3))
        fine = []
        for axes in all_axes((2, 3)):
            x = sample((7, 5), "i8", grid.rank)
            mine = sg.all_slice(x, grid, axes, 0)  # its extents follow the block rule
            fine.append(same(sg.all_slice(sg.all_gather(mine, grid, axes, 0), grid, axes, 0), mine))
            there = sg.all_to_all(mine, grid, axes, split_axis=1, concat_axis=0)
            fine.append(same(sg.all_to_all(there, grid, axes, split_axis=0, concat_axis=1), mine))
            total = sg.all_gather(sg.reduce_scatter(x, grid, axes, "sum", 1), grid, axes, 1)
            fine.append(same(total, sg.all_reduce(x, grid, axes, "sum")))
        return fine

    assert spmd(6, body) == [[True] * 15] * 6


def test_axes_one_after_the_other(spmd, path):
    """Gathering over [0, 1] is gathering over [1], then [0]; slicing over [0, 1] is slicing over [0], then [1]."""

    def body():
        grid = sg.init_grid((2, 3))
        x = sample((7, 2), "i8", grid.rank)
        gathered = sg.all_gather(sg.all_gather(x, grid, [1], 0), grid, [0], 0)
        sliced = sg.all_slice(sg.all_slice(x, grid, [0], 0), grid, [1], 0)
        return same(gathered, sg.all_gather(x, grid, [0, 1], 0)), same(sliced, sg.all_slice(x, grid, [0, 1], 0))

    assert spmd(6, body) == [(True, True)] * 6


def test_slicing_and_gathering_changes_what_is_not_replicated(spmd):
    """all_gather(all_slice(x)) is x only where x is replicated."""

    def body():
        grid = sg.init_grid((2,))
        x = np.arange(4) + 10 * grid.rank
        return sg.all_gather(sg.all_slice(x, grid, [0], 0), grid, [0], 0).tolist()

    assert spmd(2, body) == [[0, 1, 12, 13]] * 2
