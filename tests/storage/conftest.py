"""A folder per test that lasts until all processes are done with it.

The faults of storage, with the tests that cause them on simulated ranks, and those that do under MPI.  A test with the
``spmd`` fixture does both: with ``--with-mpi`` it runs on as many processes as it asks for.  "Jobs" are programs that a
test starts with mpiexec.

    fault                                simulated ranks                        MPI
    a rank killed (SIGKILL) at a call    test_killed_saves: ends every call     test_killed_saves, jobs
                                         of one rank, or of all
    all killed at a call                 test_killed_saves; SIGKILL of the      test_killed_saves, jobs
                                         process: test_killed_programs
      saves beside, with keep, by file   the same two                           test_killed_programs, jobs
      zarr, vtk, hdf5, npy               test_killed_programs                   test_killed_programs, jobs
    an error of each call on each rank   test_failed_calls, test_failed_files   both, spmd
      ENOSPC, EACCES, EIO in turn        the same two                           both, spmd
      writes and reads cut short         the same two                           both, spmd
      a name that is not on the disk     test_owners                            spmd
      no rename of folders               test_failed_calls, test_killed_saves   spmd
    a program ends before wait()         test_saves_never_waited_for            the same, a job
    the order of the steps, damage       test_steps_of_a_save                   spmd
      before old ones are removed
    truncated, missing, swapped files    test_damaged_files                     spmd
      flipped bits, also of zarr chunks  test_damaged_files, test_zarr          both, spmd
    manifests: newer version, a path     test_damaged_files                     spmd
      that leaves, huge or negative
      shapes, objects; .npy headers
    two savers at once                   test_several_savers, programs          test_several_savers, two jobs
      one removes what another reads     test_several_savers                    spmd
    a reader while a save commits        test_several_savers, a third program   test_several_savers: each job loads
    1 to 6 ranks into 1 to 6             test_checkpoints                       spmd, up to mpiexec's processes
    arrays beyond the staging limit      test_checkpoints, test_npy, test_zarr, all spmd
                                         test_vtk, test_staging_memory
      by the peak of memory              test_staging_memory, a program         -
    empty arrays, no dimensions          test_checkpoints, test_npy, test_zarr, all spmd
                                         test_hdf5
    owners that live or have ended       test_owners                            what killed jobs left is removed

By default some calls, pairs and kinds are tried.  With ``--full`` all are: every call (of jobs, every call of a plain
save, and one in nine of the other kinds), and all 36 pairs of 1 to 6 ranks.
"""

import pytest
from support.own_folder import tmp_path

from spmd_grid.exchange.paths import forced_path

__all__ = ["tmp_path"]


@pytest.fixture(params=["auto", "message"])
def each_path(request):
    """Cells that are loaded are written to all cores in shared memory, or sent in messages."""
    with forced_path(request.param):
        yield request.param
