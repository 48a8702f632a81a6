"""mpi4py for the hand-written contenders, loaded only when a benchmark asks for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from spmd_grid.transport.process_numbers import spare_numbers

if TYPE_CHECKING:
    from mpi4py.MPI import Datatype as Datatype
    from mpi4py.MPI import Intracomm as Intracomm

__all__ = ["library", "mpi", "once_and_persistent", "wait_asleep", "world"]

_NAP = 5e-3  # seconds


def mpi(initialize: bool = True) -> ModuleType:
    """The module ``MPI`` of mpi4py.  ``initialize``: whether its first import in this process initialises MPI."""
    import mpi4py

    if initialize:
        spare_numbers(os.environ)
    mpi4py.rc.initialize = initialize
    from mpi4py import MPI

    return MPI


def world() -> Intracomm:
    """mpi4py's communicator over all processes."""
    return mpi().COMM_WORLD


def library() -> str:
    """Name and version of the MPI library."""
    return " ".join(mpi().Get_library_version().split(",")[0].splitlines()[0].split())


def once_and_persistent(
    stack: ExitStack, comm: Intracomm, collective: str, *arguments: Any
) -> dict[str, Callable[[], object]]:
    """The collective with these arguments, and its persistent form if the library has it (MPI 4), by name.

    Collective.  ``stack`` frees the request.
    """
    variants: dict[str, Callable[[], object]] = {collective: partial(getattr(comm, collective), *arguments)}
    try:
        request = getattr(comm, f"{collective}_init")(*arguments)
    except NotImplementedError:  # MPI before 4.0
        return variants
    stack.callback(request.Free)
    start, wait = request.Start, request.Wait

    def persistent() -> None:
        start()
        wait()

    return {**variants, f"{collective}_init": persistent}


def wait_asleep(comm: Intracomm, nap: float = _NAP) -> None:
    """Wait for all ranks without keeping a processor busy, and go on within ``nap`` seconds.  Collective."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(nap)
