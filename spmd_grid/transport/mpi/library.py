"""The MPI library in use: loading it, calling it from compiled code, and ending its job."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from spmd_grid.errors import TransportError

try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:
    raise TransportError(
        f"MPI cannot be loaded ({error}); install one with 'pip install \"spmd-grid[mpich]\"' or load the cluster's,"
        " or run without it: 'python -m spmd_grid run -n 4 app.py'"
    ) from error

__all__ = ["MPI", "Library", "abort", "library"]

# Launchers may drop what a process prints in the moment before it ends the job.
_LAST_WORDS_SECONDS = 0.2


class Library(NamedTuple):
    """What compiled code has to know of the MPI library in use."""

    functions: tuple[int, int]  # addresses of MPI_Startall and MPI_Testall
    status_bytes: int

    def handles(self, requests: Sequence) -> np.ndarray:
        """The requests' handles one after the other, as MPI takes them."""
        width = MPI._sizeof(MPI.Request)
        return np.frombuffer(
            b"".join(ctypes.string_at(MPI._addressof(request), width) for request in requests) + b"\0" * width, np.uint8
        ).copy()


@cache
def library() -> Library:
    symbols = ctypes.CDLL(MPI.__file__)
    found = tuple(
        ctypes.cast(getattr(symbols, name), ctypes.c_void_p).value for name in ("MPI_Startall", "MPI_Testall")
    )
    return Library(found, MPI._sizeof(MPI.Status))


def abort(code: int = 1) -> None:
    """Ends the job on all processes, what they have printed first."""
    time.sleep(_LAST_WORDS_SECONDS)
    MPI.COMM_WORLD.Abort(code)
