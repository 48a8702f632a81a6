"""The MPI library in use: loading it, calling it from compiled code, and ending its job."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.errors import TransportError
from spmd_grid.transport.mpi.start import start_mpi
from spmd_grid.transport.wire import Posting

try:
    start_mpi()
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:
    raise TransportError(
        "MPI cannot be loaded; install it with 'pip install mpich', or load the cluster's, or run without it:"
        f" 'python -m spmd_grid run -n 4 app.py' ({error})"
    ) from error

__all__ = ["MPI", "MpiLibrary", "abort", "before_abort", "library"]

# Launchers may lose what a process prints just before it ends the job.
_PRINTING_SECONDS = 0.2

_before_abort: list[Callable[[], object]] = []


class MpiLibrary(NamedTuple):
    """The properties of the MPI library in use that compiled code needs."""

    functions: tuple[int, int]  # addresses of MPI_Startall and MPI_Testall
    posts: tuple[int, int, int]  # addresses of MPI_Isend, MPI_Irecv and MPI_Iprobe
    status_bytes: int
    status_tag: int  # bytes before the tag in a status

    def handles(self, requests: Sequence[MPI.Request]) -> np.ndarray:
        """The requests' handles one after the other, as MPI takes them."""
        width = MPI._sizeof(MPI.Request)
        return np.frombuffer(
            b"".join(ctypes.string_at(MPI._addressof(request), width) for request in requests) + b"\0" * width, np.uint8
        ).copy()

    def posting(self, comm: MPI.Comm, tag: int) -> Posting:
        """Return what compiled code needs to send and receive bytes as messages of ``comm``."""
        datatype, handle = (
            int.from_bytes(ctypes.string_at(MPI._addressof(each), MPI._sizeof(each)), sys.byteorder)
            for each in (MPI.BYTE, comm)
        )
        sizes = MPI._sizeof(MPI.Request), self.status_bytes, self.status_tag
        most_tag: Any = comm.Get_attr(MPI.TAG_UB)
        return Posting(*self.posts, datatype, handle, tag, most_tag, *sizes)


@cache
def library() -> MpiLibrary:
    """The MPI library in use."""
    symbols = ctypes.CDLL(MPI.__file__)
    start, test, send, receive, probe = (
        ctypes.cast(getattr(symbols, name), ctypes.c_void_p).value or 0
        for name in ("MPI_Startall", "MPI_Testall", "MPI_Isend", "MPI_Irecv", "MPI_Iprobe")
    )
    return MpiLibrary((start, test), (send, receive, probe), MPI._sizeof(MPI.Status), _tag_in_status())


def _tag_in_status() -> int:
    """The number of bytes before the tag in MPI's statuses."""
    status, marked = MPI.Status(), 0x12345678
    status.Set_tag(marked)
    content = ctypes.string_at(MPI._addressof(status), MPI._sizeof(status))
    return content.index(marked.to_bytes(4, sys.byteorder))


def before_abort(function: Callable[[], object]) -> None:
    """Lets `abort` call ``function`` first, such as one that prints what was held back."""
    _before_abort.append(function)


def abort(code: int = 1) -> None:
    """Ends the job on all processes, after a pause for what they have printed."""
    for function in _before_abort:
        with suppress(Exception):
            function()
    time.sleep(_PRINTING_SECONDS)
    MPI.COMM_WORLD.Abort(code)
