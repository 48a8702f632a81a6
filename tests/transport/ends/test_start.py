"""A process that ends before MPI has started on it: the others say that they wait, and end where a limit is set."""

from pathlib import Path

import pytest
from support.jobs import needs_mpich, needs_mpiexec, run_job
from support.patience import at_growing_scales

import spmd_grid

START = Path(spmd_grid.__file__).parent / "transport" / "mpi" / "start.py"

PROGRAM = f"""
import importlib.util, os, sys
if os.environ["PMI_RANK"] == "1":
    sys.exit(int(sys.argv[1]))
# Not as a part of the package, whose import starts MPI.
spec = importlib.util.spec_from_file_location("start", {str(START)!r})
start = importlib.util.module_from_spec(spec)
spec.loader.exec_module(start)
start._NOTICE_SECONDS, start._LEAST_LIMIT = map(float, sys.argv[2:])
start.start_mpi()
"""


@needs_mpich("Open MPI's launcher ends the job by itself")
@pytest.mark.parametrize("code", [0, 1])
@at_growing_scales(1, 4, 12)
def test_the_others_say_that_they_wait(tmp_path, code, scale):
    program = tmp_path / "early.py"
    program.write_text(PROGRAM)
    notice, limit = 0.5 * scale, 3 * scale
    words = str(code), str(notice), str(limit)
    job = run_job("mpiexec", 3, program, *words, environment={"SPMD_GRID_TIMEOUT": "1"})
    # The end of the first ends the job.
    assert job.code != 0 and f"of 3 has waited for {limit} s in MPI_Init" in job.err, job
    for rank in 0, 2:
        waits = f"rank {rank} of 3 has waited for {notice:g} s in MPI_Init for other processes of the job; one"
        assert waits in job.err, job


WAYS = """
import sys
import mpi4py
if sys.argv[1] == "finalized by the program":
    mpi4py.rc.finalize = False
import spmd_grid as sg
grid = sg.init_grid((-1,))
from mpi4py import MPI
assert MPI.COMM_WORLD.Get_errhandler() == MPI.COMM_SELF.Get_errhandler() == MPI.ERRORS_RETURN
assert (mpi4py.rc.initialize, mpi4py.rc.finalize) == (True, None if sys.argv[1] == "plain" else False)
assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
assert sg.all_reduce(1, grid, [0], "sum") == grid.size
if sys.argv[1] == "finalized by the program":
    MPI.Finalize()
"""


@needs_mpiexec
@pytest.mark.parametrize("way", ["plain", "finalized by the program"])
def test_mpi_is_as_mpi4py_leaves_it(tmp_path, way):
    program = tmp_path / "way.py"
    program.write_text(WAYS)
    job = run_job("mpiexec", 2, program, way)
    assert (job.code, job.out, job.err) == (0, "", ""), job
