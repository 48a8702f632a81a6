"""Simulated ranks: deadlocks and mismatches are found at once, and told rank by rank."""

from contextlib import suppress
from threading import Thread
from time import sleep

import numpy as np
import pytest
from simulated_runs import MODES, elapsed, world
from support.patience import in_time

import spmd_grid as sg
from spmd_grid.errors import DeadlockError, MismatchError


@MODES
def test_deadlock_report(seed):
    def body():
        grid = world()
        if grid.rank < 2:
            sg.recv(grid, [0], [1 - grid.rank])  # this line is reported
        else:
            sg.all_reduce(1, grid, [0], "sum")

    error, seconds = elapsed(body, ranks=3, seed=seed)
    assert type(error) is DeadlockError and in_time(seconds, 1)
    line = body.__code__.co_firstlineno + 3
    head, *lines = str(error).splitlines()
    assert head == "deadlock: no simulated rank can go on"
    assert lines[0] == (
        f"  rank 0 waits in recv(grid_axes=[0], source=[1]) at test_simulated_deadlocks.py:{line} for rank 1"
    )
    assert lines[1] == (
        f"  rank 1 waits in recv(grid_axes=[0], source=[0]) at test_simulated_deadlocks.py:{line} for rank 0"
    )
    assert lines[2].startswith("  rank 2 waits in all_reduce(grid_axes=[0]")
    assert lines[2].endswith(f"at test_simulated_deadlocks.py:{line + 2} for ranks 0 and 1")
    assert not hasattr(error, "__notes__")  # no rank is to blame


@MODES
def test_deadlock_of_receives_from_anybody(seed):
    error, seconds = elapsed(lambda: sg.recv(world(), [0]), ranks=3, seed=seed)
    assert type(error) is DeadlockError and in_time(seconds, 1)
    assert "rank 1 waits in recv(grid_axes=[0], source=any)" in str(error) and "for rank" in str(error)


@MODES
def test_deadlock_of_one(seed):
    with pytest.raises(DeadlockError, match="rank 0 waits in recv.*for no rank"):
        sg.run_spmd(lambda: sg.recv(world(), [0]), ranks=1, seed=seed)
    with pytest.raises(DeadlockError, match="rank 0 waits in recv.*for rank 0"):
        sg.run_spmd(lambda: sg.recv(world(), [0], [0]), ranks=1, seed=seed)


def test_deadlock_of_many_is_short():
    error, seconds = elapsed(lambda: sg.recv(world(), [0]), ranks=200)
    assert type(error) is DeadlockError and in_time(seconds, 5)
    assert len(str(error).splitlines()) == 1 + 64 + 1 and "and 136 more ranks" in str(error)


@MODES
def test_different_operations_are_named(seed):
    def body():
        grid = world()
        if grid.rank == 0:
            sg.broadcast(np.ones(3), grid, [0], [0])
        else:
            sg.all_reduce(np.ones(3), grid, [0], "sum")

    error, seconds = elapsed(body, ranks=3, seed=seed)
    assert type(error) is MismatchError and in_time(seconds, 2)
    _, *lines = str(error).splitlines()
    assert [line.split("(grid_axes")[0] for line in lines] == [
        "  rank 0 (0,): broadcast",
        "  rank 1 (1,): all_reduce",
        "  rank 2 (2,): all_reduce",
    ]


def _with_a_second_thread(grid, at_last):
    """Rank 0 calls all_reduce in a second thread, then ``at_last(thread)`` while all ranks wait; rank 1 receives."""

    def call():
        with suppress(BaseException):  # the run ends
            sg.all_reduce(1, grid, [0], "sum")

    if grid.rank == 1:
        sg.recv(grid, [0], [0])
    else:
        beside = Thread(target=call, name="beside")
        beside.start()
        sleep(0.1)
        at_last(beside)


def test_a_rank_of_which_a_second_thread_waits_may_go_on():
    def body():
        grid = world()
        with pytest.raises(sg.CutOffError):
            _with_a_second_thread(grid, lambda beside: sg.send(1, grid, [0], [1]))
        return True

    assert sg.run_spmd(body, ranks=2) == [True, True]


def test_deadlock_of_a_second_thread():
    error, seconds = elapsed(lambda: _with_a_second_thread(world(), lambda beside: beside.join()), ranks=2)
    assert type(error) is DeadlockError and in_time(seconds, 2) and "in thread number 1" in str(error)
