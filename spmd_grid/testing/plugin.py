"""A pytest plugin: the ``spmd`` fixture runs a test body on simulated ranks, or on MPI's processes.

Put ``pytest_plugins = ["spmd_grid.testing.plugin"]`` into ``conftest.py``.  Plain ``pytest`` runs bodies on simulated
ranks; ``mpiexec -n 4 python -m pytest --with-mpi`` (the option is pytest-mpi's) runs them on the first k processes.
"""

from __future__ import annotations

import pytest

from spmd_grid.testing.ranks import run_on_mpi, world_size
from spmd_grid.transport.launch import run_spmd

__all__ = ["spmd"]


@pytest.fixture
def spmd(request):
    """``spmd(k, body, *args)``: the results of ``body(*args)`` by rank, on k ranks.

    The body makes its grid with ``init_grid`` and finds k processes.  It fails on every process if it fails on one.
    Under MPI a test that wants more processes than there are is skipped.  ``seed=`` is for simulated ranks only.
    """
    if not request.config.getoption("with_mpi", default=False):
        return lambda ranks, body, *args, seed=None: run_spmd(body, *args, ranks=ranks, seed=seed)

    def run(ranks, body, *args, seed=None):
        if ranks > world_size():
            pytest.skip(f"needs {ranks} processes, there are {world_size()}")
        return run_on_mpi(ranks, body, *args)

    return run
