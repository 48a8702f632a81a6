"""The first grid on a communicator is made to the end, whatever a signal's handler raises meanwhile."""

from pathlib import Path

from support.jobs import needs_mpiexec, run_job


@needs_mpiexec
def test_an_interrupt_while_the_first_grid_is_made():
    job = run_job("mpiexec", 2, Path(__file__).with_name("first_grid_job.py"))
    assert (job.code, job.out, job.err) == (0, "True\n", ""), job
