"""Slices of one array share halo exchanges, where no more bytes move."""

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.program.partition.steps import Move


def test_shifted_slices_share_one_halo():
    grid = sg.Grid((4,))

    def second(u):
        return u[2:] - 2 * u[1:-1] + u[:-2]

    program = sg.trace(second, sg.ArraySpec((64, 5)))
    before, after = (
        sg.partition(program, grid, sg.Sharding(grid, [[0]]), optimise=optimise) for optimise in (False, True)
    )
    assert len(before.collectives()) == 2
    (halo,) = [step for step in after.schedule.steps if isinstance(step, Move)]
    assert halo.target.sharding.halo_sizes == ((0, 2),)
    assert sum(each.bytes for each in after.collectives()) < sum(each.bytes for each in before.collectives())


def five_points(u):
    return u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]


def nine_points(u):
    return five_points(u) + u[2:, 2:] + u[:-2, :-2] + u[2:, :-2] + u[:-2, 2:]


@pytest.mark.parametrize(
    ("function", "halos", "cells"),
    [(five_points, [((1, 1), (0, 0)), ((0, 0), (1, 1))], 4 + 5), (nine_points, [((1, 1), (1, 1))], 5 + 6 + 1)],
)
def test_a_stencil_without_corners_moves_none(spmd, function, halos, cells):
    """Each process receives its faces, and corners only where they are read."""
    grid = sg.Grid((2, 2))
    cut = sg.Sharding(grid, [[0], [1]])
    before, after = (
        sg.partition(sg.trace(function, sg.ArraySpec((12, 10))), grid, cut, optimise=optimise)
        for optimise in (False, True)
    )
    moves = [step for step in after.schedule.steps if isinstance(step, Move)]
    assert [step.target.sharding.halo_sizes for step in moves] == halos
    assert sum(each.bytes for each in after.collectives()) == 8 * cells
    assert 8 * cells <= sum(each.bytes for each in before.collectives())
    u = np.arange(120.0).reshape(12, 10) ** 1.5

    def body():
        devices = sg.init_grid((2, 2))
        found = after.run(devices, sg.from_global(u, cut, devices))
        return np.allclose(found.to_global(), function(u))

    assert spmd(4, body) == [True] * 4
