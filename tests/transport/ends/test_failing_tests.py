"""A test that fails on one process: all end with it, and what they print names it."""

from support.jobs import needs_mpiexec, run_job

CONFTEST = """
pytest_plugins = ["spmd_grid.testing.plugin"]
from support.own_folder import tmp_path
"""

TESTS = """
import pytest
import spmd_grid as sg
from spmd_grid.testing.ranks import world_size
from spmd_grid.transport.launch import current_world

def total():
    grid = sg.init_grid((2,))
    return int(sg.all_reduce(grid.rank, grid, [0], "sum"))

def test_of_two(spmd, tmp_path):
    (tmp_path / "file").write_text("kept until all are done")
    assert spmd(2, total) == [1, 1]
    assert current_world().rank != 1, "here alone"

@pytest.mark.parametrize("n", [9, 2])  # the first is skipped, where the others do not meet
def test_others(spmd, tmp_path, n):
    spmd(n, total)
"""

PROGRAM = """
import sys
import pytest
sys.exit(pytest.main(["-q", "-x", "--color=no", "--with-mpi", "-p", "no:cacheprovider", "test_here.py"]))
"""


WAITING = """
import numpy as np
import spmd_grid as sg
import spmd_grid.testing.ranks

spmd_grid.testing.ranks._PATIENCE_SECONDS = 1.0

def body():
    grid = sg.init_grid((2,))
    assert grid.rank == 0, "wrong here alone"
    sg.all_reduce(np.ones(9), grid, [0], "sum")

def test_of_two(spmd):
    spmd(2, body)
"""


def run_tests(folder, tests):
    for name, text in {"conftest.py": CONFTEST, "test_here.py": tests, "program.py": PROGRAM}.items():
        (folder / name).write_text(text)
    return run_job("mpiexec", 2, folder / "program.py", python=["-m", "mpi4py"])


@needs_mpiexec
def test_a_failure_in_a_body_for_whose_process_others_wait(tmp_path):
    """The job is ended in the middle of a test, while pytest holds back what is printed."""
    job = run_tests(tmp_path, WAITING)
    assert job.code != 0, job
    assert "a test failed on process 1, and the others wait elsewhere" in job.err and "wrong here alone" in job.err, job


@needs_mpiexec
def test_a_failure_outside_of_the_body(tmp_path):
    job = run_tests(tmp_path, TESTS)
    assert job.code != 0, job
    # The first process did not fail itself.
    assert "ERROR at teardown of test_of_two" in job.out and "test_of_two failed on process 1 of 2" in job.out, job
    assert "here alone" in job.out and "test_others" not in job.out, job
