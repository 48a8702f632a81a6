"""A folder per test that lasts until all processes are done with it.

The faults of storage and the tests that cause them, on simulated ranks and under MPI unless said otherwise:

    a rank, or all, killed at a call     test_killed_saves, test_killed_programs (processes)
    an error of each call on each rank   test_failed_calls, test_failed_files; short writes
    damaged, missing or swapped files    test_damaged_files
    hostile manifests and headers        test_damaged_files
    two savers, and a reader meanwhile   test_killed_saves (three programs)
    owners that live or have ended       test_owners
    1 to 6 ranks into 1 to 6             test_checkpoints
    arrays beyond the staging limit      test_checkpoints, test_npy, test_zarr, test_vtk, test_staging_memory
    empty arrays, no dimensions          test_npy, test_zarr, test_hdf5
"""

from support.own_folder import tmp_path

__all__ = ["tmp_path"]
