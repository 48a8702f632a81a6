"""Checks of sharded arrays on a grid, and refusals that are alike on all ranks."""

import pytest

import spmd_grid as sg

ROW = [[0]]


def on_grid(spmd, n, check, shape=None, **options):
    """Runs ``check(grid)`` on a grid of n processes."""

    def body():
        return check(sg.init_grid(shape or (n,), **options))

    return spmd(n, body)


def refused(spmd, make, n=4, shape=(2, 2)):
    """The one error that all processes raise; a collective works afterwards."""

    def check(grid):
        with pytest.raises(sg.SpmdError) as caught:
            make(grid)
        assert sg.all_reduce(1, grid, range(grid.ndim), "sum") == n
        return type(caught.value).__name__, str(caught.value)

    results = on_grid(spmd, n, check, shape)
    assert set(results) == {results[0]}, results
    return results[0]
