"""The hand-written reshardings are right: else they would be no peers."""

from pathlib import Path

import numpy as np
import pytest
from support.jobs import run_job

from spmd_grid.bench.reshard.cases import cells_of
from spmd_grid.grid.box import Box

JOB = Path(__file__).with_name("reshard_peers_job.py")


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_contender_gets_every_cell_right(ranks):
    job = run_job("mpiexec", ranks, JOB, python=["-W", "error"])
    assert job.code == 0, job
    names = set(job.out.strip().split("; "))
    ways = {"Alltoallw, subarray types", "numpy pack, Alltoallv", "Isend/Irecv, subarray types"}
    assert ways | {"Send_init/Recv_init, subarray types"} <= names


@pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5)])
def test_the_cells_of_a_box(shape):
    whole = np.arange(np.prod(shape)).reshape(shape) + 7
    box = Box((1,) * len(shape), tuple(n - 1 for n in shape))
    assert np.array_equal(cells_of(box, shape, 7), whole[box.slices()])
    assert cells_of(Box((0,) * len(shape), (0,) * len(shape)), shape).size == 0
