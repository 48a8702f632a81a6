"""Every drawing of the notes on resharding, with its numbers.

A drawing shows the contents of the devices as the tensor's numbers: rows of devices are divided by ``---``, columns by
``|``.  Where a drawing is wrong, the comment says so and the numbers are those of the definition of a sharding.
"""

from itertools import product

import numpy as np
import pytest
from support.reshard.layouts import at

from spmd_grid.errors import PlanError
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.planner.direct import direct_steps
from spmd_grid.reshard.planner.steps import ALL_GATHER, SWAP, Step
from spmd_grid.reshard.verify.steps import check_plan_steps, check_step


def numbers(rows, columns) -> np.ndarray:
    """The tensor as it is drawn: 11 is in the first row and column, 23 in the second row, third column."""
    return np.add.outer(10 * np.arange(1, rows + 1), np.arange(1, columns + 1))


def contents(drawing) -> list:
    """The devices of a drawing in the order of reading."""
    found = []
    for row in drawing.strip().split("---"):
        lines = [line.split("|") for line in row.strip().splitlines()]
        for column in zip(*lines, strict=True):
            found.append([[int(number) for number in cells.split()] for cells in column])
    return found


def blocks_of(layout, tensor) -> list:
    coords = [layout.grid.multi_index(device) for device in range(layout.grid.size)]
    return [tensor[layout.core_box(each).slices()] for each in coords]


def play(source, target, blocks) -> list:
    """The cells that devices hold after one exchange of boxes, given those that they hold before."""
    moved, result = Redistribution(source, target), []
    for device in range(target.grid.size):
        coords = target.grid.multi_index(device)
        wanted = target.core_box(coords)
        local = np.zeros(wanted.shape, int)
        kept = moved.kept_box(coords)
        pieces = [(piece.process, piece.box) for piece in moved.receives(coords)]
        for sender, box in pieces if kept is None else [*pieces, (device, kept)]:
            held = source.core_box(source.grid.multi_index(sender))
            local[box.relative_to(wanted.starts).slices()] = blocks[sender][box.relative_to(held.starts).slices()]
        result.append(local)
    return result


def as_lists(blocks) -> list:
    """Lines of numbers as in a drawing, also those of a tensor of one dimension."""
    return [np.atleast_2d(block).tolist() for block in blocks]


# name: (grid, tensor, source, target, the drawing before, the drawing after)
DRAWINGS = {
    # The title says "to sharding [[0, 1]]".  The tensor is drawn as 2x3, and sharded as six numbers in a row.
    "swap of two axes of one dimension": (
        (2, 3),
        numbers(2, 3).reshape(6),
        [[0, 1]],
        [[1, 0]],
        """
        11 | 12 | 13
        ---
        21 | 22 | 23
        """,
        """
        11 | 13 | 22
        ---
        12 | 21 | 23
        """,
    ),
    # Drawn as {11, 21}, {12, 22}, {13, 23}: what all_gather over axis 0 gives, and not the sharding [[1]].
    "unsplit of the major axis": (
        (2, 3),
        numbers(2, 3).reshape(6),
        [[0, 1]],
        [[1]],
        """
        11 | 12 | 13
        ---
        21 | 22 | 23
        """,
        """
        11 12 | 13 21 | 22 23
        ---
        11 12 | 13 21 | 22 23
        """,
    ),
    # Called 4x6, drawn as 2x6.
    "unsplit of the minor axis": (
        (2, 3),
        numbers(2, 6),
        [[], [0, 1]],
        [[], [0]],
        """
        11 | 12 | 13
        21 | 22 | 23
        ---
        14 | 15 | 16
        24 | 25 | 26
        """,
        """
        11 12 13 | 11 12 13
        21 22 23 | 21 22 23
        ---
        14 15 16 | 14 15 16
        24 25 26 | 24 25 26
        """,  # the same on every column of three, two of which are drawn
    ),
    "unsplit of the major axis beside another dimension": (
        (2, 2, 2),
        numbers(4, 8),
        [[0], [1, 2]],
        [[0], [2]],
        """
        11 12 | 13 14
        21 22 | 23 24
        ---
        15 16 | 17 18
        25 26 | 27 28
        ---
        31 32 | 33 34
        41 42 | 43 44
        ---
        35 36 | 37 38
        45 46 | 47 48
        """,
        """
        11 12 13 14 | 15 16 17 18
        21 22 23 24 | 25 26 27 28
        ---
        11 12 13 14 | 15 16 17 18
        21 22 23 24 | 25 26 27 28
        ---
        31 32 33 34 | 35 36 37 38
        41 42 43 44 | 45 46 47 48
        ---
        31 32 33 34 | 35 36 37 38
        41 42 43 44 | 45 46 47 48
        """,
    ),
    "swap of two dimensions on 2x3": (
        (2, 3),
        numbers(6, 6),
        [[0], [1]],
        [[1], [0]],
        """
        11 12 | 13 14 | 15 16
        21 22 | 23 24 | 25 26
        31 32 | 33 34 | 35 36
        ---
        41 42 | 43 44 | 45 46
        51 52 | 53 54 | 55 56
        61 62 | 63 64 | 65 66
        """,
        """
        11 12 13 | 31 32 33 | 51 52 53
        21 22 23 | 41 42 43 | 61 62 63
        ---
        14 15 16 | 34 35 36 | 54 55 56
        24 25 26 | 44 45 46 | 64 65 66
        """,
    ),
    # Before, "23" is drawn where 25 is.  After, grid axis 1 is drawn downwards; here it goes to the right as always.
    "swap of two dimensions on 2x6": (
        (2, 6),
        numbers(6, 6),
        [[0], [1]],
        [[1], [0]],
        """
        11 | 12 | 13 | 14 | 15 | 16
        21 | 22 | 23 | 24 | 25 | 26
        31 | 32 | 33 | 34 | 35 | 36
        ---
        41 | 42 | 43 | 44 | 45 | 46
        51 | 52 | 53 | 54 | 55 | 56
        61 | 62 | 63 | 64 | 65 | 66
        """,
        """
        11 12 13 | 21 22 23 | 31 32 33 | 41 42 43 | 51 52 53 | 61 62 63
        ---
        14 15 16 | 24 25 26 | 34 35 36 | 44 45 46 | 54 55 56 | 64 65 66
        """,
    ),
    "an axis to another dimension": (
        (3,),
        numbers(6, 6),
        [[0], []],
        [[], [0]],
        """
        11 12 13 14 15 16
        21 22 23 24 25 26
        ---
        31 32 33 34 35 36
        41 42 43 44 45 46
        ---
        51 52 53 54 55 56
        61 62 63 64 65 66
        """,
        """
        11 12 | 13 14 | 15 16
        21 22 | 23 24 | 25 26
        31 32 | 33 34 | 35 36
        41 42 | 43 44 | 45 46
        51 52 | 53 54 | 55 56
        61 62 | 63 64 | 65 66
        """,
    ),
    # After, "13 41" is drawn where 13 14 is.
    "the major axis to another dimension": (
        (2, 2, 2),
        numbers(4, 4),
        [[0], [1, 2]],
        [[0, 1], [2]],
        """
        11 | 12
        21 | 22
        ---
        13 | 14
        23 | 24
        ---
        31 | 32
        41 | 42
        ---
        33 | 34
        43 | 44
        """,
        """
        11 12 | 13 14
        ---
        21 22 | 23 24
        ---
        31 32 | 33 34
        ---
        41 42 | 43 44
        """,
    ),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawings(name):
    grid_shape, tensor, before, after, drawn_before, drawn_after = DRAWINGS[name]
    source, target = (at(grid_shape, split_axes, tensor.shape) for split_axes in (before, after))
    blocks = blocks_of(source, tensor)
    wanted = contents(drawn_after)
    if name == "unsplit of the minor axis":
        wanted = [wanted[row * 2] for row in range(2) for _ in range(3)]
    assert as_lists(blocks) == contents(drawn_before)
    assert as_lists(play(source, target, blocks)) == wanted == as_lists(blocks_of(target, tensor))
    check_plan_steps(direct_steps(source, target), source, target)


def test_the_second_drawing_of_the_swap_on_2x3_is_its_first_one_turned():
    """There grid axis 0 goes to the right and axis 1 downwards, so that the tensor can be read."""
    turned = contents(
        """
        11 12 13 | 14 15 16
        21 22 23 | 24 25 26
        ---
        31 32 33 | 34 35 36
        41 42 43 | 44 45 46
        ---
        51 52 53 | 54 55 56
        61 62 63 | 64 65 66
        """
    )
    after = contents(DRAWINGS["swap of two dimensions on 2x3"][-1])
    assert [turned[3 * 0 + row * 2 + column] for column in range(2) for row in range(3)] == after


def test_gathering_the_major_axis_gives_what_is_drawn_and_is_refused():
    """The devices' numbers one after another, in the order of axis 0: right shapes, wrong cells."""
    tensor = numbers(2, 3).reshape(6)
    source, target = at((2, 3), [[0, 1]], (6,)), at((2, 3), [[1]], (6,))
    blocks = blocks_of(source, tensor)
    assert [np.concatenate([blocks[column], blocks[3 + column]]).tolist() for column in range(3)] == [
        [11, 21],
        [12, 22],
        [13, 23],
    ]
    with pytest.raises(PlanError, match="not consecutive"):
        check_step(Step(ALL_GATHER, source, target, (0,), (0,)), 0)
    swapped = at((2, 3), [[1, 0]], (6,))
    steps = [Step(SWAP, source, swapped, (0, 1), (0,)), Step(ALL_GATHER, swapped, target, (0,), (0,))]
    check_plan_steps(steps, source, target)


def test_devices_with_one_linear_index_swap_contents():
    """ "Swap contents on devices that have the same linear index in the 2 shardings": on even extents that is all."""
    source, target = at((2, 3), [[0, 1]], (6,)), at((2, 3), [[1, 0]], (6,))
    moved = Redistribution(source, target)
    for c0, c1 in product(range(2), range(3)):
        index = c1 * 2 + c0  # in the second sharding; in the first one it is c0 * 3 + c1
        assert [piece.process for piece in moved.receives((c0, c1))] == [index] * (index != c0 * 3 + c1)
