"""A process is in one operation at a time: a second thread that begins one is refused, on all processes; none mixes."""

from contextlib import nullcontext, suppress
from functools import cache
from pathlib import Path
from threading import Barrier

import pytest
from support.jobs import needs_mpiexec, run_job
from thread_cases import (
    CROWDS,
    check_crowd,
    check_loops,
    check_refusals,
    crowd,
    loops_of_one_plan,
    meet_in_the_gate,
    pairs,
    take_turns,
)
from ways_in import WaysIn, compiled_loop

import spmd_grid as sg

loop = cache(compiled_loop)


def on_two_ranks(case, *args):
    everybody = Barrier(2).wait
    return sg.run_spmd(lambda: case(sg.init_grid((2,)), loop(), everybody, *args), ranks=2)


def test_threads_that_take_turns_are_served():
    on_two_ranks(take_turns)


def test_an_operation_begun_while_another_is_under_way_is_refused_on_all_ranks():
    ways = sg.run_spmd(lambda: list(WaysIn(sg.init_grid((1,))).ways), ranks=1)[0]
    for first, second in pairs(ways):
        check_refusals(on_two_ranks(meet_in_the_gate, first, second), first, second)


def test_a_second_loop_of_one_plan_is_refused_on_all_ranks():
    check_loops(on_two_ranks(loops_of_one_plan))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of threads of an ended run
@pytest.mark.parametrize("names", CROWDS, ids=" and ".join)
def test_no_thread_gets_what_is_anothers(names):
    # The scheduler of simulated ranks does not know of a loop that runs in a second thread: where the first one waits,
    # it may report a deadlock, which ends the run.
    with suppress(sg.DeadlockError) if "compiled loop" in names else nullcontext():
        check_crowd(on_two_ranks(crowd, names), names)


@needs_mpiexec
@pytest.mark.parametrize(("every", "rounds"), [(3, 10), pytest.param(1, 30, marks=pytest.mark.full)])
def test_threads_of_processes(every, rounds):
    """On simulated ranks, above, all pairs run."""
    job = run_job("mpiexec", 2, Path(__file__).with_name("threads_job.py"), str(every), str(rounds))
    assert (job.code, job.out, job.err) == (0, "all told\n", ""), job
