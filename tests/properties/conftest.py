"""The largest number of ranks of a drawn grid."""

import pytest

from spmd_grid.testing.ranks import world_size


@pytest.fixture
def most_ranks(request) -> int:
    """Under MPI the size of the world, since drawn grids must fit it; else six simulated ranks."""
    return min(6, world_size()) if request.config.getoption("with_mpi") else 6
