"""mpi4py for what is written by hand, loaded when it is asked for."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

__all__ = ["library", "mpi", "once_and_persistent", "wait_asleep", "world"]

_NAP = 5e-3  # seconds


def mpi(initialize: bool = True):
    """The module ``MPI``; ``initialize`` tells whether MPI is, if nobody has loaded it before."""
    import mpi4py

    mpi4py.rc.initialize = initialize
    from mpi4py import MPI

    return MPI


def world():
    """mpi4py's communicator over all processes."""
    return mpi().COMM_WORLD


def library() -> str:
    """Name and version of the MPI library."""
    return " ".join(mpi().Get_library_version().split(",")[0].splitlines()[0].split())


def once_and_persistent(made: ExitStack, comm, collective: str, *arguments) -> dict[str, Callable[[], object]]:
    """By name: the collective with these arguments, and its persistent form where the library has it (MPI 4).

    Collective.  ``made`` frees the request.
    """
    ways = {collective: partial(getattr(comm, collective), *arguments)}
    try:
        request = getattr(comm, f"{collective}_init")(*arguments)
    except NotImplementedError:  # MPI before 4.0
        return ways
    made.callback(request.Free)
    start, wait = request.Start, request.Wait

    def persistent():
        start()
        wait()

    return {**ways, f"{collective}_init": persistent}


def wait_asleep(comm) -> None:
    """A barrier that leaves the processors to others.  Collective."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(_NAP)
