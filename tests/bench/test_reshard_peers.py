"""The hand-written reshardings are right: else they would be no peers."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spmd_grid.bench.launch import launch_command
from spmd_grid.bench.reshard_cases import cells_of
from spmd_grid.grid.box import Box

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = Path(sys.executable).with_name("mpiexec")
JOB = Path(__file__).with_name("reshard_peers_job.py")


@pytest.mark.skipif(not MPIEXEC.exists(), reason=f"no mpiexec beside {sys.executable}")
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_contender_gets_every_cell_right(ranks):
    command, more = launch_command(ranks)
    done = subprocess.run(
        [*command, sys.executable, "-W", "error", JOB],
        capture_output=True,
        text=True,
        env={**os.environ, **more, "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names = set(done.stdout.strip().split("; "))
    assert {"Alltoallw, subarray types", "numpy pack, Alltoallv", "Isend/Irecv, subarray types"} <= names


@pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5)])
def test_the_cells_of_a_box(shape):
    whole = np.arange(np.prod(shape)).reshape(shape) + 7
    box = Box((1,) * len(shape), tuple(n - 1 for n in shape))
    assert np.array_equal(cells_of(box, shape, 7), whole[box.slices()])
    assert cells_of(Box((0,) * len(shape), (0,) * len(shape)), shape).size == 0
