"""A folder per test that pytest does not clear away: under MPI its processes would remove one another's old folders."""

import shutil
import tempfile
from pathlib import Path

import pytest

from spmd_grid.transport.launch import current_world


@pytest.fixture
def tmp_path(request):
    """A new folder of this process; under MPI it lasts until all processes are done with the test."""
    folder = Path(tempfile.mkdtemp(prefix="spmd_grid_test_"))
    yield folder
    if request.config.getoption("with_mpi", default=False):
        current_world().barrier()
    shutil.rmtree(folder, ignore_errors=True)
