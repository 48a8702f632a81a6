"""More elements than 32-bit integers can count; takes minutes and gigabytes."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from support.jobs import clean_environment, mpi_command, needs_mpiexec
from support.patience import run_in_time

import spmd_grid as sg

N = 2**31 + 12_345
NEEDED = 16 << 30
CHECKED = [0, 1, 2**30 - 1, 2**30, 2**31 - 1, 2**31, 2**31 + 1, N - 1]


def body():
    """Each array is 2 GiB: the gathered one 2 to 4, on each rank."""
    grid = sg.init_grid((2,))
    x = np.zeros(N, np.int8) if grid.rank == 0 else None
    if x is not None:
        x[CHECKED] = np.arange(1, len(CHECKED) + 1)
    whole = sg.broadcast(x, grid, [0], [0])
    assert whole.shape == (N,)
    assert whole[CHECKED].tolist() == list(range(1, len(CHECKED) + 1))
    assert int(np.count_nonzero(whole)) == len(CHECKED)
    del x, whole
    half = np.full(N // 2 + grid.rank, grid.rank + 1, np.int8)
    whole = sg.all_gather(half, grid, [0], 0)
    assert whole.shape == (N // 2 * 2 + 1,)
    assert whole[: N // 2].min() == whole[: N // 2].max() == 1
    assert whole[N // 2 :].min() == whole[N // 2 :].max() == 2
    return whole.nbytes


def free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return 0


needs_memory = pytest.mark.skipif(
    not Path("/proc/meminfo").exists() or free_bytes() < NEEDED, reason=f"needs {NEEDED >> 30} GiB of free memory"
)


@pytest.mark.full
@needs_memory
@pytest.mark.parametrize("path", ["direct", "message"])
def test_simulated(path):
    with sg.forced_path(path):
        assert sg.run_spmd(body, ranks=2) == [N // 2 * 2 + 1] * 2


@pytest.mark.full
@needs_memory
@needs_mpiexec
@pytest.mark.parametrize("path", ["auto", "message"])
def test_mpi(path):
    words, root = mpi_command()
    done = run_in_time(
        [*words, "-n", "2", sys.executable, __file__],
        env=clean_environment(**root, SPMD_GRID_PATH=path, PYTHONPATH=os.pathsep.join(sys.path)),
        cwd=Path(__file__).parents[2],
        limit=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("moved") == 2


if __name__ == "__main__":
    print("moved", body(), flush=True)
