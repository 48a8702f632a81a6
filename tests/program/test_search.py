"""Mutations hold, and the search never gives a dearer partition, alike everywhere."""

import numpy as np
import pytest
from support.program.whole_programs import mlp, random_arrays, run_and_compare

import spmd_grid as sg

SHAPES = (48, 16), (16, 64), (64, 16)
SPECS = [sg.ArraySpec(shape) for shape in SHAPES]


def test_a_mutation_of_a_value_is_a_requirement(spmd):
    grid = sg.Grid((2, 2))
    program = sg.trace(mlp, *SPECS)
    cut = sg.Sharding(grid, [[1], [0]])
    mutated = program.mutate("h", cut)
    part = sg.partition(mutated, grid)
    assert part.sharding_of("h") == cut and program.annotations == ()
    assert "because mutate requires [[1],[0]]" in part.explain("h")
    arrays = random_arrays(*SHAPES)
    spmd(4, lambda: run_and_compare(part, mlp, arrays))


def test_a_mutation_of_an_operation_holds_whatever_annotations_say(spmd):
    grid = sg.Grid((2, 2))
    program = sg.trace(mlp, *SPECS)
    first = program.operations[0]
    mutated = program.mutate(first, [[1], [], [0]])  # of x @ w1: rows by 1, the sum by 0
    part = sg.partition(mutated, grid, sg.Sharding(grid, [[0, 1]]))
    (step,) = [
        each for each in part.schedule.steps if getattr(each, "operation", None) is first and each.name == "matmul"
    ]
    assert step.splits.axes == ((1,), (), (0,))
    arrays = random_arrays(*SHAPES)
    spmd(4, lambda: run_and_compare(part, mlp, arrays))


def test_later_mutations_replace_earlier_ones():
    grid = sg.Grid((2,))
    program = sg.trace(mlp, *SPECS)
    twice = program.mutate("h", sg.Sharding(grid, [[0]])).mutate("h", sg.Sharding(grid, [[], [0]]))
    assert sg.partition(twice, grid).sharding_of("h") == sg.Sharding(grid, [[], [0]])
    assert len(program.mutate("y", [[0]]).mutate("y", [[], [0]]).mutations) == 1


@pytest.mark.parametrize(
    ("which", "sharding", "error", "message"),
    [
        ("y", [[], [], [], [0]], sg.ShardingError, "has 4 entries; it must be .* 3 iterators of matmul at .*:[0-9]+"),
        ("y", 3, sg.ShardingError, "sharding is 3; it must be a Sharding, or a list"),
        ("y", [0], sg.ShardingError, "entry 0 of sharding .* is 0"),
        ("w1", [[0]], sg.ShardingError, "%w1 is an argument"),
        ("z", [[0]], KeyError, "no value 'z'"),
    ],
)
def test_wrong_mutations_are_refused(which, sharding, error, message):
    with pytest.raises(error, match=message):
        sg.trace(mlp, *SPECS).mutate(which, sharding)


@pytest.mark.parametrize(("axes", "message"), [([[0], [0]], "axes \\[0\\] twice"), ([[5]], "axis 5|5")])
def test_axes_of_mutations_are_checked_with_the_grid(axes, message):
    program = sg.trace(mlp, *SPECS).mutate("y", axes)
    with pytest.raises(sg.AxisError, match=message):
        sg.partition(program, sg.Grid((2,)))


def test_whole_iterators_are_not_cut():
    program = sg.trace(lambda x: np.sort(x, axis=0), sg.ArraySpec((8, 4)))
    kinds = [each.kind for each in program.operations[0].interface.iterators]
    axes = [[0] if kind == "whole" else [] for kind in kinds]
    assert axes.count([0]) == 1
    with pytest.raises(sg.ShardingError, match="which must be whole on a device"):
        program.mutate(program.operations[0], axes)


def attention(x, wq, wk, wv):
    q, k, v = x @ wq, x @ wk, x @ wv
    scores = np.exp(q @ k.T)
    return (scores / scores.sum(axis=1, keepdims=True)) @ v


@pytest.mark.parametrize("shape", [(3,), (2, 2)])
def test_what_is_found_is_cheaper_and_right(spmd, shape):
    grid, shapes = sg.Grid(shape), ((24, 8), (8, 8), (8, 8), (8, 8))
    program = sg.trace(attention, *[sg.ArraySpec(each) for each in shapes])
    given = [sg.Sharding(grid, [[], [0]]), None, None, None]
    start, found = sg.partition(program, grid, given), sg.autoshard(program, grid, 0.6, given)
    assert found.cost().seconds < start.cost().seconds
    assert found.sharding_of("x") == given[0]
    arrays = random_arrays(*shapes)
    spmd(grid.size, lambda: run_and_compare(found, attention, arrays))


def test_one_seed_gives_one_partition_on_all_processes(spmd):
    grid = sg.Grid((2, 2))
    program = sg.trace(mlp, *SPECS)

    def body():
        found = sg.autoshard(program, sg.init_grid((2, 2)).grid, seconds=0.1, seed=5)
        return [str(each) for each in found.in_shardings], found.cost(), found.text("optimised")

    results = spmd(4, body)
    assert all(each == results[0] for each in results)
    again = sg.autoshard(program, grid, seconds=0.1, seed=5)
    assert again.text("optimised") == results[0][2]


def test_no_seconds_give_the_answer_of_propagation():
    grid = sg.Grid((2,))
    program = sg.trace(mlp, *SPECS)
    given = sg.Sharding(grid, [[0]])
    assert sg.autoshard(program, grid, 0, given).text("optimised") == sg.partition(program, grid, given).text(
        "optimised"
    )


def test_memory_is_limited():
    grid = sg.Grid((4,))
    program = sg.trace(mlp, *SPECS)
    whole = sg.partition(program, grid).cost().peak_bytes
    found = sg.autoshard(program, grid, 0.5, memory_limit=whole // 2)
    assert found.cost().peak_bytes <= whole // 2
    with pytest.raises(sg.ShardingError, match="memory_limit is 100 bytes per process; the least of .* of mlp needs"):
        sg.autoshard(program, grid, 0.05, memory_limit=100)


@pytest.mark.parametrize("options", [{"seconds": -1}, {"seconds": "5"}, {"memory_limit": -5}, {"memory_limit": 1.5}])
def test_wrong_options_are_refused(options):
    with pytest.raises(sg.ShardingError, match=f"{next(iter(options))} is "):
        sg.autoshard(sg.trace(mlp, *SPECS), sg.Grid((2,)), **options)
