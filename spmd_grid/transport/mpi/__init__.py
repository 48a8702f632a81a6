"""MPI as a transport; the only room that imports mpi4py."""

from spmd_grid.transport.mpi.communicator import MpiCommunicator
from spmd_grid.transport.mpi.opening import is_communicator, open_world

__all__ = ["MpiCommunicator", "is_communicator", "open_world"]
