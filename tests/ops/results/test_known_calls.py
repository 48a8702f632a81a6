"""Calls that are known by the objects they are made with: the same as others, and forgotten when anything changes."""

import gc

import numpy as np
import pytest
from test_quick_calls import ROUNDS, is_quick

import spmd_grid as sg
from spmd_grid.exchange.paths import chosen_path, forced_path
from spmd_grid.transport.launch import is_simulated


def learned(op):
    """The number of calls of an operation that have been learned so far."""
    known = vars(op).get("_known")
    return 0 if known is None else known._learned


def check_what_is_known():
    """Literals, and lists and tuples of the same items, are known; whatever has changed is not."""
    grid = sg.init_grid((1, -1))
    n = grid.size
    x = np.array([grid.rank, 7])
    columns, rows = [*range(n), *[7] * n], [7] * n
    for _ in range(ROUNDS):
        sg.all_reduce(x, grid, [1], "sum")
    first = learned(sg.all_reduce)
    for k in range(ROUNDS):
        axes = [1] if k % 2 else (1,)
        assert sg.all_reduce(x, grid, axes, "sum").tolist() == [n * (n - 1) // 2, 7 * n]
    if is_quick_on(grid, (1,)):
        assert 0 < first and learned(sg.all_reduce) <= first + 1
    axes = [1]
    for axis in (1, 0, 1, 0):
        axes[0] = axis  # the same list of another item
        for _ in range(ROUNDS):
            wanted = [n * (n - 1) // 2, 7 * n] if axis else [grid.rank, 7]
            assert sg.all_reduce(x, grid, axes, "sum").tolist() == wanted
    for _ in range(ROUNDS):
        found = sg.all_gather(x[None], grid, (1,), 1)
        assert sorted(found.ravel().tolist()) == sorted(columns)
        with pytest.raises(sg.AxisError, match="whole number"):
            sg.all_gather(x[None], grid, (1,), True)  # equal to 1, and no axis
        assert sg.all_gather(x[1:], grid, (1,), 0).tolist() == rows
    with pytest.raises(sg.ReductionError):
        sg.all_reduce(x, grid, (1,), "summ")
    grid.close()
    with pytest.raises(sg.GridError):
        sg.all_reduce(x, grid, [1], "sum")


def is_quick_on(grid, axes):
    return grid.shape[0] == 1 and axes == (1,) and is_quick(sg.init_grid((-1,)))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_what_is_known(spmd, n):
    spmd(n, check_what_is_known)


def check_other_ways():
    """A forced path is taken by known calls too, and left again."""
    grid = sg.init_grid((-1,))
    x = np.full(3, grid.rank + 1.0)
    total = grid.size * (grid.size + 1) / 2
    ways = [None] if is_simulated() else [None, "message", None]
    for way in ways:
        for _ in range(ROUNDS):
            if way is None:
                assert (sg.all_reduce(x, grid, [0], "sum") == total).all()
                continue
            with forced_path(way):
                assert (sg.all_reduce(x, grid, [0], "sum") == total).all()
        assert any(key[0] == "all_reduce" and (way or chosen_path()) in key for key in grid.calls)


@pytest.mark.parametrize("n", [1, 2])
def test_forced_paths(spmd, n):
    spmd(n, check_other_ways)


def check_many():
    """Calls stay right if there are more than can be known, and if new grids lie where ended ones lay."""
    grid = sg.init_grid((-1,))
    n, me = grid.size, grid.rank
    x = np.array([float(me)])
    for k in range(100):
        fill = 1000.5 + k  # another object each time
        for _ in range(1 + ROUNDS * (k % 10 == 0)):
            found = sg.shift(x, grid, (0,), 0, 1, False, fill)
            assert found.tolist() == [fill if me == 0 else me - 1]
    for k in range(20):
        grid = sg.init_grid((n, 1) if k % 2 else (1, n))
        for _ in range(ROUNDS):
            assert sg.broadcast(x, grid, (0,), [grid.grid.shape[0] - 1]).tolist() == [n - 1 if k % 2 else me]
        if k % 3:
            grid.close()
        del grid
        gc.collect()


@pytest.mark.parametrize("n", [1, 3])
def test_many_calls_and_grids(spmd, n):
    spmd(n, check_many)
