"""Chains of named steps: legal for every pair of layouts, and right when played on arrays, step by step."""

import doctest
import importlib
import random
from itertools import product

import numpy as np
import pytest
from support.reshard.chains import chain_of, layouts
from support.reshard.reshard_oracle import all_split_axes, random_sharding, side, window
from support.reshard.step_oracle import all_gather, check_chain, check_legal, local_arrays

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.planner.basis import basis_steps
from spmd_grid.reshard.planner.steps import EXCHANGE, SWAP, Step
from spmd_grid.reshard.planner.waypoint import Waypoint

EVEN, UNEVEN = 12, {0: 7, 1: 5, 2: 4}  # of the uneven extents, some blocks are empty


@pytest.mark.parametrize("module", ["basis", "moves", "waypoint"])
def test_examples(module):
    result = doctest.testmod(importlib.import_module(f"spmd_grid.reshard.planner.{module}"))
    assert result.attempted and not result.failed


# -- the decompositions of the notes on resharding ---------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6, 6), (5, 7)])
@pytest.mark.parametrize("grid_shape", [(2, 3), (2, 6), (3, 2)])
def test_first_decomposition_of_the_notes(grid_shape, shape):
    words, between = chain_of(*layouts(grid_shape, shape, [[0], [1]], [[1], [0]]))
    assert words == ["all_gather [1] 1", "all_to_all [0] 1<-0", "all_slice [1] 0"]
    assert between == [[[0]], [[], [0]]]


@pytest.mark.parametrize("shape", [(16, 8, 12), (5, 7, 6)])
def test_second_decomposition_of_the_notes(shape):
    words, between = chain_of(*layouts((2, 3, 2, 2), shape, [[3, 2], [], [0, 1]], [[0], [1, 2], []]))
    assert words == ["all_to_all [1] 1<-2", "all_to_all [2] 1<-0", "all_gather [3] 0", "all_to_all [0] 0<-2"]
    assert between == [[[3, 2], [1], [0]], [[3], [1, 2], [0]], [[], [1, 2], [0]]]


# Source, target, and the steps; on a grid of 2x3x2x2 and uneven extents.
CHAINS = [
    ([[0], [1, 2]], [[0], [2]], ["swap [1, 2]", "all_gather [1] 1"]),
    ([[0], [1, 2]], [[0, 1], [2]], ["swap [1, 2]", "all_to_all [1] 0<-1"]),
    ([[0, 1]], [[1, 0]], ["swap [0, 1]"]),
    ([[0, 1]], [[1]], ["swap [0, 1]", "all_gather [0] 0"]),
    ([[0, 1]], [[0]], ["all_gather [1] 0"]),
    ([[0, 1, 2]], [[]], ["all_gather [0, 1, 2] 0"]),
    ([[]], [[0, 1]], ["all_slice [0, 1] 0"]),
    ([[0]], [[1]], ["swap [0, 1]"]),
    ([[0]], [[1, 2]], ["all_slice [2] 0", "swap [0, 1, 2]"]),
    ([[0, 2]], [[0, 1, 2]], ["all_slice [1] 0", "swap [1, 2]"]),
    ([[0, 1], [2, 3]], [[1, 0], [3, 2]], ["swap [0, 1, 2, 3]"]),
    ([[0]], [[], [0]], ["all_to_all [0] 1<-0"]),
    ([[0]], [[], [0, 1]], ["all_slice [1] 0", "all_to_all [0, 1] 1<-0"]),
    ([[0]], [[], [1, 0]], ["all_slice [1] 1", "all_to_all [0] 1<-0"]),
    ([[0, 1, 2]], [[2], [0, 1]], ["swap [0, 1, 2]", "all_to_all [0, 1] 1<-0"]),
    ([[0, 1, 2]], [[], [2, 1, 0]], ["all_to_all [0, 1, 2] 1<-0", "swap [0, 1, 2]"]),
    ([[1], [2], [0]], [[2], [1]], ["all_gather [2] 1", "all_to_all [1] 1<-0", "all_slice [2] 0", "all_gather [0] 2"]),
    ([[0, 1, 2], [], []], [[], [0, 2], [1]], ["swap [1, 2]", "all_to_all [1] 2<-0", "all_to_all [0, 2] 1<-0"]),
    ([[0], [1], [2]], [[0], [1], [2]], []),
]


@pytest.mark.parametrize("source, target, wanted", CHAINS, ids=[f"{a}->{b}" for a, b, _ in CHAINS])
def test_chains(source, target, wanted):
    words, _ = chain_of(*layouts((2, 3, 2, 2), (7, 5, 6), source, target))
    assert words == wanted


# -- all pairs -----------------------------------------------------------------------------------------------------


def pairs_of(grid_shape, ndim, most):
    """Ordered pairs of layouts on one grid: shardings, extents, block rules.  All, or a random ``most``."""
    splits = all_split_axes(len(grid_shape), ndim)
    extents = [(EVEN,) * ndim, tuple(UNEVEN[dim] for dim in range(ndim))]
    choices = list(product(splits, splits, extents, ["ceil", "balanced"]))
    chosen = choices if len(choices) <= most else random.Random(5).sample(choices, most)
    for source, target, shape, blocks in chosen:
        yield layouts(grid_shape, shape, source, target, blocks=blocks)


def check_short(steps, source, target):
    """Check that no chain passes a layout twice, or is more than a step longer than to gather, then to slice."""
    passed = [source, *(step.target for step in steps)]
    assert len(set(passed)) == len(passed)
    way = Waypoint(source, target)
    to_gather = sum(1 for dim in way.dims if way.rest[dim])
    to_slice = sum(1 for dim in way.dims if way.missing[dim])
    assert len(steps) <= to_gather + to_slice + 1


SWEEPS = [((2,), 1), ((3,), 2), ((2, 3), 1), ((2, 3), 2), ((2, 3), 3), ((2, 2, 2), 1), ((2, 2, 2), 2), ((2, 2, 2), 3)]


@pytest.mark.parametrize("grid_shape, ndim", SWEEPS, ids=str)
def test_all_pairs_have_a_chain(grid_shape, ndim, request):
    for source, target in pairs_of(grid_shape, ndim, 20_000 if request.config.getoption("full") else 1_500):
        steps = basis_steps(source, target)
        check_legal(steps, source, target)
        check_short(steps, source, target)
        assert EXCHANGE not in [step.kind for step in steps]
        # In chains, no swap brings an axis from one dimension to another.
        for swap in (step for step in steps if step.kind == SWAP):
            for dim in swap.dims:
                came = {*swap.target.sharding.axes_of(dim)} - {*swap.source.sharding.axes_of(dim)}
                assert came <= {*swap.source.sharding.replicated_axes}


@pytest.mark.parametrize("grid_shape, ndim", SWEEPS, ids=str)
def test_pairs(grid_shape, ndim):
    for source, target in pairs_of(grid_shape, ndim, 300):
        check_chain(basis_steps(source, target), source, target)


@pytest.mark.full
@pytest.mark.parametrize("grid_shape, ndim", [*SWEEPS, ((2, 3, 2), 1), ((2, 3, 2), 2), ((2, 3, 2), 3)], ids=str)
def test_all_pairs(grid_shape, ndim):
    for source, target in pairs_of(grid_shape, ndim, 10_000):
        check_chain(basis_steps(source, target), source, target)


def test_larger_grids(request):
    rng = random.Random(9)
    for _ in range(2000 if request.config.getoption("full") else 150):
        grid = Grid(rng.choice([(2, 2, 2, 2), (2, 1, 3, 2), (2, 2, 1, 2, 2)]))
        shape = tuple(rng.randrange(9) for _ in range(rng.randrange(1, 4)))
        source, target = (Layout(random_sharding(rng, grid, shape, partial=True, plain=True), shape) for _ in range(2))
        chain_of(source, target)


# -- partial values ------------------------------------------------------------------------------------------------

# Source, its partial axes, target, its partial axes, and the steps; on a grid of 2x3x2.
PARTIAL = [
    ([[]], [0], [[]], [], ["all_reduce [0]"]),
    ([[]], [0, 2], [[]], [], ["all_reduce [0, 2]"]),
    ([[1]], [0], [[1]], [], ["all_reduce [0]"]),
    ([[]], [0], [[0]], [], ["reduce_scatter [0] 0"]),
    ([[1]], [0], [[1, 0]], [], ["reduce_scatter [0] 0"]),
    ([[]], [0, 2], [[2, 0]], [], ["reduce_scatter [2, 0] 0"]),
    ([[]], [0], [[1, 0]], [], ["all_slice [1] 0", "reduce_scatter [0] 0"]),
    ([[1]], [0], [[0, 1]], [], ["reduce_scatter [0] 0", "swap [0, 1]"]),
    ([[1]], [0], [[], [0]], [], ["reduce_scatter [0] 1", "all_gather [1] 0"]),
    ([[1]], [0], [[], [1, 0]], [], ["reduce_scatter [0] 0", "all_to_all [1, 0] 1<-0"]),
    ([[1]], [0], [[0]], [], ["all_reduce [0]", "swap [0, 1]"]),
    ([[1]], [0], [[]], [], ["all_reduce [0]", "all_gather [1] 0"]),
    ([[1]], [0], [[1]], [0], []),
    ([[1]], [0], [[], [1]], [0], ["all_to_all [1] 1<-0"]),
    ([[1, 2]], [0], [[2, 1]], [0], ["swap [1, 2]"]),
    ([[]], [0, 1], [[1]], [0], ["reduce_scatter [1] 0"]),
    ([[]], [0, 1], [[]], [1], ["all_reduce [0]"]),
    ([[]], [], [[]], [1], ["mark_partial [1]"]),
    ([[]], [0], [[]], [0, 1], ["mark_partial [1]"]),
    ([[]], [0], [[]], [1], ["all_reduce [0]", "mark_partial [1]"]),
    ([[0]], [], [[]], [0], ["all_gather [0] 0", "mark_partial [0]"]),
]


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("source, source_partial, target, target_partial, wanted", PARTIAL, ids=str)
def test_partial(source, source_partial, target, target_partial, wanted, kind):
    options = {"source_partial_axes": source_partial, "target_partial_axes": target_partial, "partial_kind": kind}
    assert chain_of(*layouts((2, 3, 2), (7, 5), source, target, **options))[0] == wanted


def test_partial_of_another_kind_is_reduced_first():
    options = {"source_partial_axes": [0], "target_partial_axes": [0], "source_partial_kind": "max"}
    assert chain_of(*layouts((2, 3), (7,), [[1]], [[1]], **options))[0] == ["all_reduce [0]", "mark_partial [0]"]


# -- offsets, halos, rules, grids ----------------------------------------------------------------------------------

CUT = {"sharded_dims_offsets": [[0, 1, 6, 7]]}
HALOS = {"halo_sizes": [1, 2]}
BLOCKS = [[0, 3, 6, 7]]  # of 7 cells on 3 devices, as the policy cuts them
ROWS, OTHER_ROWS, ALL_ROWS = [[1]], [[0]], [[]]
# By name: what is special about the source, its lists, the same of the target, and the steps; on a grid of 2x3x2.
ENDS = {
    "same": ({}, ROWS, {}, ROWS, []),
    "halos are refreshed": (HALOS, ROWS, HALOS, ROWS, ["exchange"]),
    "halos come": ({}, ROWS, HALOS, ROWS, ["exchange"]),
    "halos go": (HALOS, ROWS, {}, ROWS, ["exchange"]),
    "halos go by themselves": (HALOS, ROWS, {}, ALL_ROWS, ["all_gather [1] 0"]),
    "halos come last": ({}, [[], [1]], HALOS, ROWS, ["all_to_all [1] 0<-1", "exchange"]),
    "halos come with a slice": ({}, ALL_ROWS, HALOS, ROWS, ["exchange"]),
    "halos come with a swap": ({}, OTHER_ROWS, HALOS, ROWS, ["exchange"]),
    "halos come to contributions": ({}, ALL_ROWS, HALOS | {"partial_axes": [0]}, ROWS, ["exchange"]),
    "halos come to more contributions": (
        {"partial_axes": [2]},
        ROWS,
        HALOS | {"partial_axes": [0, 2]},
        ROWS,
        ["mark_partial [0]", "exchange"],
    ),
    "rule": ({}, ROWS, {"blocks": "balanced"}, ROWS, ["exchange"]),
    "rule after a move": ({}, [[], [1]], {"blocks": "balanced"}, ROWS, ["all_to_all [1] 0<-1", "exchange"]),
    "rule of the target": ({}, ALL_ROWS, {"blocks": "balanced"}, [[1, 0]], ["all_slice [1, 0] 0"]),
    "rule of the source": ({"blocks": "balanced"}, [[1, 0]], {}, ALL_ROWS, ["all_gather [1, 0] 0"]),
    "offsets": (CUT, ROWS, {}, ROWS, ["exchange"]),
    "offsets stay": (CUT, ROWS, CUT, ROWS, []),
    "offsets of the rule": ({"sharded_dims_offsets": BLOCKS}, ROWS, {}, ROWS, []),
    "offsets of the rule, moved": ({"sharded_dims_offsets": BLOCKS}, ROWS, {}, [[], [1]], ["all_to_all [1] 1<-0"]),
    "offsets of the rule, made": ({}, ALL_ROWS, {"sharded_dims_offsets": BLOCKS}, ROWS, ["all_slice [1] 0"]),
    "offsets are gathered": (CUT, ROWS, {}, ALL_ROWS, ["all_gather [1] 0"]),
    "offsets are reduced": (CUT | {"partial_axes": [0]}, ROWS, CUT, ROWS, ["all_reduce [0]"]),
    "offsets move": (CUT, ROWS, {}, [[], [1]], ["exchange", "all_to_all [1] 1<-0"]),
    "offsets are sliced": (CUT, ROWS, {}, [[1, 0]], ["exchange"]),
    "offsets are scattered": (CUT | {"partial_axes": [0]}, ROWS, {}, [[1, 0]], ["exchange", "reduce_scatter [0] 0"]),
    "to offsets": ({}, [[], [1]], CUT, ROWS, ["all_to_all [1] 0<-1", "exchange"]),
    "to offsets, local": ({}, ALL_ROWS, CUT, ROWS, ["exchange"]),
    "offsets to offsets": ({"sharded_dims_offsets": [0, 5, 7]}, OTHER_ROWS, CUT, ROWS, ["exchange"]),
}


@pytest.mark.parametrize("name", ENDS)
def test_ends(name):
    before, source, after, target, wanted = ENDS[name]
    grid = Grid((2, 3, 2))
    ends = [Layout(Sharding(grid, split, **own), (7, 5)) for split, own in ((source, before), (target, after))]
    assert chain_of(*ends)[0] == wanted


def test_rules_that_come_to_the_same():
    source, target = layouts((2, 2), (8, 4), [[0], [1]], [[0, 1]], target_blocks="balanced")
    assert chain_of(source, target)[0] == ["all_to_all [1] 0<-1"]
    assert chain_of(*layouts((2, 2), (8, 4), [[0, 1]], [[0, 1]], target_blocks="balanced"))[0] == []
    assert chain_of(*layouts((2, 2), (7, 4), [[0, 1]], [[0, 1]], target_blocks="balanced"))[0] == ["exchange"]


def test_axes_of_size_1_are_no_work():
    assert chain_of(*layouts((1, 3), (7, 5), [[0], [1]], [[1], [0]]))[0] == ["all_to_all [1] 0<-1"]
    assert chain_of(*layouts((2, 1), (7, 5), [[0, 1]], [[1, 0]]))[0] == []
    assert chain_of(*layouts((2, 1), (7, 5), [[1]], [[]], source_halo_sizes=[1, 1]))[0] == ["exchange"]
    assert chain_of(*layouts((1,), (7,), [[0]], [[]], source_sharded_dims_offsets=[0, 7]))[0] == []
    partial = {"target_partial_axes": [1]}
    assert chain_of(*layouts((3, 1), (7,), [[0, 1]], [[]], **partial))[0] == ["all_gather [0, 1] 0", "mark_partial [1]"]
    assert chain_of(*layouts((3, 1), (7,), [[0, 1]], [[0]], **partial))[0] == ["all_gather [1] 0", "mark_partial [1]"]


def test_names_of_axes_do_not_matter():
    source = Layout(Sharding(Grid((2, 3), axis_names=("x", "y")), [["x"]]), (7, 5))
    same = Layout(Sharding(Grid((2, 3)), [[0]]), (7, 5))
    other = Layout(Sharding(Grid((2, 3), axis_names=("a", "b")), [[], ["a"]]), (7, 5))
    assert chain_of(source, same)[0] == []
    assert chain_of(source, other)[0] == ["all_to_all [0] 1<-0"]


def test_other_grids():
    source = Layout(Sharding(Grid((2, 3)), [[0], [1]]), (7, 5))
    turned = Layout(Sharding(Grid((2, 3), ranks=range(5, -1, -1)), [[0], [1]]), (7, 5))
    fewer = Layout(Sharding(Grid((4,), ranks=(7, 1, 0, 9)), [[0]], halo_sizes=[1, 1]), (7, 5))
    for target in (turned, fewer):
        steps = basis_steps(source, target)
        assert steps == (Step(EXCHANGE, source, target),)
        check_chain(steps, source, target)
    partial = Layout(Sharding(Grid((2, 3)), [[1]], partial_axes=[0]), (7, 5))
    marked = Layout(Sharding(Grid((3, 2)), [[1]], partial_axes=[0], partial_kind="max"), (7, 5))
    assert chain_of(partial, fewer)[0] == ["all_reduce [0]", "exchange"]
    assert chain_of(partial, marked)[0] == ["all_reduce [0]", "exchange"]


def test_any_ends(request):
    rng = random.Random(4)
    for _ in range(3000 if request.config.getoption("full") else 200):
        grid = Grid(rng.choice([(2, 3), (2, 2, 2), (3, 2, 2)]))
        shape = tuple(rng.randrange(9) for _ in range(rng.randrange(1, 4)))
        source, target = (Layout(random_sharding(rng, grid, shape, partial=True), shape) for _ in range(2))
        chain_of(source, target)


def test_what_a_gather_of_the_major_axis_brings():
    """The second drawing of the notes: each device ends up with every third cell, not with its block."""
    source, target = layouts((2, 3), (6,), [[0, 1]], [[1]])
    value, xs = local_arrays(source)
    interleaved = all_gather(xs, (2, 3), [0], 0)
    assert np.array_equal(interleaved[0, 0], value[[0, 3]])
    blocks = dict(zip(side(target).coords, side(target).cores))
    assert np.array_equal(value[[0, 1]], value[window(blocks[0, 0], 1)])


def test_plans_of_a_million_devices_cost_nothing():
    grid = Grid((128, 128, 64))
    source, target = (Layout(Sharding(grid, split), (65536, 65536)) for split in ([[0], [1, 2]], [[2], [0]]))
    check_legal(basis_steps(source, target), source, target)
