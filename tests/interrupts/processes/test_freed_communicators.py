"""Operations that were started are dropped when their communicator is freed."""

from pathlib import Path

from support.jobs import needs_mpiexec, run_job


@needs_mpiexec
def test_waits_no_longer_advance_operations_of_a_freed_communicator():
    job = run_job("mpiexec", 2, Path(__file__).with_name("freed_job.py"))
    assert (job.code, job.out, job.err) == (0, "freed\n", ""), job
