"""The check of plans: right ones pass, and every wrong one that looks right by its shapes is refused."""

import json
import math
import random
import time
from itertools import product
from pathlib import Path

import pytest
from reshard_oracle import all_split_axes, random_sharding

from spmd_grid.errors import PlanError, ShardingError, SpmdError
from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.redistribute import Piece, Redistribution
from spmd_grid.reshard.steps import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    EXCHANGE,
    KINDS,
    MARK_PARTIAL,
    REDUCE_SCATTER,
    SLICE,
    SWAP,
    Step,
)
from spmd_grid.reshard.verify import check_exchange, check_plan_steps, check_step, covers_once

CASES = {
    case["name"]: case for case in json.loads((Path(__file__).parent / "wrong_plan_cases.json").read_text())["cases"]
}


def layout(grid, split_axes, shape, **options) -> Layout:
    return Layout(Sharding(grid, split_axes, **options), shape)


def check_everywhere(step) -> None:
    check_plan_steps([step], step.source, step.target)


def is_right(step) -> bool:
    try:
        check_everywhere(step)
    except PlanError:
        return False
    return True


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
    with pytest.raises(PlanError, match=r"brings device \(0,\) the cells \[0:2, 0:2\]; .* is \[0:2, 0:4\]"):
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
    """What a slice of a balanced block leaves is not what the ceil rule cuts."""
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


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in (EXCHANGE, BROADCAST)])
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


# -- all steps against what they do to numbers -------------------------------------------------------------------------


def ids_of(where, coords) -> list:
    """The cells of a device's block, as nested tuples of global coordinates."""
    box = where.core_box(coords)
    return list(product(*map(range, box.starts, box.stops)))


def result_by_definition(step, coords):
    """The cells, by place in the result, that an operation brings: blocks as dictionaries from place to cell."""
    grid = step.source.grid

    def block(at):
        box = step.source.core_box(at)
        return {tuple(c - s for c, s in zip(cell, box.starts)): cell for cell in ids_of(step.source, at)}, box.shape

    def part(cells, shape, dim):
        """Cut by the rule, as it is stated: axis by axis."""
        low, high = 0, shape[dim]
        for axis in step.grid_axes:
            chunk = math.ceil((high - low) / grid.shape[axis])
            low, high = min(low + coords[axis] * chunk, high), min(low + (coords[axis] + 1) * chunk, high)
        kept = {p: c for p, c in cells.items() if low <= p[dim] < high}
        moved = {(*p[:dim], p[dim] - low, *p[dim + 1 :]): c for p, c in kept.items()}
        return moved, (*shape[:dim], high - low, *shape[dim + 1 :])

    cells, shape = block(coords)
    if step.kind == SLICE:
        return part(cells, shape, step.dims[0])
    group = [list(coords)]
    for axis in step.grid_axes:
        group = [
            [c if a != axis else digit for a, c in enumerate(at)] for at in group for digit in range(grid.shape[axis])
        ]
    joined, extent, dim = {}, 0, step.dims[-1]
    for at in group:
        cells, shape = block(at)
        if step.kind == ALL_TO_ALL:
            cells, shape = part(cells, shape, step.dims[0])
        joined |= {(*p[:dim], p[dim] + extent, *p[dim + 1 :]): c for p, c in cells.items()}
        extent += shape[dim]
    return joined, (*shape[:dim], extent, *shape[dim + 1 :])


@pytest.mark.parametrize("kind", [SLICE, ALL_GATHER, ALL_TO_ALL])
def test_what_is_refused_is_wrong_and_what_passes_is_right(kind, request):
    """Random steps, most of them wrong: the check says what moving every cell says."""
    rng, verdicts = random.Random(kind), []
    for _ in range(6000 if request.config.getoption("full") else 600):
        grid = Grid(rng.choice([(2,), (3,), (2, 2), (2, 3), (3, 2), (1, 2), (2, 1, 2)]))
        shape = tuple(rng.choice([1, 2, 3, 5, 6]) for _ in range(2))
        source = Layout(random_sharding(rng, grid, shape, plain=True), shape)
        axes = tuple(rng.sample(range(grid.ndim), rng.randint(1, grid.ndim)))
        dims = tuple(rng.sample(range(2), 2 if kind == ALL_TO_ALL else 1))
        split = [list(source.sharding.axes_of(dim)) for dim in range(2)]
        if rng.random() < 0.6:  # what it should be, give or take
            if kind != SLICE:
                gathered = split[dims[-1]]
                if gathered and rng.random() < 0.7:
                    axes = tuple(gathered[rng.randrange(len(gathered)) :])
                split = [[axis for axis in row if axis not in axes] for row in split]
            else:
                axes = tuple(axis for axis in axes if not any(axis in row for row in split)) or axes
            if kind != ALL_GATHER:
                split[dims[0]] = [axis for axis in split[dims[0]] if axis not in axes] + list(axes)
        try:
            target = Layout(Sharding(grid, split), shape)
        except SpmdError:
            continue
        if rng.random() < 0.3:
            target = Layout(random_sharding(rng, grid, shape, plain=True), shape)
        step = Step(kind, source, target, axes, dims)
        right = True
        for device in range(grid.size):
            coords = grid.multi_index(device)
            cells, got_shape = result_by_definition(step, coords)
            box = target.core_box(coords)
            wanted = {tuple(c - s for c, s in zip(cell, box.starts)): cell for cell in ids_of(target, coords)}
            right &= got_shape == box.shape and cells == wanted
        assert is_right(step) == right, step
        verdicts.append(right)
    assert 0.1 < sum(verdicts) / len(verdicts) < 0.9


# -- exchanges that lie ------------------------------------------------------------------------------------------------


class Lying(Redistribution):
    """A redistribution whose lists have been tampered with."""

    def tamper(self, which, change):
        object.__setattr__(self, "_changes", {**getattr(self, "_changes", {}), which: change})
        return self

    def _changed(self, which, found):
        change = getattr(self, "_changes", {}).get(which)
        return found if change is None else change(found)

    def receives(self, coords):
        return self._changed("receives", super().receives(coords)) if coords == (1, 1) else super().receives(coords)

    def sends(self, coords):
        return self._changed("sends", super().sends(coords)) if coords == (1, 1) else super().sends(coords)

    def kept_box(self, coords):
        return self._changed("kept", super().kept_box(coords)) if coords == (1, 1) else super().kept_box(coords)


def lying():
    grid = Grid((2, 3))
    return Lying(layout(grid, [[0], [1]], (12, 12)), layout(grid, [[1], [0]], (12, 12)))


def with_box(pieces, change):
    first, *rest = pieces
    return [Piece(first.process, change(first.box)), *rest]


def halved(box):
    return Box(box.starts, (box.stops[0] - 1, *box.stops[1:]))


CHANGES = {
    "as it is": ("kept", lambda box: box, None),
    "a message is missing": ("receives", lambda pieces: pieces[1:], "every cell once"),
    "a cell is missing": ("receives", lambda pieces: with_box(pieces, halved), "every cell once"),
    "a message comes twice": ("receives", lambda pieces: [*pieces, pieces[0]], "every cell once"),
    "what is kept comes too": ("receives", lambda pieces: [*pieces, Piece(4, Box((6, 6), (7, 7)))], "from itself"),
    "nothing is kept": ("kept", lambda box: None, "every cell once"),
    "from a process that does not have it": (
        "receives",
        lambda pieces: [Piece((pieces[0].process + 1) % 6, pieces[0].box), *pieces[1:]],
        "which has",
    ),
    "from nobody": ("receives", lambda pieces: [Piece(6, pieces[0].box), *pieces[1:]], "which has nothing"),
    "an empty box": ("receives", lambda pieces: [*pieces, Piece(0, Box((4, 2), (4, 3)))], "which has"),
    "cells that are not wanted": (
        "receives",
        lambda pieces: with_box(pieces, lambda box: box.grow((1, 0), (0, 0))),
        "which has|it wants",
    ),
    "nothing is sent": ("sends", lambda pieces: [], "sends nothing to process 1, which expects"),
    "part of it is sent": ("sends", lambda pieces: with_box(pieces, halved), "which expects"),
    "sent to somebody else": (
        "sends",
        lambda pieces: [Piece(2, pieces[0].box), *pieces[1:]],
        "which wants|which expects",
    ),
    "sent to itself": ("sends", lambda pieces: [Piece(4, pieces[0].box), *pieces[1:]], "to process 4; it has"),
    "sent to nobody": ("sends", lambda pieces: [Piece(7, pieces[0].box), *pieces[1:]], "which wants nothing"),
    "what it does not have is sent": (
        "sends",
        lambda pieces: with_box(pieces, lambda box: Box((0, 0), (1, 1))),
        "it has",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_exchanges_that_lie(change):
    which, how, words = CHANGES[change]
    moved = lying().tamper(which, how)
    if words is None:
        for process in range(6):
            check_exchange(moved, process)
        return
    with pytest.raises(PlanError, match=words):
        for process in (4, 0, 1, 2, 3, 5):
            check_exchange(moved, process)


def test_the_exchange_that_runs_is_checked():
    """Boxes are checked for native kinds too, where the step will run as an exchange of boxes."""
    grid = Grid((2, 3))
    source, target = layout(grid, [[0, 1]], (7,)), layout(grid, [[0]], (7,))
    step = Step(ALL_GATHER, source, target, (1,), (0,))
    check_plan_steps([step], source, target, moves=[Redistribution(source, target)])
    bad = Lying(source, target).tamper("receives", lambda pieces: pieces[1:])
    with pytest.raises(PlanError, match="every cell once"):
        check_step(step, 4, bad)
    with pytest.raises(PlanError):
        check_plan_steps([step], source, target, moves=[bad])
    with pytest.raises(PlanError, match="would run as"):
        check_step(step, 0, Redistribution(target, source))


def test_covers_once():
    whole = Box((0, 0), (2, 4))
    tiles = [Box((0, 0), (1, 4)), Box((1, 0), (2, 1)), Box((1, 1), (2, 4))]
    assert covers_once(tiles, whole) and covers_once(tiles[::-1], whole) and covers_once([whole], whole)
    for number in range(3):
        assert not covers_once(tiles[:number] + tiles[number + 1 :], whole)
        assert not covers_once([*tiles, tiles[number]], whole)
    assert not covers_once([whole, whole], whole) and not covers_once([], whole)
    assert covers_once([], Box((0, 0), (0, 4))) and not covers_once([whole], Box((0, 0), (0, 4)))
    assert covers_once([Box((), ())], Box((), ())) and not covers_once([], Box((), ()))
    assert not covers_once([Box((), ())] * 2, Box((), ()))


def test_covers_once_where_boxes_interlock():
    """A pinwheel: no cut goes through."""
    tiles = [Box((0, 0), (1, 2)), Box((0, 2), (2, 3)), Box((2, 1), (3, 3)), Box((1, 0), (3, 1)), Box((1, 1), (2, 2))]
    assert covers_once(tiles, Box((0, 0), (3, 3)))
    assert not covers_once(tiles[:-1], Box((0, 0), (3, 3)))


# -- plans -------------------------------------------------------------------------------------------------------------


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
def test_a_million_devices(kind, source, target, axes, dims):
    """Nothing walks over them, not even over a group that is all of them; the bound is generous."""
    grid = Grid((1024, 32, 32))
    options = {"partial_axes": axes} if kind == ALL_REDUCE else {}
    before, after = layout(grid, source, (1 << 22, 4096), **options), layout(grid, target, (1 << 22, 4096))
    began = time.process_time()
    check_plan_steps([Step(kind, before, after, axes, dims)], before, after, process=123_456)
    assert time.process_time() - began < 0.5


def test_many_partners():
    grid = Grid((1024, 1024))
    before, after = layout(grid, [[0, 1]], (1 << 24,)), layout(grid, [[1]], (1 << 24,))
    began = time.process_time()
    check_step(Step(EXCHANGE, before, after), 5 * 1024 + 7)
    assert time.process_time() - began < 1
