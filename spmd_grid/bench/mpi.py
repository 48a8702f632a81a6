"""mpi4py for what is written by hand, loaded when it is asked for."""

from __future__ import annotations

__all__ = ["library", "mpi", "world"]


def mpi():
    """The module ``MPI``."""
    from mpi4py import MPI

    return MPI


def world():
    """mpi4py's communicator over all processes."""
    return mpi().COMM_WORLD


def library() -> str:
    """Name and version of the MPI library."""
    return " ".join(mpi().Get_library_version().split(",")[0].splitlines()[0].split())
