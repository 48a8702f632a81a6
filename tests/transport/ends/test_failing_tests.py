"""A test that fails on one process, outside of its body: all end with it, and the first one's report names it."""

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


@needs_mpiexec
def test_a_failure_on_one_process_ends_all(tmp_path):
    for name, text in {"conftest.py": CONFTEST, "test_here.py": TESTS, "program.py": PROGRAM}.items():
        (tmp_path / name).write_text(text)
    job = run_job("mpiexec", 2, tmp_path / "program.py", python=["-m", "mpi4py"])
    assert job.code != 0, job
    # The first process did not fail itself.
    assert "ERROR at teardown of test_of_two" in job.out and "test_of_two failed on process 1 of 2" in job.out, job
    assert "here alone" in job.out and "test_others" not in job.out, job
