"""The threads of numpy's OpenBLAS: no more than a process has cores of its own, once it multiplies large blocks.

OpenBLAS starts a thread for every core that a process may use, even if the other processes of the node use the same
cores; products then take a third longer.  The limit is set once and stays: idle threads of OpenBLAS keep their cores
busy for some 25 ms, so a limit for single products would leave them waiting for each other.  Nothing is changed if
OPENBLAS_NUM_THREADS or OMP_NUM_THREADS is set, nor in any other library.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from functools import cache
from math import prod
from typing import Any

import numpy as np

from spmd_grid.functions.interface import Interface
from spmd_grid.grid.process_grid import ProcessGrid

__all__ = ["keep_to_own_cores"]

_THREADED_FROM = 1 << 18  # products of cells; for fewer OpenBLAS starts no threads

# OpenBLAS as numpy's wheels bring it, and as systems do.
_NAMES = [f"{before}openblas_{{}}_num_threads{after}" for before in ("scipy_", "") for after in ("64_", "")]

Calls = tuple[Callable[[], int], Callable[[int], Any]]


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
def _limit(cores: int) -> None:
    calls = _openblas()
    if calls is not None:
        get, set_to = calls
        if get() > cores:
            set_to(cores)


def keep_to_own_cores(grid: ProcessGrid, interfaces: Iterable[Interface]) -> None:
    """Limit OpenBLAS if functions of these ``interfaces`` multiply large blocks.  Local."""
    cores = grid.process.cores
    if cores and any(
        len(each.operands) > 1
        and any(iterator.is_reduction for iterator in each.iterators)
        and prod(iterator.extent for iterator in each.iterators) > _THREADED_FROM * grid.size
        for each in interfaces
    ):
        _limit(cores)
