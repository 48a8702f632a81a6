"""Processes that make grids which differ: one error, the same on every process, whose lines say what differs."""

import re

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.transport.launch import current_world

# What the last process makes, and what all others.
DIFFERENT = {
    "order of two": (2, {"shape": (2,), "ranks": (0, 1)}, {"shape": (2,), "ranks": (1, 0)}),
    "order of three": (3, {"shape": (3,)}, {"shape": (3,), "ranks": (1, 2, 0)}),
    "order of some": (4, {"shape": (2,), "ranks": (1, 3)}, {"shape": (2,), "ranks": (3, 1)}),
    "shape": (4, {"shape": (4, 1)}, {"shape": (1, 4)}),
    "another shape": (4, {"shape": (2, 2)}, {"shape": (4, 1)}),
    "axis names": (2, {"shape": (2,), "axis_names": ("x",)}, {"shape": (2,), "axis_names": ("y",)}),
    "names and none": (3, {"shape": (-1,)}, {"shape": (3,), "axis_names": ("x",)}),
}


@pytest.fixture(params=[False, True], ids=["unchecked", "checked"])
def check(request, monkeypatch):
    """Simulated ranks compare grids either way, processes of MPI in checking mode."""
    monkeypatch.setenv("SPMD_GRID_CHECK", str(int(request.param)))
    return request.param


def fresh():
    """All processes as if nobody had met yet; None on simulated ranks, of whom each run is new."""
    world = current_world()
    return None if world.shares_objects else world.comm.Dup()


def outcome(body):
    """The errors that ``body`` raises in the same processes, all of which go on afterwards."""
    comm = fresh()
    try:
        body(comm)
        found = None
    except sg.MismatchError as error:
        found = str(error)
    whole = sg.init_grid((-1,), comm=comm)
    assert sg.all_reduce(1, whole, [0], "sum") == whole.size
    if comm is not None:
        comm.Free()
    return found


@pytest.mark.parametrize("name", DIFFERENT)
def test_grids(spmd, check, name):
    n, usual, other = DIFFERENT[name]

    def body(comm):
        world = current_world()
        grid = sg.init_grid(**(other if world.rank == n - 1 else usual), comm=comm)
        if grid.coords is not None:
            sg.all_reduce(1, grid, list(range(grid.ndim)), "sum")

    found = spmd(n, outcome, body)
    told = [text for text in found if text is not None]
    assert len(set(told)) == 1, found
    _, *lines = told[0].splitlines()
    grids = {re.search(r"Grid\(.*\)", line)[0] for line in lines}
    assert len(grids) == 2, told[0]
    assert [line.split()[:2] for line in lines] == [
        ["rank", f"{rank}{':' if 'init_grid' in told[0] else ''}"] for rank in range(n) if found[rank] is not None
    ], told[0]
    # Who is in the grid hears of it where nobody has compared before: the others have nothing to do.
    assert len(told) == (n if check or " init_grid " in told[0] else len(usual.get("ranks", range(n)))), found


def test_a_grid_that_does_not_fit_on_one_process(spmd, check, request):
    """All hear of it where grids are compared; else the others wait, as for any process that raises."""
    if request.config.getoption("with_mpi", default=False) and not check:
        pytest.skip("nothing is compared")

    def body(comm):
        sg.init_grid((3,) if current_world().rank == 0 else (2,), comm=comm)

    first, second = spmd(2, outcome, body)
    assert first == second and "rank 0: init_grid of refused: init_grid: a grid of 3 needs 3 processes" in first
    assert "rank 1: init_grid of Grid((2,)) at" in first


def test_paths(spmd, check, request):
    if not request.config.getoption("with_mpi", default=False):
        pytest.skip("simulated ranks share the path")

    def body(comm):
        grid = sg.init_grid((2,), comm=comm)
        with sg.forced_path("message" if grid.rank else "inline"):
            sg.all_reduce(1, grid, [0], "sum")

    first, second = spmd(2, outcome, body)
    lines = first.splitlines()[1:]
    assert first == second and "by the path 'inline'" in lines[0] and "by the path 'message'" in lines[1]


def test_other_orders_that_all_agree_on(spmd, check):
    """Each order is a group of its own; the grids share it."""

    def body():
        comm = fresh()
        found = []
        for _ in range(2):
            for order in [(0, 1, 2), (2, 0, 1), (1, 2, 0)]:
                grid = sg.init_grid((3,), ranks=order, comm=comm)
                found.append(sg.all_gather(np.array([grid.rank]), grid, [0], 0).tolist())
        if comm is not None:
            comm.Free()
        return found

    assert spmd(3, body) == [[[0, 1, 2], [2, 0, 1], [1, 2, 0]] * 2] * 3


@pytest.mark.parametrize("seed", [None, 0])
def test_a_grid_that_only_some_simulated_ranks_make(seed):
    """It is compared by all of them: the report says who waits for whom."""

    def body(way):
        rank = current_world().rank
        if rank == 0:
            sg.init_grid((1,), ranks=(0,))
        elif way == "computes":
            sg.init_grid((2,), ranks=(0, 1)).close()
            sg.init_grid((2,))

    with pytest.raises(sg.RankEndedError, match=r"rank 0 waits in init_grid of Grid\(\(1,\)\) at .*:\d+ for rank 1"):
        sg.run_spmd(body, "returns", ranks=2, seed=seed)
    with pytest.raises(sg.MismatchError, match="different grids"):
        sg.run_spmd(body, "computes", ranks=2, seed=seed)
