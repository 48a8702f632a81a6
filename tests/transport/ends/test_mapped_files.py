"""Files of MPI that processes map: which are unlinked, and that MPI works without their names."""

from pathlib import Path

import pytest
from support.jobs import needs_mpich, of_mpi, run_job
from support.mapped_files import KEEP_MAPS, shared_files

STILL_WORKS = """
import sys
from mpi4py import MPI
import numpy as np
import spmd_grid as sg
comm = MPI.COMM_WORLD
grid = sg.init_grid((-1,))
KEEP_MAPS
for turn in range(2):
    other = comm.Dup()
    half = comm.Split(comm.rank % 2, comm.rank)
    assert sg.all_reduce(1, sg.init_grid((-1,), comm=half), [0], "sum") == half.size
    window = MPI.Win.Allocate_shared(1 << 20, 1, comm=comm)
    memory = np.frombuffer(window.Shared_query(0)[0], np.uint8)
    comm.Barrier()
    if comm.rank == 0:
        memory[:] = turn + 1
    comm.Barrier()
    assert memory.sum() == memory.size * (turn + 1)
    private = MPI.Win.Allocate(1 << 16, 1, comm=other)
    private.Fence()
    private.Put(np.full(10, comm.rank), (comm.rank + 1) % comm.size)
    private.Fence()
    private.Free()
    big = np.full(1 << 18, comm.rank, "f8")
    total = np.empty_like(big)
    other.Allreduce(big, total)
    assert total[-1] == comm.size * (comm.size - 1) / 2
    del memory
    window.Free()
    half.Free()
    other.Free()
"""


@needs_mpich("Open MPI's windows print errors of their own")
@pytest.mark.parametrize("n", [2, *(pytest.param(n, marks=pytest.mark.full) for n in (3, 6))])
def test_mpi_still_works_without_the_name_of_its_file(tmp_path, n):
    program = tmp_path / "works.py"
    program.write_text(STILL_WORKS.replace("KEEP_MAPS", KEEP_MAPS))
    job = run_job("mpiexec", n, program, python=["-W", "error", "-X", "dev"])
    assert (job.code, job.out, job.err) == (0, "", ""), job
    assert not shared_files(tmp_path)


def test_only_mapped_files_of_mpich_are_unlinked(tmp_path):
    unlink_mapped = of_mpi("liveness.leftover_files").unlink_mapped
    mine, other = Path("/dev/shm/mpich_shm_spmd_grid_test"), Path("/dev/shm/other_spmd_grid_test")
    line = "7fa4791f6000-7fa4793fc000 rw-s 00000000 00:1b 39240                      {}\n"
    gone, elsewhere = "/dev/shm/mpich_shm_1_0 (deleted)", tmp_path / "dev" / "shm" / "mpich_shm_1"
    try:
        mine.touch()
        other.touch()
        maps = "".join(line.format(path) for path in (mine, mine, other, gone, elsewhere)) + "7f00-7f01 r--p 0 0:0 0\n"
        assert unlink_mapped(maps) == [str(mine)]
        assert not mine.exists() and other.exists()
    finally:
        for path in (mine, other):
            path.unlink(missing_ok=True)
    assert unlink_mapped("") == []
