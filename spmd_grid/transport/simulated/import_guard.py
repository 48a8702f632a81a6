"""Imports by simulated ranks: one rank at a time, and mpi4py by none."""

from __future__ import annotations

import builtins
import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from spmd_grid.errors import SimulationError

__all__ = ["guard_imports"]

# How long a rank lets another load modules before it goes ahead; each single module has a lock of Python's own.
_PATIENCE_SECONDS = 20.0

_lock = threading.Lock()
_n_active = 0
_real_import = _real_find = None


@contextmanager
def guard_imports(lock_of_rank: Callable[[], threading.RLock | None]) -> Iterator[None]:
    """Within the ``with``, ranks load modules one after the other, and ``import mpi4py`` raises in them.

    ``lock_of_rank()`` is the lock under which the calling thread imports; None where it is no simulated rank.

    When two threads load modules that import one another, Python breaks the circle by handing out a module that is
    half made.  Programs whose ranks all import numba at once would meet that.
    """
    global _n_active, _real_import, _real_find

    def guarded_import(name, globals=None, locals=None, fromlist=(), level=0):
        if lock_of_rank() is not None:
            _refuse_mpi4py(name)
            if level == 0 and "." in name:
                # Python gives a.b to a rank as soon as a.b is complete, also while another rank is still loading a.
                # Asked for a first, it waits until that is complete too.
                _real_import(name.partition(".")[0])
        return _real_import(name, globals, locals, fromlist, level)

    def guarded_find(name, import_):
        lock = lock_of_rank()
        if lock is None:
            return _real_find(name, import_)
        _refuse_mpi4py(name)
        # The rank that loads may compile meanwhile, and wait for one that compiles and comes here: not for ever.
        held = lock.acquire(timeout=_PATIENCE_SECONDS)
        try:
            return _real_find(name, import_)
        finally:
            if held:
                lock.release()

    # All ways to import (also importlib.import_module) come to _find_and_load for a module that is not there yet.
    with _lock:
        if _n_active == 0:
            _real_import, _real_find = builtins.__import__, importlib._bootstrap._find_and_load
            builtins.__import__, importlib._bootstrap._find_and_load = guarded_import, guarded_find
        _n_active += 1
    try:
        yield
    finally:
        with _lock:
            _n_active -= 1
            if _n_active == 0:
                builtins.__import__, importlib._bootstrap._find_and_load = _real_import, _real_find


def _refuse_mpi4py(name: str) -> None:
    if name.partition(".")[0] == "mpi4py":
        raise SimulationError(
            "this program imports mpi4py, but simulated ranks are threads of one process, which MPI takes for a"
            " single rank; communicate through spmd_grid only, or run the program with mpiexec"
        )
