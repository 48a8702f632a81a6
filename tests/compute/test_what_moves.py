"""Functions move what their layouts ask for, and no byte more."""

import numpy as np
import pytest
from support.compute.moving import bytes_sent

import spmd_grid as sg


def rows_of(grid, n=12, m=5, axes=((0,),)):
    return sg.from_function(lambda i, j: i * 1.0 + j, (n, m), sg.Sharding(grid, [list(cut) for cut in axes]), grid)


LOCAL = {
    "sum of equal layouts": lambda a: a + a * 2 - np.exp(a),
    "scalars": lambda a: 2 / (a + 1),
    "plain arrays": lambda a: a * np.arange(5.0) + np.arange(12.0)[:, None],
    "transpose": lambda a: a.T,
    "a dimension that is whole": lambda a: a.sum(axis=1),
    "a slice of a dimension that is whole": lambda a: a[:, 1:4:2],
    "new dimensions": lambda a: np.squeeze(a[None], axis=0),
    "reshape of trailing dimensions": lambda a: a.reshape(12, 5, 1),
}


@pytest.mark.parametrize("function", LOCAL)
def test_nothing_moves(function):
    def body():
        return bytes_sent(LOCAL[function], rows_of(sg.init_grid((4,))))

    assert sg.run_spmd(body, ranks=4) == [0] * 4


def test_shifted_slices_move_the_cells_at_the_borders_of_blocks():
    """12 rows of 5 doubles on 4 ranks; 11 rows are cut into 3, 3, 3, 2."""

    def body():
        return bytes_sent(lambda a: a[1:], rows_of(sg.init_grid((4,))))

    assert sg.run_spmd(body, ranks=4) == [0, 40, 40, 40]  # the first row of each goes to the one before


def test_another_layout_is_brought_to_that_of_the_operand_with_the_most_bytes():
    def body():
        grid = sg.init_grid((2,))
        large, small = rows_of(grid, 12, 6), rows_of(grid, 12, 6, [(), (0,)]).astype("f4")
        return bytes_sent(lambda a, b: a + b, large, small)

    assert sg.run_spmd(body, ranks=2) == [6 * 3 * 4] * 2


def test_partial_sums_are_combined_after_a_sum_along_a_dimension():
    """4 numbers, rather than 50 rows of them."""

    def body():
        grid = sg.init_grid((3,))
        a = sg.zeros((50, 4), sg.Sharding(grid, [], partial_axes=[0]), grid)
        return bytes_sent(lambda a: np.sum(a, axis=0), a)

    assert max(sg.run_spmd(body, ranks=3)) <= 2 * 4 * 8
