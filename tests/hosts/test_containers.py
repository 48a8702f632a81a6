"""A PID namespace for each rank, as in a container each: right data, or an error of `init_grid` on every rank."""

import functools
import subprocess
import sys

import pytest
from support.jobs import Job, mpi_command, needs_mpich, needs_mpiexec

# At the same addresses in all ranks, the other's process number finds something to read: wrong data, without an error.
APART = ["unshare", "-p", "-f", "--mount-proc"]
AT_EQUAL_ADDRESSES = ["setarch", "-R", *APART]

PROGRAM = """
import numpy as np
import spmd_grid as sg
grid = sg.init_grid((-1,))
for n in (100, 3_000, 1_000_000):
    x = np.full(n, 1.0 + grid.rank)
    assert (sg.all_reduce(x, grid, [0], "sum") == sum(1.0 + rank for rank in range(grid.size))).all()
    assert (sg.all_gather(x, grid, [0], 0) == np.repeat(1.0 + np.arange(grid.size), n)).all()
    assert (sg.shift(x, grid, [0], 0, 1, rotate=True) == 1.0 + (grid.rank - 1) % grid.size).all()
print("fine")
"""

REFUSED = """
import spmd_grid as sg
try:
    sg.init_grid((-1,))
except sg.TransportError as error:
    print(error)
"""


@functools.cache
def _refusal():
    """The reason why no process can have a namespace of its own here; empty if it can."""
    try:
        done = subprocess.run([*AT_EQUAL_ADDRESSES, "true"], capture_output=True, text=True)
    except OSError as error:
        return str(error)
    return done.stderr if done.returncode else ""


def run_apart(parts, program, text, **environment):
    """Run the program on ranks that are started with words of their own: for each part, its number and these words."""
    if _refusal():
        pytest.skip(f"no PID namespaces: {_refusal()}")
    program.write_text(text)
    words, root = mpi_command()
    for n, first in parts:
        words = [*words, "-n", str(n), *first, sys.executable, program, ":"]
    return Job(words[:-1], program.parent, **root, **environment)


@needs_mpiexec
@pytest.mark.parametrize(("words", "n"), [(AT_EQUAL_ADDRESSES, 2), (APART, 4)])
def test_data_are_right(tmp_path, words, n):
    job = run_apart([(n, words)], tmp_path / "program.py", PROGRAM)
    assert (job.code, job.out.split()) == (0, ["fine"] * n), job


@needs_mpich("another library does not copy in this way")
@pytest.mark.parametrize(
    ("words", "fact"), [(AT_EQUAL_ADDRESSES, "rank 0 got other bytes than rank 1 sent"), (APART, "failed")]
)
def test_copies_by_process_number_are_refused(tmp_path, words, fact):
    job = run_apart([(2, words)], tmp_path / "program.py", REFUSED, MPIR_CVAR_CH4_CMA_ENABLE="1")
    first, second = job.out.splitlines()
    assert first == second and job.code == 0, job
    assert "large messages of MPI do not reach ranks 0-1 whole" in first and fact in first
    assert "2 PID namespaces" in first and "MPIR_CVAR_CH4_CMA_ENABLE=0" in first


LATE = """
import time
import numpy as np
import spmd_grid as sg
grid = sg.init_grid((-1,))
assert grid.group((0,)).shares_memory
if grid.rank == 0:
    time.sleep(1)
assert (sg.all_reduce(np.ones(100_000), grid, [0], "sum") == 2).all()
print("fine")
"""


@needs_mpich("another library gives such ranks no common memory")
def test_numbers_of_another_namespace_name_no_rank_that_has_died(tmp_path):
    """Ranks that see one /proc share memory, though the number of one is another process, or none, for the other."""
    parts = [(1, []), (1, ["unshare", "-p", "-f"])]
    job = run_apart(parts, tmp_path / "program.py", LATE, MPIR_CVAR_CH4_CMA_ENABLE="0")
    assert (job.code, job.out.splitlines().count("fine")) == (0, 2), job  # UCX complains in other lines
