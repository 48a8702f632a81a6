"""Keeps mpi4py away from simulated ranks: they would all be the one process that MPI sees."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from spmd_grid.errors import SimulationError

__all__ = ["refuse_mpi4py"]

_lock = threading.Lock()
_n_active = 0
_real_import = None


@contextmanager
def refuse_mpi4py(applies: Callable[[], bool]) -> Iterator[None]:
    """Within the ``with``, ``import mpi4py`` raises in threads for which ``applies()`` is true."""
    global _n_active, _real_import

    def guarded_import(name, globals=None, locals=None, fromlist=(), level=0):
        if name.partition(".")[0] == "mpi4py" and applies():
            raise SimulationError(
                "this program imports mpi4py, but simulated ranks are threads of one process, which MPI takes for a"
                " single rank; communicate through spmd_grid only, or run the program with mpiexec"
            )
        if level == 0 and "." in name and applies():
            # Python gives a.b to a rank as soon as a.b is complete, also while another rank is still loading a.
            # Asked for a first, it waits until that is complete too.
            _real_import(name.partition(".")[0])
        return _real_import(name, globals, locals, fromlist, level)

    with _lock:
        if _n_active == 0:
            _real_import = builtins.__import__
            builtins.__import__ = guarded_import
        _n_active += 1
    try:
        yield
    finally:
        with _lock:
            _n_active -= 1
            if _n_active == 0:
                builtins.__import__ = _real_import
