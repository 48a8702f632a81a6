"""The threads of numpy's OpenBLAS: no more than a process has cores of its own, while it multiplies large blocks.

By itself OpenBLAS starts a thread for every core that a process may use, also where the other processes of the node use
the same cores: then products take up to half as long again.  Who sets the number of threads by OPENBLAS_NUM_THREADS or
OMP_NUM_THREADS is left alone, and so is every other library.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from spmd_grid.functions.interface import Interface
from spmd_grid.grid.process_grid import ProcessGrid

__all__ = ["own_cores"]

_THREADED_FROM = 1 << 18  # products of cells; for fewer OpenBLAS starts no threads

# OpenBLAS as numpy's wheels bring it, and as systems do.
_NAMES = [f"{before}openblas_{{}}_num_threads{after}" for before in ("scipy_", "") for after in ("64_", "")]

Calls = tuple[Callable[[], int], Callable[[int], Any]]


class _Threads:
    """A context in which OpenBLAS has at most ``most`` threads; others may be within at the same time."""

    def __init__(self, calls: Calls, most: int):
        self._get, self._set = calls
        self._most, self._before, self._inside, self._lock = most, 0, 0, Lock()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = self._get()
                if self._before > self._most:
                    self._set(self._most)
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._before > self._most:
                self._set(self._before)


@cache
def _openblas() -> Calls | None:
    """The calls of numpy's OpenBLAS that tell and set the number of threads, if it has them."""
    if "OPENBLAS_NUM_THREADS" in os.environ or "OMP_NUM_THREADS" in os.environ:
        return None
    try:
        library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]  # and what it loads
    except (AttributeError, OSError):
        return None
    for name in _NAMES:
        try:
            return getattr(library, name.format("get")), getattr(library, name.format("set"))
        except AttributeError:
            continue
    return None


@cache
def _threads(most: int) -> AbstractContextManager[None]:
    calls = _openblas()
    return nullcontext() if calls is None else _Threads(calls, most)


def own_cores(grid: ProcessGrid, interfaces: Iterable[Interface]) -> AbstractContextManager[None]:
    """The context in which a process computes functions of these ``interfaces``; an empty one if no blocks are large.

    Local.
    """
    cores = grid.process.cores
    is_large = cores and any(
        len(each.operands) > 1
        and any(iterator.is_reduction for iterator in each.iterators)
        and prod(iterator.extent for iterator in each.iterators) > _THREADED_FROM * grid.size
        for each in interfaces
    )
    return _threads(cores) if is_large else nullcontext()
