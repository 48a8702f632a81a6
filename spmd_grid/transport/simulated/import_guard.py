"""Imports by simulated ranks: one rank at a time, and mpi4py by none."""

from __future__ import annotations

import builtins
import importlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from spmd_grid.errors import SimulationError

__all__ = ["guard_imports"]

_bootstrap: Any = importlib._bootstrap

# How long a rank waits while another one imports modules; each single module also has a lock of Python's own.
_PATIENCE_SECONDS = 20.0

_lock = threading.Lock()
_n_active = 0
_real_import: Callable[..., Any] = builtins.__import__
_real_find: Callable[..., Any] = _bootstrap._find_and_load


@contextmanager
def guard_imports(lock_of_rank: Callable[[], threading.RLock | None]) -> Iterator[None]:
    """Within the ``with``, ranks import modules one after the other, and ``import mpi4py`` raises in them.

    ``lock_of_rank()`` is the lock under which the calling thread imports; None if it is no simulated rank.

    When two threads load modules that import each other, Python avoids the deadlock by returning a module that is only
    partly initialised.  That would happen if several ranks imported numba at once.
    """
    global _n_active, _real_import, _real_find

    def guarded_import(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if lock_of_rank() is not None:
            _refuse_mpi4py(name)
            if level == 0 and "." in name:
                # Python returns a.b as soon as a.b is complete, even while another rank is still loading a.  Importing
                # a first waits until that is complete too.
                _real_import(name.partition(".")[0])
        return _real_import(name, globals, locals, fromlist, level)

    def guarded_find(name: str, import_: Callable[..., Any]) -> ModuleType:
        lock = lock_of_rank()
        if lock is None:
            return _real_find(name, import_)
        _refuse_mpi4py(name)
        # With a time limit: the rank that holds the lock may wait for one that compiles and imports.
        held = lock.acquire(timeout=_PATIENCE_SECONDS)
        try:
            return _real_find(name, import_)
        finally:
            if held:
                lock.release()

    # All imports (importlib.import_module too) call _find_and_load for a module that is not loaded yet.
    with _lock:
        if _n_active == 0:
            _real_import, _real_find = builtins.__import__, _bootstrap._find_and_load
            builtins.__import__, _bootstrap._find_and_load = guarded_import, guarded_find
        _n_active += 1
    try:
        yield
    finally:
        with _lock:
            _n_active -= 1
            if _n_active == 0:
                builtins.__import__, _bootstrap._find_and_load = _real_import, _real_find


def _refuse_mpi4py(name: str) -> None:
    if name.partition(".")[0] == "mpi4py":
        raise SimulationError(
            "this program imports mpi4py, but simulated ranks are threads of one process, which MPI takes for a"
            " single rank; communicate through spmd_grid only, or run the program with mpiexec"
        )
