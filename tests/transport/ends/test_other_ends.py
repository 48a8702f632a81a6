"""Whole jobs that end in other ways: with MPI, by the wrong launcher, with errors of all, with nothing to print to."""

import sys
import time

import pytest
from support.jobs import Job, mpi_command, needs_mpiexec, run_job
from support.patience import in_time

from spmd_grid.errors import TransportError

FINALIZE = """
import sys
from mpi4py import rc
if sys.argv[1] == "serialized":
    rc.thread_level = "serialized"
from mpi4py import MPI
import spmd_grid as sg
grid = sg.init_grid((-1,))
half = sg.init_grid((-1,), comm=MPI.COMM_WORLD.Split(grid.rank % 2, grid.rank))
assert sg.all_reduce(1, half, [0], "sum") == half.size
if sys.argv[1] == "freed":
    comm = MPI.COMM_WORLD.Dup()
    sg.all_reduce(1, sg.init_grid((-1,), comm=comm), [0], "sum")
    comm.Free()
if sys.argv[1] == "finalized":
    MPI.Finalize()
    try:
        sg.init_grid((-1,))
    except sg.TransportError as error:
        assert "finalized" in str(error)
    else:
        raise AssertionError
if sys.argv[1] == "pending" and grid.rank == 0:
    sg.all_gather.start([1.0] * 100_000, grid, [0], 0)
elif sys.argv[1] == "pending":
    sg.all_gather.start([1.0] * 100_000, grid, [0], 0).wait()
"""


@pytest.mark.parametrize(
    "case", [pytest.param("plain", marks=pytest.mark.full), "finalized", "serialized", "freed", "pending"]
)
def test_ends_of_mpi(tmp_path, case):
    """MPI finalized by the program, without threads in MPI, with freed communicators, with a forgotten ``wait``."""
    program = tmp_path / "finalize.py"
    program.write_text(FINALIZE)
    job = run_job("mpiexec", 3, program, case)
    assert (job.code, job.out, job.err) == (0, "", ""), job


def test_without_threads_in_mpi_an_exception_still_ends_the_job(tmp_path):
    program = tmp_path / "raise.py"
    program.write_text(
        "from mpi4py import rc\nrc.thread_level = 'serialized'\nimport spmd_grid as sg\ngrid = sg.init_grid((-1,))\n"
        "if grid.rank == 1:\n    raise ValueError('on purpose')\nsg.all_reduce(1, grid, [0], 'sum')\n"
    )
    started = time.time()
    job = run_job("mpiexec", 3, program)
    assert job.code != 0 and "rank 1 (1,) of 3 failed" in job.err and "on purpose" in job.err, job
    assert in_time(job.ended - started, 20)


RUNS = """
import sys
import numpy as np
import spmd_grid as sg
grid = sg.init_grid((-1,))
plan = sg.broadcast.plan(grid, (4,), "float64", [0], [0])
for step in range(5):
    if grid.rank < 2 or step != 3 or sys.argv[1] != "one less":
        plan.run(np.full(4, 1.0 * step))
if sys.argv[1] == "cut off":
    try:
        plan.run(np.zeros(4 + (grid.rank == 0)))
    except sg.SpmdError:
        pass
"""


@pytest.mark.parametrize(("case", "said"), [("alike", []), ("cut off", []), ("one less", ["5 runs", "4 runs"])])
def test_runs_of_plans_are_compared_at_the_end_of_the_program(tmp_path, case, said):
    """Ranks 0 and 1 share a node and send to rank 2, from which they need nothing; no operation follows."""
    program = tmp_path / "runs.py"
    program.write_text(RUNS)
    job = run_job("mpiexec", 3, program, case, environment={"SPMD_GRID_RANKS_PER_NODE": "2"})
    assert (job.code == 0) == (not said) and ("of plans in the group of ranks 0-2" in job.err) == bool(said), job
    assert all(text in job.err for text in said), job


@needs_mpiexec
def test_the_wrong_launcher(tmp_path):
    """N programs of one process each, where the launcher says that they are N."""
    program = tmp_path / "one.py"
    program.write_text("import spmd_grid as sg\nsg.init_grid((-1,))\n")
    job = Job([sys.executable, program], tmp_path, OMPI_COMM_WORLD_SIZE="4", **mpi_command()[1])
    assert job.code == 1 and TransportError.__name__ in job.err, job
    assert "the launcher started 4 processes (OMPI_COMM_WORLD_SIZE) but MPI sees only this one" in job.err, job
    job = Job([sys.executable, program], tmp_path, SLURM_NTASKS="4", **mpi_command()[1])  # every batch shell has it
    assert (job.code, job.err) == (0, ""), job


ALIKE = """
import numpy as np
import spmd_grid as sg
grid = sg.init_grid((-1,))
def main():
    sg.all_reduce(np.ones(3 + grid.rank), grid, [0], "sum")
main()
"""


def test_an_error_of_all_is_told_once(tmp_path):
    program = tmp_path / "alike.py"
    program.write_text(ALIKE)
    job = run_job("mpiexec", 3, program)
    assert job.code != 0, job
    assert job.err.count("Traceback") == job.err.count("ShapeError: all_reduce") == 1, job
    assert "alike.py" in job.err and "in main" in job.err and "collective.py" not in job.err, job


SELF = """
import numpy as np
import spmd_grid as sg
grid = sg.init_grid((-1,))
for source in ([grid.rank], None)[: 2 if grid.size == 1 else 1]:
    try:
        sg.recv(grid, [0], source)
    except sg.DeadlockError as error:
        assert "recv(grid_axes=[0], source=" in str(error) and "a message of its own" in str(error), error
    else:
        raise AssertionError("received")
    sg.send(np.arange(3), grid, [0], [grid.rank])
    assert sg.recv(grid, [0], source).tolist() == [0, 1, 2]
    started = sg.recv.start(grid, [0], source)
    for refusal in (sg.DeadlockError, sg.RequestError):
        try:
            started.wait()
        except refusal:
            assert started.done
        else:
            raise AssertionError("received")
    sg.send(np.arange(4), grid, [0], [grid.rank])
    assert sg.recv(grid, [0], source).tolist() == [0, 1, 2, 3]
"""


@pytest.mark.parametrize("n", [1, 2])
def test_nobody_waits_for_a_message_of_its_own(tmp_path, n):
    program = tmp_path / "program.py"
    program.write_text(SELF)
    job = run_job("mpiexec", n, program)
    assert (job.code, job.err) == (0, ""), job


ABANDONED = """
import spmd_grid as sg
grid = sg.init_grid((2,))
if grid.rank == 1:
    started = sg.recv.start(grid, [0], [0])
"""


def test_a_receive_that_nobody_waits_for(tmp_path):
    """The program ends as if it had not been started, and MPI has nothing to complain about."""
    program = tmp_path / "program.py"
    program.write_text(ABANDONED)
    job = run_job("mpiexec", 2, program)
    assert (job.code, job.err, job.out) == (0, "", ""), job


NOWHERE_TO_PRINT = """
import os, sys
from contextlib import suppress
import spmd_grid as sg
grid = sg.init_grid((-1,))
sg.all_reduce(1, grid, [0], "sum")
if sys.argv[1] == "closed":
    sys.stdout.close()
elif sys.argv[1] == "nobody reads":
    reading, writing = os.pipe()
    os.close(reading)
    os.dup2(writing, 1)
    with suppress(OSError):  # at once, where Python keeps nothing
        print("lost")
else:
    sys.stdout = None
if grid.rank == 1:
    raise ValueError("on purpose")
sg.all_reduce(1, grid, [0], "sum")
"""


@pytest.mark.parametrize("why", ["closed", "nobody reads", "none"])
def test_where_nothing_can_be_printed_the_job_ends_all_the_same(tmp_path, why):
    program = tmp_path / "program.py"
    program.write_text(NOWHERE_TO_PRINT)
    job = run_job("mpiexec", 2, program, why)
    assert job.code != 0 and "ValueError: on purpose" in job.err and "rank 1 (1,) of 2 failed" in job.err, job
