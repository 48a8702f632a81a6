"""The drill matrix: every operation, done wrongly by one rank in every way, ends soon with the right report.

    operation x fault x transport        (the table is printed at the end; --full does all drills under MPI)

On simulated ranks the drills run in this process.  Under MPI all differences that the program survives are drilled in
one job; every other fault takes a job of its own.
"""

import json
import re
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from expected import NEVER_WAITED_FOR, applies, check_difference, strands, words_of
from support.drills import drilled
from support.drills.drill_table import LIMIT
from support.jobs import run_job
from support.patience import at_growing_scales, in_time

import spmd_grid as sg

JOB = Path(__file__).with_name("drill_job.py")
# Seconds that an operation may wait where a rank sleeps; under MPI 1.  On a busy machine ranks that nothing is wrong
# with may wait for longer.
PATIENCE = 0.4
at_growing_limits = at_growing_scales(1, 4, 12)
DIFFERENCES = [pair for pair in product(drilled.OPERATIONS, drilled.DIFFERENCES) if applies(*pair)]


def full(*case):
    return pytest.param(*case, marks=pytest.mark.full)


# -- simulated ranks -------------------------------------------------------------------------------------------------


def simulate(n, body, *args, timeout=None):
    return sg.run_spmd(lambda: body(sg.init_grid(drilled.grid_shape(n)), *args), ranks=n, timeout=timeout)


@pytest.mark.parametrize(("operation", "fault"), DIFFERENCES)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_differences_on_simulated_ranks(noted, operation, fault, n):
    seconds = []
    with noted(operation, fault, "simulated", seconds):
        began = time.perf_counter()
        if strands(operation, fault, n):
            with pytest.raises(sg.DeadlockError) as caught:
                simulate(n, drilled.differ, operation, fault)
            seconds.append(time.perf_counter() - began)
            assert words_of(operation) in str(caught.value) and "drilled.py:" in str(caught.value)
        else:
            outcomes = simulate(n, drilled.differ, operation, fault)
            seconds.append(max(took for _, _, took in outcomes))
            check_difference(operation, fault, n, [outcome[:2] for outcome in outcomes])
        assert in_time(seconds[0], LIMIT)


LOST = "rank {0} ({0}, 0) never received 1 message of rank "
SLEEPERS = ("all_reduce", "recv", "update_halo", "HaloExchange.update", "all_reduce.start")
SIMULATED_ENDS = [
    full(*case) if case[1] == "sleeps" and (case[0] not in SLEEPERS or case[2] > 2) else case
    for case in product(drilled.OPERATIONS, [end for end in drilled.ENDS if end != "is killed"], [2, 3])
]


@pytest.mark.parametrize(("operation", "fault", "n"), SIMULATED_ENDS)
@at_growing_limits
def test_ends_on_simulated_ranks(noted, operation, fault, n, scale):
    seconds, began = [], []
    is_waited_for = operation not in NEVER_WAITED_FOR
    patience = PATIENCE * scale if fault == "sleeps" else 0
    nap = 10.0 * scale if is_waited_for else 0.1
    error = None
    with noted(operation, fault, "simulated", seconds):
        try:
            note_time = lambda: began.append(time.perf_counter())  # noqa: E731
            simulate(n, drilled.end, operation, fault, note_time, nap, timeout=patience or None)
        except (ValueError, sg.SpmdError) as caught:
            error = caught
        assert began, error
        seconds.append(time.perf_counter() - began[0] - patience)
        assert in_time(seconds[0], LIMIT)
        text = str(error)
        if fault == "raises":
            assert type(error) is ValueError and text == "on purpose", text
            assert f"raised on simulated rank {n - 1} " in error.__notes__[0]
        elif fault == "exits":
            assert isinstance(error, sg.RankEndedError) and (error.rank, error.code) == (n - 1, 3), text
            assert "called sys.exit(3)" in text
        elif (operation, fault) == ("recv", "skips"):
            assert isinstance(error, sg.RankEndedError) and LOST.format(n - 1) in text and "drilled.py:" in text, text
        elif not is_waited_for:
            assert error is None
        else:
            assert isinstance(error, sg.HangError if fault == "sleeps" else sg.RankEndedError), error
            # Simulated ranks compare the grids before they use them.
            words = "init_grid" if (operation, fault) == ("first use of a group", "skips") else words_of(operation)
            assert words in text and "drilled.py:" in text, text
            assert fault != "skips" or f"rank {n - 1} of {n} returned from the program while rank" in text, text
            assert fault != "sleeps" or re.search(rf"rank {n - 1} \(.*\) computes since", text), text


# -- under MPI -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def differences_under_mpi(tmp_path_factory):
    """Outcomes of all drills after which all ranks go on, by number of ranks, operation and fault: one job each."""
    jobs = {}

    def outcomes(n):
        if n not in jobs:
            folder = tmp_path_factory.mktemp("differences")
            checks = {"SPMD_GRID_CHECK": "1"} if n in IN_CHECKING_MODE else {}
            job = run_job("mpiexec", n, JOB, str(folder), "all differences", *drilled.OPERATIONS, environment=checks)
            found = {}
            for file in (folder / f"outcomes{rank}" for rank in range(n)):
                for operation, fault, *outcome in map(
                    json.loads, file.read_text().splitlines() if file.exists() else []
                ):
                    found.setdefault((operation, fault), []).append(outcome)
            jobs[n] = job, found
        return jobs[n]

    return outcomes


def decoded(what):
    """An array from its shape and cells; messages as they are."""
    return np.reshape(what[1], what[0]) if isinstance(what, list) else what


IN_CHECKING_MODE = (2,)  # of numbers of ranks under MPI; simulated ranks always are
RECOVERABLE = [pair for pair in DIFFERENCES if drilled.is_recoverable(*pair)]


@pytest.mark.parametrize(("operation", "fault"), RECOVERABLE)
@pytest.mark.parametrize("n", [2, full(3)])
def test_differences_under_mpi(noted, differences_under_mpi, operation, fault, n):
    job, found = differences_under_mpi(n)
    outcomes = found.get((operation, fault), [])
    with noted(operation, fault, "mpiexec", [outcome[2] for outcome in outcomes]):
        assert len(outcomes) == n, job
        assert in_time(max(seconds for *_, seconds in outcomes), LIMIT)
        outcomes = [(kind, decoded(what)) for kind, what, _ in outcomes]
        check_difference(operation, fault, n, outcomes, checks=n in IN_CHECKING_MODE)
        assert (job.code, job.err) == (0, ""), job


def run_drill(folder, operation, fault, n, **environment):
    """The job, and the seconds from the fault to its end."""
    job = run_job("mpiexec", n, JOB, str(folder), fault, operation, environment=environment)
    stamp = folder / "stamp"
    assert stamp.exists(), job
    return job, job.ended - float(stamp.read_text())


STRANDED = [(operation, "another argument", n) for operation in ("send", "first use of a group") for n in (2, 3)]


@pytest.mark.parametrize(("operation", "fault", "n"), [STRANDED[0], *(full(*case) for case in STRANDED[1:])])
@at_growing_limits
def test_stranded_ranks_under_mpi(noted, tmp_path, operation, fault, n, scale):
    """These ranks wait in vain, for one another, which they find out, or for one that goes on: only the clock tells."""
    seconds = []
    with noted(operation, fault, "mpiexec", seconds):
        job, took = run_drill(tmp_path, operation, fault, n, SPMD_GRID_TIMEOUT=str(scale))
        seconds.append(took - scale)
        assert job.code != 0 and in_time(seconds[0], LIMIT), job
        in_a_circle = re.search(r"(Deadlock|Mismatch)Error: processes wait for one another", job.err) is not None
        assert in_a_circle + job.err.count(f"no progress for {scale} s") == 1 and "drilled.py:" in job.err, job
        assert "waits for rank" in job.err if in_a_circle else f"waits in {words_of(operation)}" in job.err, job


SAMPLE = [
    ("all_reduce", "raises", 2),
    ("update_halo", "exits", 2),
    ("all_reduce.start", "exits", 2),
    ("HaloExchange.update", "skips", 2),
    ("broadcast", "is killed", 3),
    ("run_plan", "sleeps", 2),
]
# Of an operation that nobody waits for there is no such thing as a rank that sleeps through it.
MPI_ENDS = SAMPLE + [
    full(operation, fault, n)
    for operation, fault, n in product(drilled.OPERATIONS, drilled.ENDS, [2, 3])
    if (operation, fault, n) not in SAMPLE and not (fault == "sleeps" and operation in NEVER_WAITED_FOR)
]


@pytest.mark.parametrize(("operation", "fault", "n"), MPI_ENDS)
@at_growing_limits
def test_ends_under_mpi(noted, tmp_path, operation, fault, n, scale):
    seconds = []
    is_waited_for = operation not in NEVER_WAITED_FOR
    with noted(operation, fault, "mpiexec", seconds):
        limit = {"SPMD_GRID_TIMEOUT": str(scale)} if fault == "sleeps" else {}
        job, took = run_drill(tmp_path, operation, fault, n, **limit)
        seconds.append(took - scale * (fault == "sleeps"))
        assert in_time(seconds[0], LIMIT), job
        if operation == "recv" and fault in ("skips", "exits"):
            assert job.code != 0 and job.err.count("spmd_grid: ") == 1, job
            assert LOST.format(n - 1) in job.err and "drilled.py:" in job.err, job
            return
        if fault == "skips" and not is_waited_for:
            assert (job.code, job.err) == (0, ""), job
            return
        assert job.code != 0, job
        if fault == "raises":
            assert job.err.count("Traceback") == 1 and "ValueError: on purpose" in job.err, job
            assert re.search(rf"spmd_grid: rank {n - 1} \(.*\) of {n} failed\n", job.err), job
        elif fault == "sleeps":
            assert job.err.count(f"no progress for {scale} s") == 1 and words_of(operation) in job.err, job
            assert re.search(rf"rank {n - 1} \(.*\) computes since", job.err), job
        elif is_waited_for and fault != "is killed":
            assert job.err.count("spmd_grid: ") == 1 and f"rank {n - 1} (" in job.err, job
            assert "sys.exit) while rank" in job.err and "drilled.py:" in job.err, job
            assert words_of(operation) in job.err, job
        elif fault == "exits":
            assert job.code == 3, job
