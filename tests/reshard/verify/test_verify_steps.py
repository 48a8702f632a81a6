"""The check of steps: right ones pass, and every wrong one that looks right by its shapes is refused."""

import json
from itertools import product
from pathlib import Path

import pytest
from support.reshard.layouts import layout
from support.reshard.lying import Lying
from support.reshard.reshard_oracle import all_split_axes
from support.reshard.right_steps import is_right

from spmd_grid.errors import PlanError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.geometry.messages import Piece, Redistribution
from spmd_grid.reshard.planner.steps import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    EXCHANGE,
    MARK_PARTIAL,
    REDUCE_SCATTER,
    SLICE,
    STEP_KINDS,
    SWAP,
    Step,
)
from spmd_grid.reshard.verify.steps import check_plan_steps, check_step

CASES = {
    case["name"]: case
    for case in json.loads((Path(__file__).parents[1] / "wrong_plan_cases.json").read_text())["cases"]
}


# -- the dialect's traps -----------------------------------------------------------------------------------------------


def dims_of(op):
    names = {"all_gather": ["gather_axis"], "all_slice": ["slice_axis"], "all_to_all": ["split_axis", "concat_axis"]}
    return tuple(op[name] for name in names[op["op"]])


def plans_of(case):
    """The case's plan as steps: what lies between two steps is not said, so with every sharding there could be."""
    grid, shape, plan = Grid(case["grid"]), case["shape"], case["plan"]
    source, target = (layout(grid, case[end], shape) for end in ("from", "to"))
    choices = [layout(grid, axes, shape) for axes in all_split_axes(grid.ndim, len(shape))]
    for between in product(choices, repeat=len(plan) - 1):
        stops = [source, *between, target]
        yield [
            Step(op["op"], before, after, tuple(op["grid_axes"]), dims_of(op))
            for op, before, after in zip(plan, stops, stops[1:])
        ]


@pytest.mark.parametrize("name", CASES)
def test_traps_of_the_dialect(name):
    """Shapes fit, cells do not: refused, whichever layouts one may think of between the steps."""
    plans = list(plans_of(CASES[name]))
    for steps in plans:
        with pytest.raises(PlanError):
            check_plan_steps(steps, steps[0].source, steps[-1].target)
    assert len(plans) == (1 if len(CASES[name]["plan"]) == 1 else {1: 3, 2: 11}[len(CASES[name]["grid"])])


@pytest.mark.parametrize("name", CASES)
def test_shapes_alone_do_not_tell(name):
    case = CASES[name]
    grid = Grid(case["grid"])
    for end, shape in (("from", case["local_in"]), ("to", case["local_out"])):
        sharding = Sharding(grid, case[end])
        assert list(sharding.shard_shape(case["shape"], (0,) * grid.ndim)) == shape
    assert case["data_correct"] is False


RIGHT = {
    "trap_unsplit_major_axis_without_swap": [
        (SWAP, [[0, 1]], [[1, 0]], (0, 1), (0,)),
        (ALL_GATHER, [[1, 0]], [[1]], (0,), (0,)),
    ],
    "trap_move_prepends_axis_2": [
        (ALL_TO_ALL, [[0], [1, 2]], [[], [1, 2, 0]], (0,), (1, 0)),
        (SWAP, [[], [1, 2, 0]], [[], [0, 1, 2]], (0, 1, 2), (1,)),
    ],
    "trap_move_to_lower_dim": [(ALL_TO_ALL, [[], [0]], [[0], []], (0,), (0, 1))],
    "trap_two_axes_to_lower_dim": [(ALL_TO_ALL, [[], [0, 1]], [[1], [0]], (1,), (0, 1))],
}


@pytest.mark.parametrize("name", CASES)
def test_right_variants_of_the_traps(name):
    case = CASES[name]
    grid, shape = Grid(case["grid"]), case["shape"]
    steps = [
        Step(kind, layout(grid, before, shape), layout(grid, after, shape), axes, dims)
        for kind, before, after, axes, dims in RIGHT[name]
    ]
    check_plan_steps(steps, layout(grid, case["from"], shape), layout(grid, case["to"], shape))


# -- more traps --------------------------------------------------------------------------------------------------------


def test_gathering_the_major_axis_interleaves():
    grid = Grid((2, 2))
    step = Step(ALL_GATHER, layout(grid, [[0, 1]], (8,)), layout(grid, [[1]], (8,)), (0,), (0,))
    with pytest.raises(PlanError, match=r"the block \[4:6\] of device \(1, 0\), after cells up to 2"):
        check_step(step, 0)
    assert is_right(Step(ALL_GATHER, layout(grid, [[0, 1]], (8,)), layout(grid, [[0]], (8,)), (1,), (0,)))


def test_gathering_in_the_wrong_order():
    grid = Grid((2, 3))
    whole, split = layout(grid, [], (12,)), layout(grid, [[0, 1]], (12,))
    assert is_right(Step(ALL_GATHER, split, whole, (0, 1), (0,)))
    assert not is_right(Step(ALL_GATHER, split, whole, (1, 0), (0,)))


def test_slicing_by_an_axis_that_still_splits_another_dimension():
    grid = Grid((2,))
    step = Step(SLICE, layout(grid, [[], [0]], (4, 4)), layout(grid, [[0]], (4, 4)), (0,), (0,))
    with pytest.raises(PlanError, match=r"gives device \(0,\) the cells \[0:2, 0:2\]; .* is \[0:2, 0:4\]"):
        check_step(step, 0)


def test_a_moved_axis_in_front():
    grid = Grid((2, 2))
    rows = layout(grid, [[0], [1]], (8, 8))
    assert is_right(Step(ALL_TO_ALL, rows, layout(grid, [[], [1, 0]], (8, 8)), (0,), (1, 0)))
    assert not is_right(Step(ALL_TO_ALL, rows, layout(grid, [[], [0, 1]], (8, 8)), (0,), (1, 0)))


def test_slicing_in_front():
    grid = Grid((2, 2))
    for target, right in (([[0, 1]], True), ([[1, 0]], False)):
        assert is_right(Step(SLICE, layout(grid, [[0]], (8,)), layout(grid, target, (8,)), (1,), (0,))) is right


def test_a_swap_is_no_permutation_of_uneven_blocks():
    """It is an exchange of boxes, and nothing but."""
    grid = Grid((2, 3))
    source, target = layout(grid, [[0, 1]], (13,)), layout(grid, [[1, 0]], (13,))
    step = Step(SWAP, source, target, (0, 1), (0,))
    assert is_right(step)
    moved = Redistribution(source, target)
    assert [piece.process for piece in moved.receives((0, 1))] == [2, 3]
    wrong = Lying(source, target).tamper("receives", lambda pieces: [Piece(3, source.core_box((1, 0)))])
    with pytest.raises(PlanError):
        check_step(step, 4, wrong)


def test_cutting_by_another_block_rule():
    """A slice of a balanced block leaves another block than the ceil rule cuts."""
    grid = Grid((2, 2))
    source = layout(grid, [[0]], (7,), blocks="balanced")
    for blocks, right in (("balanced", True), ("ceil", True)):
        assert is_right(Step(SLICE, source, layout(grid, [[0, 1]], (7,), blocks=blocks), (1,), (0,))) is right
    source = layout(Grid((3, 2)), [[0]], (7,), blocks="balanced")
    for blocks, right in (("balanced", True), ("ceil", False)):
        assert is_right(Step(SLICE, source, layout(Grid((3, 2)), [[0, 1]], (7,), blocks=blocks), (1,), (0,))) is right


def test_explicit_offsets():
    grid = Grid((2, 2))
    fine = layout(grid, [[0, 1]], (9,), sharded_dims_offsets=[[0, 1, 5, 5, 9]])
    coarse = layout(grid, [[0]], (9,), sharded_dims_offsets=[[0, 5, 9]])
    other = layout(grid, [[0]], (9,), sharded_dims_offsets=[[0, 4, 9]])
    assert is_right(Step(ALL_GATHER, fine, coarse, (1,), (0,))) and is_right(Step(SLICE, coarse, fine, (1,), (0,)))
    assert not is_right(Step(ALL_GATHER, fine, other, (1,), (0,)))
    assert not is_right(Step(SLICE, other, fine, (1,), (0,)))


def test_partial_sums():
    grid = Grid((2, 3))
    partial = layout(grid, [[1]], (6, 4), partial_axes=[0])
    whole, split = layout(grid, [[1]], (6, 4)), layout(grid, [[1], [0]], (6, 4))
    assert is_right(Step(ALL_REDUCE, partial, whole, (0,)))
    assert is_right(Step(REDUCE_SCATTER, partial, split, (0,), (1,)))
    assert is_right(Step(REDUCE_SCATTER, partial, layout(grid, [[1, 0]], (6, 4)), (0,), (0,)))
    assert is_right(Step(MARK_PARTIAL, whole, partial))
    both = layout(grid, [], (6, 4), partial_axes=[0, 1])
    assert is_right(Step(ALL_REDUCE, both, layout(grid, [], (6, 4)), (0, 1)))
    assert is_right(Step(ALL_REDUCE, both, layout(grid, [], (6, 4), partial_axes=[0]), (1,)))
    assert is_right(Step(MARK_PARTIAL, layout(grid, [], (6, 4), partial_axes=[1]), both))
    wrong = [
        Step(REDUCE_SCATTER, partial, layout(grid, [[0, 1]], (6, 4)), (0,), (0,)),  # the new axis is the minor one
        Step(REDUCE_SCATTER, partial, split, (0,), (0,)),
        Step(ALL_REDUCE, partial, split, (0,)),
        Step(ALL_REDUCE, partial, partial, (0,)),
        Step(ALL_REDUCE, whole, whole, (0,)),
        Step(ALL_REDUCE, both, whole, (0,)),
        Step(ALL_REDUCE, partial, whole, (1,)),
        Step(ALL_GATHER, partial, layout(grid, [], (6, 4)), (1,), (0,)),
        Step(SLICE, partial, split, (0,), (1,)),
        Step(MARK_PARTIAL, partial, whole),
        Step(MARK_PARTIAL, layout(grid, [[0]], (6, 4)), partial),
        Step(MARK_PARTIAL, partial, layout(grid, [[1]], (6, 4), partial_axes=[0], partial_kind="max")),
    ]
    for step in wrong:
        assert not is_right(step), str(step)


def test_halos():
    """Exchanges and slices fill them; native collectives make arrays without."""
    grid = Grid((2, 2))
    cores, halos = layout(grid, [[0]], (8,)), layout(grid, [[0]], (8,), halo_sizes=[1, 1])
    assert is_right(Step(EXCHANGE, cores, halos)) and is_right(Step(EXCHANGE, halos, halos))
    assert is_right(Step(SLICE, layout(grid, [], (8,)), halos, (0,), (0,)))
    assert not is_right(Step(SLICE, cores, layout(grid, [[0, 1]], (8,), halo_sizes=[1, 1]), (1,), (0,)))
    fine = layout(grid, [[0, 1]], (8,))
    assert is_right(Step(ALL_GATHER, fine, cores, (1,), (0,)))
    assert is_right(Step(ALL_GATHER, layout(grid, [[0, 1]], (8,), halo_sizes=[2, 0]), cores, (1,), (0,)))
    with pytest.raises(PlanError, match="fills halos; only slices and exchanges of boxes do"):
        check_step(Step(ALL_GATHER, fine, halos, (1,), (0,)), 0)


def test_broadcasts():
    """From the only device of one grid to all of another."""
    one = layout(Grid((1, 1), ranks=(3,)), [[1]], (5, 4), partial_axes=[0])
    grid = Grid((2, 2))
    assert is_right(Step(BROADCAST, one, layout(grid, [], (5, 4))))
    for wrong in (
        Step(BROADCAST, one, layout(grid, [[0]], (5, 4))),
        Step(BROADCAST, one, layout(grid, [], (5, 4), partial_axes=[0])),
        Step(BROADCAST, one, layout(Grid((1,)), [[0]], (5, 4), halo_sizes=[1, 1])),
        Step(BROADCAST, layout(grid, [], (5, 4)), layout(Grid((3,)), [], (5, 4))),
        Step(BROADCAST, one, layout(grid, [], (5, 3))),
    ):
        assert not is_right(wrong), wrong


@pytest.mark.parametrize("kind", [kind for kind in STEP_KINDS if kind not in (EXCHANGE, BROADCAST)])
def test_steps_within_groups_stay_on_one_grid(kind):
    dims = {ALL_TO_ALL: (1, 0), ALL_REDUCE: (), MARK_PARTIAL: ()}.get(kind, (0,))
    one, other = (layout(Grid((2,), ranks=ranks), [[0]], (4, 4)) for ranks in (None, (1, 0)))
    with pytest.raises(PlanError, match="between two grids"):
        check_step(Step(kind, one, other, (0,), dims), 0)
    with pytest.raises(PlanError, match="global shape"):
        check_step(Step(kind, one, layout(Grid((2,)), [[0]], (4, 5)), (0,), dims), 0)
    with pytest.raises(PlanError, match="grid_axes"):
        check_step(Step(kind, one, one, (1,), dims), 0)
    if kind != SWAP:
        for wrong in {0: [(0,), (0, 1)], 1: [(), (2,), (-1,), (0, 1)], 2: [(0,), (1, 1), (0, 2)]}[len(dims)]:
            with pytest.raises(PlanError, match="dimensions"):
                check_step(Step(kind, one, one, (0,), wrong), 0)


def test_exchanges_that_cannot_be():
    one = layout(Grid((2,)), [[0]], (4,))
    with pytest.raises(PlanError, match="must be equal"):
        check_step(Step(EXCHANGE, one, layout(Grid((2,)), [[0]], (5,))), 0)
    sums, largest = (layout(Grid((2,)), [], (4,), partial_axes=[0], partial_kind=kind) for kind in ("sum", "max"))
    with pytest.raises(PlanError, match="partial sum to partial max"):
        check_step(Step(EXCHANGE, sums, largest), 0)
