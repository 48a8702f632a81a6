"""The decompositions of the notes on resharding into basis steps; the comments say where one is wrong."""

from itertools import pairwise

import pytest
from support.reshard.layouts import at

from spmd_grid.errors import PlanError
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.planner.steps import ALL_GATHER, ALL_TO_ALL, SLICE, SWAP, Step
from spmd_grid.reshard.verify.steps import check_plan_steps, check_step


def chain(grid_shape, shape, *stops) -> list:
    """[[0]], ("all_gather", axes, dims), [], ...: layouts, and what leads from each to the next."""
    layouts = [at(grid_shape, split_axes, shape) for split_axes in stops[::2]]
    return [Step(kind, *ends, axes, dims) for (kind, axes, dims), ends in zip(stops[1::2], pairwise(layouts))]


CHAINS = {
    "[[0],[1,2]] -> [[0],[2]]": chain(
        (2, 2, 2),
        (4, 8),
        [[0], [1, 2]],
        (SWAP, (1, 2), (1,)),
        [[0], [2, 1]],
        (ALL_GATHER, (1,), (1,)),
        [[0], [2]],
    ),
    # "grid_axes = [2] split_axis = 1 concat_axis = 0" is not the step wanted: it is over axis 1, split 0, concat 1.
    "[[0],[1,2]] -> [[0,1],[2]]": chain(
        (2, 2, 2),
        (4, 4),
        [[0], [1, 2]],
        (SWAP, (1, 2), (1,)),
        [[0], [2, 1]],
        (ALL_TO_ALL, (1,), (0, 1)),
        [[0, 1], [2]],
    ),
    "[[0],[]] -> [[],[0]]": chain((3,), (6, 6), [[0], []], (ALL_TO_ALL, (0,), (1, 0)), [[], [0]]),
    "[[0],[1]] -> [[1],[0]]": chain(
        (2, 3),
        (6, 6),
        [[0], [1]],
        (ALL_GATHER, (1,), (1,)),
        [[0], []],
        (ALL_TO_ALL, (0,), (1, 0)),
        [[], [0]],
        (SLICE, (1,), (0,)),
        [[1], [0]],
    ),
    "[[3,2],[],[0,1]] -> [[0],[1,2],[]]": chain(
        (2, 3, 4, 5),
        (120, 120, 120),
        [[3, 2], [], [0, 1]],
        (ALL_TO_ALL, (1,), (1, 2)),
        [[3, 2], [1], [0]],
        (ALL_TO_ALL, (2,), (1, 0)),
        [[3], [1, 2], [0]],
        (ALL_GATHER, (3,), (0,)),
        [[], [1, 2], [0]],
        (ALL_TO_ALL, (0,), (0, 2)),
        [[0], [1, 2], []],
    ),
    "[[]] -> [[1]]": chain((2, 3), (7,), [[]], (SLICE, (1,), (0,)), [[1]]),
    "[[0]] -> [[]]": chain((2, 3), (7,), [[0]], (ALL_GATHER, (0,), (0,)), [[]]),
    "[[0,1]] -> [[1,0]]": chain((2, 3), (7,), [[0, 1]], (SWAP, (0, 1), (0,)), [[1, 0]]),
}


@pytest.mark.parametrize("name", CHAINS)
def test_decompositions(name):
    """Each step is right at every device."""
    steps = CHAINS[name]
    check_plan_steps(steps, steps[0].source, steps[-1].target)


@pytest.mark.parametrize("name", [name for name in CHAINS if CHAINS[name][0].source.ndim > 1])
def test_decompositions_are_as_right_on_uneven_extents(name):
    def uneven(layout):
        return Layout(layout.sharding, tuple(extent + 1 for extent in layout.global_shape))

    steps = [Step(s.kind, uneven(s.source), uneven(s.target), s.grid_axes, s.dims) for s in CHAINS[name]]
    ends = steps[0].source, steps[-1].target
    if steps[0].source.grid.size > 100:
        for process in range(0, 120, 13):
            check_plan_steps(steps, *ends, process)
    else:
        check_plan_steps(steps, *ends)


def test_the_basis_entry_that_is_no_gather():
    """[[0, 1]] -> [[1]] by one all_gather along axis 0 is in the list of basis steps, and wrong."""
    (step,) = chain((2, 3), (6,), [[0, 1]], (ALL_GATHER, (0,), (0,)), [[1]])
    with pytest.raises(PlanError):
        check_step(step, 0)


def test_the_step_that_is_not_enough():
    """[[0],[1,2]] by all_to_all over axis 2 gives [[0,2],[1]], not [[0,1],[2]]."""
    for split_axes, right in (([[0, 2], [1]], True), ([[0, 1], [2]], False)):
        (step,) = chain((2, 2, 2), (4, 4), [[0], [1, 2]], (ALL_TO_ALL, (2,), (0, 1)), split_axes)
        if right:
            check_plan_steps([step], step.source, step.target)
        else:
            with pytest.raises(PlanError):
                check_plan_steps([step], step.source, step.target)
