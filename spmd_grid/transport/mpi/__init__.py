"""The transport over MPI; only this package imports mpi4py (and one module of the benchmarks)."""

from spmd_grid.transport.mpi.communicator import MpiCommunicator
from spmd_grid.transport.mpi.opening import is_communicator, open_world

__all__ = ["MpiCommunicator", "is_communicator", "open_world"]
