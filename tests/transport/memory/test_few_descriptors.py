"""A process that may open almost no files: the job ends soon with the reason, or goes on without shared memory."""

import pytest
from support.jobs import run_job

PROGRAM = """
import os, resource, sys
from mpi4py import MPI
import numpy as np, spmd_grid as sg
import spmd_grid.exchange.agreement.choose_meeting, spmd_grid.transport.mpi, spmd_grid.kernels
spmd_grid.kernels.course_address, sg.init_grid
free, soft = os.dup(0), sys.argv[1]
os.close(free)
if soft == "all" or MPI.COMM_WORLD.rank == 1:
    most = free + int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
grid = sg.init_grid((-1,))
assert sg.all_reduce(np.ones(100_000), grid, [0])[0] == grid.size
print("fine", flush=True)
"""


@pytest.mark.parametrize(
    ("who", "left"),
    [("all", 0), ("one", 2), *(pytest.param(*case, marks=pytest.mark.full) for case in (("all", 2), ("one", 0)))],
)
def test_few_descriptors(tmp_path, who, left):
    program = tmp_path / "few.py"
    program.write_text(PROGRAM)
    job = run_job("mpiexec", 2, program, who, str(left))
    if job.code == 0:
        assert job.out.split() == ["fine"] * 2, job
    else:
        assert "Too many open files" in job.err and job.code < 128, job
