"""Named steps and their detectors: where each leads, when each applies, and what a search can do with them."""

import random

import pytest
from support.reshard.reshard_oracle import all_split_axes, random_sharding
from support.reshard.step_oracle import check_chain, check_legal_step

from spmd_grid.errors import AxisError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.planner import moves
from spmd_grid.reshard.planner.basis import basis_steps
from spmd_grid.reshard.planner.moves import DETECTORS, successors
from spmd_grid.reshard.planner.steps import ALL_REDUCE, EXCHANGE, SWAP
from spmd_grid.reshard.planner.waypoint import Waypoint, is_cut_by

GRID = Grid((2, 3, 2, 2))
SHAPE = (7, 5, 4)


def layout_of(split, shape=SHAPE, grid=GRID, **options) -> Layout:
    return Layout(Sharding(grid, split, **options), shape)


def way_of(have, want, have_partial=(), want_partial=()) -> Waypoint:
    return Waypoint(layout_of(have, partial_axes=have_partial), layout_of(want, partial_axes=want_partial))


def shown(step) -> tuple:
    """Kind, axes, dimensions, and the lists and partial axes it leads to."""
    after = step.target.sharding
    return step.kind, step.grid_axes, step.dims, [list(axes) for axes in after.split_axes], list(after.partial_axes)


# -- steps ---------------------------------------------------------------------------------------------------------

# By name: lists, partial axes, the step, and what `shown` says of it.
STEPS = {
    "slice": ([[0]], [], lambda way: way.slice(0, (2, 1)), ("all_slice", (2, 1), (0,), [[0, 2, 1]], [])),
    "slice, other": ([[0]], [], lambda way: way.slice(2, (1,)), ("all_slice", (1,), (2,), [[0], [], [1]], [])),
    "slice, partial": ([[0]], [1], lambda way: way.slice(0, (2,)), ("all_slice", (2,), (0,), [[0, 2]], [1])),
    "scatter": ([[0]], [1, 2], lambda way: way.reduce_scatter(0, (2,)), ("reduce_scatter", (2,), (0,), [[0, 2]], [1])),
    "move": ([[0], [1, 2]], [], lambda way: way.all_to_all(0, 1, 1), ("all_to_all", (2,), (0, 1), [[0, 2], [1]], [])),
    "move both": ([[0, 1]], [], lambda way: way.all_to_all(1, 0, 2), ("all_to_all", (0, 1), (1, 0), [[], [0, 1]], [])),
    "gather": ([[2, 1, 0]], [], lambda way: way.all_gather(0, 2), ("all_gather", (1, 0), (0,), [[2]], [])),
    "reorder": ([[0, 1, 2]], [], lambda way: way.swap({0: (0, 2, 1)}), ("swap", (1, 2), (0,), [[0, 2, 1]], [])),
    "reorder in front": (
        [[0, 1, 2]],
        [],
        lambda way: way.swap({0: (1, 0, 2)}),
        ("swap", (0, 1, 2), (0,), [[1, 0, 2]], []),
    ),
    "replace": ([[0, 1], [2]], [], lambda way: way.swap({0: (0, 3)}), ("swap", (1, 3), (0,), [[0, 3], [2]], [])),
    "exchange axes": (
        [[0], [1], [2]],
        [3],
        lambda way: way.swap({1: (0,), 0: (1,)}),
        ("swap", (0, 1), (0, 1), [[1], [0], [2]], [3]),
    ),
    "reduce": ([[0]], [1, 2], lambda way: way.all_reduce((1,)), ("all_reduce", (1,), (), [[0]], [2])),
    "mark": ([[0]], [1], lambda way: way.mark_partial((2, 3)), ("mark_partial", (2, 3), (), [[0]], [1, 2, 3])),
}


@pytest.mark.parametrize("blocks", ["ceil", "balanced"])
@pytest.mark.parametrize("name", STEPS)
def test_steps(name, blocks):
    split, partial, emit, wanted = STEPS[name]
    source = layout_of(split, blocks=blocks, partial_axes=partial, halo_sizes=[1, 0] * sum(map(bool, split)))
    step = emit(Waypoint(source, layout_of([[], [], [3]], blocks=blocks, partial_axes=[0])))
    assert step.source is source and step.target.sharding.halo_sizes is None
    assert shown(step) == wanted
    assert is_cut_by(step.target, blocks)
    check_legal_step(step)
    cores = layout_of(split, blocks=blocks, partial_axes=partial)
    check_chain([step], cores, step.target)


def test_a_step_leads_to_the_target_itself_where_nothing_is_left_to_do():
    target = Layout(Sharding(Grid((2,)), [[0]], sharded_dims_offsets=[0, 4, 7]), (7,))
    (step,) = moves.slices_home(Waypoint(Layout(Sharding(Grid((2,)), []), (7,)), target))
    assert step.target is target
    (step,) = moves.slices_home(Waypoint(layout_of([]), layout_of([[0]], halo_sizes=[1, 1])))
    assert step.target == layout_of([[0]])


def test_axes_that_split_or_are_partial_cannot_slice():
    way = way_of([[0]], [[0]], [1])
    for axis in (0, 1):
        with pytest.raises(AxisError, match="at most once"):
            way.slice(1, (axis,))


def test_what_is_where():
    way = way_of([[0, 1], [2]], [[0, 2], [3]])
    assert (way.placed, way.rest, way.missing) == (((0,), (), ()), ((1,), (2,), ()), ((2,), (3,), ()))
    assert (way.free, way.leavers(0), way.leavers(1)) == ({3}, [1], [2])
    assert [way.is_homeless(axis) for axis in range(4)] == [False, True, False, False]
    assert (way.next(0), way_of([[0]], [[0, 1]]).next(0)) == ((), (1,))
    way = way_of([], [], [0, 1], [1, 2])
    assert (way.owed, way.unmarked, way.free) == ((0,), (2,), {2, 3})


# -- detectors -----------------------------------------------------------------------------------------------------

# The detector, lists before and at the end, and the lists after each step it finds.
FOUND = [
    (moves.slices_home, [[0]], [[0, 1, 2], [3]], [[[0, 1, 2]], [[0], [3]]]),
    (moves.slices_home, [[0]], [[1]], []),
    (moves.slices_home, [[0], [1]], [[0, 1, 2]], []),
    (moves.slices_along, [[0]], [[], [0, 1]], [[[0, 1]]]),
    (moves.slices_along, [[0]], [[], [1, 0]], []),
    (moves.moves_home, [[0, 1]], [[], [0, 1]], [[[], [0, 1]]]),
    (moves.moves_home, [[0, 1]], [[], [1, 0]], [[[0], [1]]]),
    (moves.moves_home, [[0, 1]], [[], [0]], []),
    (moves.moves_home, [[0], [1]], [[1], [0]], []),
    (moves.moves_home, [[2, 1, 0]], [[], [0, 1, 2]], [[[], [2, 1, 0]]]),
    (moves.slices_ahead, [[1]], [[0, 1]], [[[1, 0]]]),
    (moves.slices_ahead, [[0]], [[1]], []),
    (moves.slices_ahead, [[0]], [[1, 2]], [[[0, 2]]]),
    (moves.slices_ahead, [[0], [1]], [[1], [0]], []),
    (moves.slices_ahead, [[0], [3]], [[1, 2], [0]], []),
    (moves.moves_ahead, [[0], [1]], [[1, 0]], [[[0, 1]]]),
    (moves.moves_ahead, [[0, 1]], [[], [0, 2, 1]], [[[], [0, 1]]]),
    (moves.moves_ahead, [[0], [1]], [[1], [0]], []),
    (moves.moves_ahead, [[2], [], [1, 3]], [[], [1, 2]], []),
    (moves.swaps, [[0, 1], [2, 3]], [[1, 0], [3, 2]], [[[1, 0], [3, 2]]]),
    (moves.swaps, [[0, 1]], [[1]], [[[1, 0]]]),
    (moves.swaps, [[0, 1]], [[2]], [[[2, 0]]]),
    (moves.swaps, [[0], [1]], [[1], [0]], []),
    (moves.swaps, [[0, 1]], [[0]], []),
    (moves.swaps, [[3, 0, 1]], [[1], [0]], [[[1, 3, 0]]]),
    (moves.releases, [[0, 1]], [[0]], [[[0]]]),
    (moves.releases, [[3], [1, 2], [0]], [[0], [1, 2]], [[[], [1, 2], [0]], [[3], [1, 2]]]),
    (moves.releases, [[0]], [[0, 1]], []),
]


@pytest.mark.parametrize("detector, have, want, wanted", FOUND, ids=[f"{f.__name__}: {a}->{b}" for f, a, b, _ in FOUND])
def test_detectors(detector, have, want, wanted):
    found = list(detector(way_of(have, want)))
    assert [[list(axes) for axes in step.target.sharding.split_axes] for step in found] == wanted
    for step in found:
        check_legal_step(step)


def test_reductions_and_marks_wait_for_each_other():
    way = way_of([[0]], [[0]], [1], [2])
    assert [step.kind for step in moves.all_reduces(way)] == [ALL_REDUCE] and not list(moves.marks(way))
    (step,) = moves.marks(way_of([[0]], [[0]], [1], [1, 2]))
    assert shown(step)[-1] == [1, 2]
    assert not list(moves.marks(way_of([[2]], [[]], [], [2])))


# -- for a search --------------------------------------------------------------------------------------------------


def search(source, target, allowed=lambda step: True):
    """The fewest steps by breadth first search."""
    seen, front = {source: ()}, [source]
    while target not in seen:
        reached = []
        for at in front:
            for step in successors(at, target):
                if step.kind != EXCHANGE and allowed(step) and step.target not in seen:
                    seen[step.target] = (*seen[at], step)
                    reached.append(step.target)
        front = reached
        assert front, (source, target)
    return seen[target]


def stays_within_dimensions(step) -> bool:
    """Whether a step is no swap from one dimension to another."""
    before, after = step.source.sharding, step.target.sharding
    free = {*before.replicated_axes}
    return step.kind != SWAP or all({*after.axes_of(dim)} <= {*before.axes_of(dim)} | free for dim in step.dims)


def pairs(grid, shape, n, seed, **options):
    rng = random.Random(seed)
    splits = all_split_axes(grid.ndim, len(shape))
    for _ in range(n):
        yield [layout_of(rng.choice(splits), shape, grid, **options) for _ in range(2)]


def test_a_search_finds_short_chains():
    found = []
    for source, target in pairs(Grid((2, 2, 2)), (5, 7), 60, seed=2):
        chain = search(source, target, stays_within_dimensions)
        check_chain(chain, source, target)
        assert len(search(source, target)) <= len(chain) <= len(basis_steps(source, target)) <= len(chain) + 1
        found.append(len(basis_steps(source, target)) - len(chain))
    assert sum(found) < len(found) / 3  # mostly, the chain in the written order is as short


def test_a_search_swaps_between_dimensions():
    source, target = layout_of([[0], [1]]), layout_of([[1], [0]])
    assert [step.kind for step in search(source, target)] == [SWAP]


def test_successors_of_any_layout(request):
    rng = random.Random(6)
    for _ in range(2000 if request.config.getoption("full") else 150):
        grid = Grid(rng.choice([(2, 3), (2, 2, 2), (2, 1, 2, 3)]))
        shape = tuple(rng.randrange(9) for _ in range(rng.randrange(1, 4)))
        source, target = (Layout(random_sharding(rng, grid, shape, partial=True), shape) for _ in range(2))
        steps = successors(source, target)
        assert steps == successors(source, target) and len(set(steps)) == len(steps)
        assert len(steps) <= 3 * (grid.ndim + 1) * len(shape) + 4
        way = Waypoint(source, target)
        assert bool(steps) == (not way.has_nothing_to_do)
        cores = Layout(Sharding(source.grid, source.sharding.split_axes, **rules_of(source)), shape)
        for step in steps:
            assert step.source == source and step.target != source
            check_legal_step(step)
            if step.kind != EXCHANGE:
                check_chain([step], cores, step.target)
        if steps and source.sharding.partial_kind == target.sharding.partial_kind:
            assert steps[-1] == way.exchange()


def rules_of(layout) -> dict:
    """Everything a sharding says, but for the axes and halos."""
    old = layout.sharding
    return {
        "blocks": old.blocks,
        "sharded_dims_offsets": old.sharded_dims_offsets,
        "partial_axes": old.partial_axes,
        "partial_kind": old.partial_kind,
    }


def test_a_chain_goes_from_successor_to_successor():
    for source, target in pairs(Grid((2, 3, 2)), (5, 7), 100, seed=3):
        for step in basis_steps(source, target):
            assert step in successors(step.source, target)


def test_successors_between_rules_and_grids():
    offsets = layout_of([[0]], (7,), sharded_dims_offsets=[0, 1, 7])
    kinds = [str(step.target.sharding) for step in successors(offsets, layout_of([[0, 1]], (7,), blocks="balanced"))]
    assert kinds == ["[[0]] on 2x3x2x2, balanced blocks", "[[0, 1]] on 2x3x2x2, balanced blocks"]
    elsewhere = Layout(Sharding(Grid((2,)), [[0]]), (7,))
    partial = layout_of([[0]], (7,), partial_axes=[1], partial_kind="max")
    assert [step.kind for step in successors(partial, elsewhere)] == [ALL_REDUCE, EXCHANGE]
    marked = Layout(Sharding(Grid((2, 2)), [[0]], partial_axes=[1]), (7,))
    assert [step.kind for step in successors(partial, marked)] == [ALL_REDUCE]


def test_detectors_find_nothing_at_the_target():
    for split in all_split_axes(3, 2):
        way = Waypoint(*[layout_of(split, (5, 7), Grid((2, 2, 2)))] * 2)
        assert way.has_nothing_to_do and not [step for detector in DETECTORS for step in detector(way)]
