"""Whole programs equal numpy's result: a transformer block in two layouts, and steps of models and solvers."""

from math import prod

import numpy as np
import pytest
from support.program.whole_programs import (
    BLOCK_SHAPES,
    MLP_SHAPES,
    B,
    D,
    E,
    F,
    H,
    L,
    conjugate_gradients,
    hillslope_step,
    least_squares_step,
    mlp,
    random_arrays,
    run_and_compare,
    transformer,
)

import spmd_grid as sg

ITEM = 8


def partitioned_block(grid, shardings, weights):
    """``shardings``: by name that of the value; and where there are two, that for its users, to which it is moved."""

    def annotate(name, array):
        for number, sharding in enumerate(shardings.get(name, ())):
            array = sg.constrain(array, sharding, for_users=number > 0)
        return array

    specs = [sg.ArraySpec(shape) for shape in BLOCK_SHAPES]
    given = [shardings["x"][0], *[sg.Sharding(grid, axes) for axes in weights]]
    return sg.partition(sg.trace(transformer(annotate), *specs), grid, given)


def one_dimensional(n):
    """Figure 2 (a) of "Efficiently Scaling Transformer Inference": weights cut along hidden units, and along heads."""
    grid = sg.Grid((n,))
    x = sg.Sharding(grid, [[], [], [0]])
    shardings = {"x": [x], "out": [sg.Sharding(grid, [], partial_axes=[0]), x]}
    return partitioned_block(grid, shardings, [*[[[], [0]]] * 3, [[0]], [[], [0]], [[0]]])


def two_dimensional(x, yz):
    """Figure 2 (b): weights cut along embedding by x, along hidden units and heads by yz."""
    grid = sg.Grid((x, yz))
    spread = sg.Sharding(grid, [[], [], [0, 1]])
    summed = sg.Sharding(grid, [[], [], [1]], partial_axes=[0])
    shardings = {
        "x": [spread],
        "q": [summed, sg.Sharding(grid, [[0], [], [1]])],  # attention is cut along the batch by x, along heads by yz
        "h": [summed, sg.Sharding(grid, [[], [], [1, 0]])],
        "out": [sg.Sharding(grid, [[], [], [0]], partial_axes=[1]), spread],
    }
    return partitioned_block(grid, shardings, [*[[[0], [1]]] * 3, [[1], [], [0]], [[0], [1]], [[1], [0]]])


@pytest.mark.parametrize("n", [2, 8])
def test_a_transformer_block_in_one_dimension(spmd, n):
    """Two communications each for attention and MLP, of BLE (n - 1) / n cells: the paper's 2BLE."""
    part = one_dimensional(n)
    moved = B * L * E * (n - 1) // n * ITEM
    names = ["all_gather", "reduce_scatter"] * 2
    assert part.collectives() == [(name, (0,), moved) for name in names]
    arrays = random_arrays(*BLOCK_SHAPES)
    spmd(n, lambda: run_and_compare(part, transformer(lambda name, array: array), arrays))


@pytest.mark.parametrize(("x", "yz"), [(2, 4), (1, 2), (2, 1)])
def test_a_transformer_block_in_two_dimensions(spmd, x, yz):
    """The MLP moves 2 BL (E / X (YZ - 1) / YZ + F / YZ (X - 1) / X) cells; attention two reduce_scatters more."""
    part = two_dimensional(x, yz)
    embedding = B * L * E // x * (yz - 1) // yz * ITEM
    hidden, heads = (B * L * n // yz * (x - 1) // x * ITEM for n in (F, H * D))
    wanted = [
        ("all_gather", (1,), embedding),
        *[("reduce_scatter", (0,), heads)] * 3,
        ("all_gather", (0,), heads),
        ("reduce_scatter", (1,), embedding),
        ("all_gather", (1,), embedding),
        ("reduce_scatter", (0,), hidden),
        ("all_gather", (0,), hidden),
        ("reduce_scatter", (1,), embedding),
    ]
    assert part.collectives() == [each for each in wanted if each[2]]
    arrays = random_arrays(*BLOCK_SHAPES)
    spmd(x * yz, lambda: run_and_compare(part, transformer(lambda name, array: array), arrays))


GRIDS = {2: (2,), 8: (2, 4)}


def cut_by(grid, *lists):
    return sg.Sharding(grid, [[axis for axis in axes if axis < grid.ndim] for axes in lists])


@pytest.mark.parametrize("n", GRIDS)
def test_a_step_of_least_squares(spmd, n):
    """The residual moves nothing where rows are cut; the gradient and the sum of squares are one all_reduce."""
    grid = sg.Grid(GRIDS[n])
    arrays = random_arrays((37, 6), (37,), (6,))
    rows = cut_by(grid, [0, 1])
    part = sg.partition(sg.trace(least_squares_step, *arrays), grid, [rows, rows, None])
    assert [each.name for each in part.collectives()] == ["all_reduce"]
    # What is smaller than the group is sent in pieces of a cell, to fewer devices.
    assert sum(each.bytes for each in part.collectives()) <= 2 * (6 + n - 1 + 1) * ITEM + n * ITEM
    spmd(n, lambda: run_and_compare(part, least_squares_step, arrays))


@pytest.mark.parametrize("n", GRIDS)
def test_a_step_of_the_hillslope_model(spmd, n):
    """Only cells next to the borders of blocks move."""
    grid = sg.Grid(GRIDS[n])
    arrays = random_arrays((26, 31), (26, 31))
    part = sg.partition(sg.trace(hillslope_step, *arrays), grid, cut_by(grid, [0], [1]))
    assert {each.name for each in part.collectives()} == {"exchange"}
    # Each of the few arrays moves a row and a column of a block at most, on either side.
    rows, columns = (-(-a // b) for a, b in zip((26, 31), (*grid.shape, 1)))
    assert sum(each.bytes for each in part.collectives()) <= 8 * 2 * (rows + columns) * ITEM
    spmd(n, lambda: run_and_compare(part, hillslope_step, arrays))


@pytest.mark.parametrize("n", GRIDS)
def test_a_solve_by_conjugate_gradients(spmd, n):
    grid, solve = sg.Grid(GRIDS[n]), conjugate_gradients(6)
    (f,) = arrays = random_arrays((13, 14))
    part = sg.partition(sg.trace(solve, f), grid, cut_by(grid, [0], [1]))
    reduced = [each for each in part.collectives() if each.name == "all_reduce"]
    assert len(reduced) >= 2 * 6 and all(each.bytes <= 2 * ITEM * prod(grid.shape) for each in reduced)
    spmd(n, lambda: run_and_compare(part, solve, arrays, 1e-10))
    assert np.linalg.norm(solve(f)[1]) < np.vdot(f, f)


def test_the_mlp_without_annotations_is_whole_on_every_device(spmd):
    grid, arrays = sg.Grid((2,)), random_arrays(*MLP_SHAPES)
    part = sg.partition(sg.trace(mlp, *arrays), grid)
    assert part.collectives() == []
    spmd(2, lambda: run_and_compare(part, mlp, arrays))
