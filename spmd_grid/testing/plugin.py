"""A pytest plugin: the ``spmd`` fixture runs a test body on simulated ranks, or on MPI processes.

Put ``pytest_plugins = ["spmd_grid.testing.plugin"]`` into ``conftest.py``.  Plain ``pytest`` runs bodies on simulated
ranks; ``mpiexec -n 4 python -m pytest --with-mpi`` (the option is pytest-mpi's) runs them on the first k processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spmd_grid.testing.ranks import run_on_mpi, world_size
from spmd_grid.transport.launch import run_spmd

__all__ = ["spmd"]


@pytest.fixture
def spmd(request: pytest.FixtureRequest) -> Callable[..., list[Any]]:
    """``spmd(k, body, *args)``: the results of ``body(*args)`` by rank, on k ranks.

    The body makes its grid with ``init_grid`` and finds k processes.  It fails on every process if it fails on one.
    Under MPI a test that needs more processes than there are is skipped.  ``seed=`` is for simulated ranks only.
    """
    if not request.config.getoption("with_mpi", default=False):
        return lambda ranks, body, *args, seed=None: run_spmd(body, *args, ranks=ranks, seed=seed)

    def run(ranks: int, body: Callable[..., Any], *args: Any, seed: int | None = None) -> list[Any]:
        if ranks > world_size():
            pytest.skip(f"needs {ranks} processes, there are {world_size()}")
        return run_on_mpi(ranks, body, *args)

    return run
