"""Simulated ranks: how a run ends when a rank fails, exits, or ends early."""

import os
import signal
import sys
import threading
import time
import traceback

import numpy as np
import pytest
from simulated_runs import MODES, computes, elapsed, world
from support.patience import at_growing_scales, in_time, until

import spmd_grid as sg
from spmd_grid.errors import RankEndedError

OTHERS = {
    "all_reduce": lambda grid: sg.all_reduce(1, grid, [0], "sum"),
    "recv": lambda grid: sg.recv(grid, [0]),
    "recv from the failing rank": lambda grid: sg.recv(grid, [0], [1]),
    "computes": lambda grid: computes(),
    "sleeps": lambda grid: [time.sleep(0.01) for _ in range(10_000)],
    "is through": lambda grid: None,
}


@MODES
@pytest.mark.parametrize("others", OTHERS)
def test_an_exception_ends_the_others(others, seed):
    if seed is not None and others in ("computes", "sleeps"):
        seed = 1  # under which the failing rank comes first: with a seed nobody runs beside one that computes

    def body():
        grid = world()
        if grid.rank == 1:
            if seed is None:
                time.sleep(0.05)
            raise KeyError("on purpose")
        if seed is not None and others in ("computes", "sleeps"):
            sg.recv(grid, [0], [1])
        OTHERS[others](grid)

    before = {*threading.enumerate()}  # another test may have left a rank behind
    error, seconds = elapsed(body, ranks=3, seed=seed)
    assert type(error) is KeyError
    assert error.__notes__ == ["raised on simulated rank 1 (1,) of 3"]
    assert "in body" in "".join(traceback.format_exception(error))
    assert in_time(seconds, 3)
    assert until(lambda: not [t for t in {*threading.enumerate()} - before if t.name.startswith("rank ")], 1)


def test_a_rank_stuck_in_a_long_sleep_is_left_behind():
    def body():
        if world().rank:
            time.sleep(4)
        raise KeyError

    error, seconds = elapsed(body, ranks=2)
    assert type(error) is KeyError and in_time(seconds, 3)


@at_growing_scales(1, 5, 25)
def test_the_first_failure_counts(scale):
    def body():
        rank = world().rank
        time.sleep(0.1 * scale * rank)
        raise ValueError(rank)

    error, _ = elapsed(body, ranks=3)
    assert error.args == (0,)


@MODES
def test_exit_with_a_code_ends_the_others(seed):
    def body():
        grid = world()
        if grid.rank == 1:
            sys.exit(3)
        sg.all_reduce(1, grid, [0], "sum")

    error, seconds = elapsed(body, ranks=4, seed=seed)
    assert type(error) is RankEndedError and (error.rank, error.code) == (1, 3) and in_time(seconds, 2)
    assert "rank 1 of 4 called sys.exit(3)" in str(error)


def test_exit_with_a_message():
    error, _ = elapsed(lambda: sys.exit("no input file"), ranks=1)
    assert (error.rank, error.code) == (0, 1) and "sys.exit('no input file')" in str(error)


@MODES
@pytest.mark.parametrize(
    ("leave", "how"),
    [
        (lambda: None, "returned from the program"),
        (lambda: sys.exit(0), r"called sys.exit\(0\)"),
        (sys.exit, r"called sys.exit\(\)"),
    ],
)
def test_an_early_end_while_others_wait(leave, how, seed):
    def body():
        grid = world()
        if grid.rank == 2:
            return leave()
        if grid.rank == 0:
            return sg.recv(grid, [0], [2])
        return sg.recv(grid, [0], [0])  # waits for the one who waits in vain

    with pytest.raises(RankEndedError, match=f"rank 2 of 3 {how} while rank 0 waits for it") as caught:
        sg.run_spmd(body, ranks=3, seed=seed)
    assert (caught.value.rank, caught.value.code) == (2, 1)


@MODES
def test_ends_that_are_fine(seed):
    assert sg.run_spmd(lambda: None, ranks=3, seed=seed) == [None] * 3
    assert sg.run_spmd(lambda: sys.exit(0), ranks=3, seed=seed) == [None] * 3

    def body():  # each message is there before its sender ends
        grid = world()
        if grid.rank < 2:
            sg.send(np.arange(3), grid, [0], [2])
            return None
        return sorted(sg.recv(grid, [0], [source]).sum() + sg.recv(grid, [0], [0]).size for source in [1])

    assert sg.run_spmd(body, ranks=3, seed=seed)[2] == [6]


def test_interrupt_in_the_main_thread():
    def body():
        if world().rank == 0:
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)
        computes()

    error, seconds = elapsed(body, ranks=2)
    assert type(error) is KeyboardInterrupt and in_time(seconds, 4)
