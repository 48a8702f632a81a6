"""A folder per test that pytest does not clear away: under MPI its processes would remove one another's old folders."""

import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path():
    """A new folder of this process; under MPI it lasts until all are done with the test (`testing.plugin`)."""
    folder = Path(tempfile.mkdtemp(prefix="spmd_grid_test_"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
