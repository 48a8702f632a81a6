"""Properties of simulated ranks alone: determinism, runs beside runs, many ranks, compiled loops."""

import threading
import time

import numpy as np
import pytest
from simulated_runs import MODES, computes, elapsed, world
from support.patience import in_time, until

import spmd_grid as sg
from spmd_grid.errors import GridError, SimulationError
from spmd_grid.transport import launch
from spmd_grid.transport.simulated import communicator


@MODES
def test_results_by_rank(seed):
    assert sg.run_spmd(lambda a, b: (a, b, world().rank), 1, [2], ranks=5, seed=seed) == [
        (1, [2], rank) for rank in range(5)
    ]


@pytest.mark.parametrize("ranks", [0, -1, 2.0, True, "4", None])
def test_number_of_ranks(ranks):
    with pytest.raises(GridError, match="whole number of simulated ranks"):
        sg.run_spmd(lambda: None, ranks=ranks)


def test_a_meeting_is_over_once_all_that_comes_of_it_is_there(monkeypatch):
    """Ranks look without a lock whether it is, while the last one joins."""
    made, joined, over = [], communicator._join_frames, []

    class Noted(communicator.Rendezvous):
        def __init__(self, processes):
            super().__init__(processes)
            made.append(self)

    def join(values):
        over.extend(meeting.done for meeting in made if meeting.values is values)
        return joined(values)

    monkeypatch.setattr(communicator, "Rendezvous", Noted)
    monkeypatch.setattr(communicator, "_join_frames", join)
    assert sg.run_spmd(lambda: float(sg.all_reduce(np.float64(2), world())), ranks=3) == [6.0] * 3
    assert over and not any(over)


# -- determinism ---------------------------------------------------------------------------------------------


def arrivals(seed, ranks=5):
    def body():
        grid = world()
        if grid.rank:
            for turn in range(3):
                sg.send(np.array([grid.rank, turn]), grid, [0], [0])
            return None
        return [tuple(sg.recv(grid, [0]).tolist()) for _ in range(3 * (ranks - 1))]

    return sg.run_spmd(body, ranks=ranks, seed=seed)[0]


def test_the_seed_decides_the_order():
    runs = {seed: arrivals(seed) for seed in range(6)}
    assert all(arrivals(seed) == order for seed, order in runs.items())
    assert len({tuple(order) for order in runs.values()}) > 3


def test_with_a_seed_one_rank_runs_at_a_time():
    running = set()

    def body():
        grid = world()
        for _ in range(20):
            assert not running
            running.add(grid.rank)
            time.sleep(0.0005)
            running.remove(grid.rank)
            sg.shift(np.ones(2), grid, [0], 0, 1, rotate=True)

    sg.run_spmd(body, ranks=4, seed=0)


# -- runs within and beside runs -----------------------------------------------------------------------------


@MODES
def test_a_rank_may_run_ranks(seed):
    def inner(outer):
        grid = world()
        return outer, sg.all_reduce(grid.rank, grid, [0], "sum").item()

    def body():
        grid = world()
        inside = sg.run_spmd(inner, grid.rank, ranks=3, seed=seed)
        assert grid.rank == world().rank  # back in the outer world
        return inside, sg.all_reduce(1, grid, [0], "sum").item()

    assert sg.run_spmd(body, ranks=2, seed=seed) == [([(rank, 3)] * 3, 2) for rank in range(2)]


def test_a_failure_outside_ends_a_run_inside():
    def body():
        grid = world()
        if grid.rank == 0:
            sg.run_spmd(computes, ranks=2)
        time.sleep(0.1)
        raise KeyError(grid.rank)

    error, seconds = elapsed(body, ranks=2)
    assert error.args == (1,) and in_time(seconds, 4)
    assert until(lambda: not [t for t in threading.enumerate() if t.name.startswith("rank ")], 1.5)


def test_two_runs_at_once():
    results = {}

    def run(ranks):
        def body():
            grid = world()
            return [sg.all_reduce(grid.rank, grid, [0], "sum").item() for _ in range(30)][-1]

        results[ranks] = [sg.run_spmd(body, ranks=ranks) for _ in range(5)]

    threads = [threading.Thread(target=run, args=(ranks,)) for ranks in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {3: [[3] * 3] * 5, 4: [[6] * 4] * 5}


def test_threads_of_the_program():
    """A thread that a rank starts may use the rank's grid, while the rank waits; it may not make one."""

    def body():
        grid, found = world(), []

        def work():
            found.append(sg.all_reduce(grid.rank, grid, [0], "sum").item())
            try:
                world()
            except SimulationError as error:
                found.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return found

    for total, refusal in sg.run_spmd(body, ranks=3):
        assert total == 3 and "a thread that is not a simulated rank" in refusal
    assert not launch._n_simulations


# -- many ranks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("side", "seed"), [(16, None), *(pytest.param(32, seed, marks=pytest.mark.full) for seed in (None, 1))]
)
def test_many_ranks(side, seed):
    n = side * side

    def body():
        grid = sg.init_grid((side, side))
        total = sg.all_reduce(np.array([grid.rank]), grid, [0, 1], "sum")
        x = np.full((4, 5), -1)
        x[1:3, 1:4] = grid.rank
        sg.update_halo(x, grid, [[0], [1]], [1, 1, 1, 1])
        down, up = grid.neighbors_linear_indices(grid.coords, [1])
        assert x[1, 0] == down and x[1, 4] == up
        return int(total[0])

    started = time.perf_counter()
    assert sg.run_spmd(body, ranks=n, seed=seed) == [n * (n - 1) // 2] * n
    seconds = time.perf_counter() - started
    print(f"{n} ranks: {seconds:.1f} s")
    assert in_time(seconds, 30 * n / 1024)


# -- compiled loops ------------------------------------------------------------------------------------------


def test_a_compiled_loop_that_calls_back_does_not_deadlock():
    numba = pytest.importorskip("numba")
    grids = {}

    def step(rank, value):
        return float(sg.all_reduce(np.float64(value), grids[rank], [0], "max"))

    @numba.njit  # holds the GIL
    def loop(rank, n):
        value = float(rank)
        for _ in range(n):
            with numba.objmode(largest="float64"):
                largest = step(rank, value)
            value = largest + 1.0
        return value

    def body():
        grids[world().rank] = world()
        return loop(world().rank, 20)

    assert sg.run_spmd(body, ranks=3) == [22.0] * 3


def test_a_compiled_loop_that_holds_the_gil():
    numba = pytest.importorskip("numba")

    @numba.njit
    def spin(n):
        x = 1.0
        for i in range(n):
            x = x * 1.0000001 + i % 3
        return x

    spin(1)

    def body():
        grid = world()
        if grid.rank == 0:
            spin(300_000_000)
        return sg.all_reduce(1, grid, [0], "sum").item()

    assert sg.run_spmd(body, ranks=3) == [3] * 3
