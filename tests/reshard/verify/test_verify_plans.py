"""The check of plans: steps have to chain, and nothing walks over a million devices."""

import pytest
from support.reshard.layouts import layout

from spmd_grid.errors import PlanError, ShardingError, SpmdError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.reshard.planner.steps import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    EXCHANGE,
    SLICE,
    SWAP,
    Step,
)
from spmd_grid.reshard.verify.steps import check_plan_steps, check_step


def test_steps_have_to_chain():
    grid = Grid((2, 2))
    a, b, c = (layout(grid, split, (4, 4)) for split in ([[0]], [[], [0]], [[]]))
    move, gather = Step(ALL_TO_ALL, a, b, (0,), (1, 0)), Step(ALL_GATHER, b, c, (0,), (1,))
    check_plan_steps([move, gather], a, c)
    for steps, source, target, words in [
        ([gather], a, c, "begins at"),
        ([move], a, c, "ends at"),
        ([move, move], a, b, "begins at"),
        ([gather, move], b, b, "begins at"),
        ([], a, b, "without steps"),
    ]:
        with pytest.raises(PlanError, match=words):
            check_plan_steps(steps, source, target)


def test_only_the_last_step_fills_halos():
    grid = Grid((2, 2))
    a, b, c = layout(grid, [[0]], (8,)), layout(grid, [[0]], (8,), halo_sizes=[1, 1]), layout(grid, [], (8,))
    check_plan_steps([Step(EXCHANGE, a, b)], a, b)
    check_plan_steps([Step(EXCHANGE, b, c)], b, c)
    with pytest.raises(PlanError, match="which no later step reads"):
        check_plan_steps([Step(EXCHANGE, a, b), Step(EXCHANGE, b, c)], a, c)


def test_no_steps():
    """Nothing has to be done where local arrays are equal, and nowhere else."""
    grid = Grid((2, 1))
    a, same, halos = (
        layout(grid, split, (8,), **o) for split, o in [([[0]], {}), ([[1, 0]], {}), ([[0]], {"halo_sizes": [1, 0]})]
    )
    check_plan_steps([], a, a)
    check_plan_steps([], a, same)
    for source, target in [(a, halos), (halos, a), (halos, halos), (a, layout(grid, [], (8,)))]:
        with pytest.raises(PlanError, match="has something to do"):
            check_plan_steps([], source, target)
    other = layout(Grid((2, 1), ranks=(1, 0)), [[0]], (8,))
    with pytest.raises(PlanError, match="has something to do"):
        check_plan_steps([], a, other)
    partial = layout(Grid((2, 2)), [[0]], (8,), partial_axes=[1])
    with pytest.raises(PlanError):
        check_plan_steps([], partial, layout(Grid((2, 2)), [[0]], (8,)))
    check_plan_steps([], partial, partial)


def test_between_grids():
    """Processes in the source only, in the target only, and in neither."""
    source, target = layout(Grid((2, 2)), [[0], [1]], (5, 7)), layout(Grid((3,), ranks=(9, 2, 5)), [[], [0]], (5, 7))
    steps = [Step(EXCHANGE, source, target)]
    check_plan_steps(steps, source, target)
    for process in range(12):
        check_plan_steps(steps, source, target, process)
        check_step(steps[0], process)


def test_a_plan_error_says_that_it_is_ours():
    assert issubclass(PlanError, SpmdError) and issubclass(PlanError, RuntimeError)
    assert not issubclass(PlanError, ValueError)
    with pytest.raises(ShardingError, match="of kind"):
        Step("guess", layout(Grid((2,)), [], ()), layout(Grid((2,)), [], ()))


# -- cost --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ["kind", "source", "target", "axes", "dims"],
    [
        (ALL_GATHER, [[0, 1], [2]], [[0], [2]], (1,), (0,)),
        (ALL_GATHER, [[0, 1, 2]], [[]], (0, 1, 2), (0,)),
        (SLICE, [[0]], [[0, 2, 1]], (2, 1), (0,)),
        (SWAP, [[0, 1, 2]], [[0, 2, 1]], (1, 2), (0,)),
        (EXCHANGE, [[0], [1]], [[1], [0]], (), ()),
        (ALL_REDUCE, [[0]], [[0]], (1, 2), ()),
    ],
)
def test_a_million_devices(instructions, kind, source, target, axes, dims):
    """Nothing walks over them, not even over a group that is all of them."""
    grid = Grid((1024, 32, 32))
    options = {"partial_axes": axes} if kind == ALL_REDUCE else {}
    before, after = layout(grid, source, (1 << 22, 4096), **options), layout(grid, target, (1 << 22, 4096))
    steps = [Step(kind, before, after, axes, dims)]
    assert instructions(check_plan_steps, steps, before, after, 123_456) < 200_000


def test_many_partners(instructions):
    """Of a million devices this one has two thousand partners."""
    grid = Grid((1024, 1024))
    before, after = layout(grid, [[0, 1]], (1 << 24,)), layout(grid, [[1]], (1 << 24,))
    assert instructions(check_step, Step(EXCHANGE, before, after), 5 * 1024 + 7) < 5_000_000
