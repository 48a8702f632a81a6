"""Map processes to layout coordinates and communicator ranks."""

from __future__ import annotations

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import MultiIndex

__all__ = ["coords_of", "coords_of_process", "member_of"]


def coords_of(layout: Layout, comm: Communicator) -> MultiIndex | None:
    """The coordinates of this process on a layout's grid; None where it has none.  Local."""
    return layout.grid.coords_of_process(comm.processes[comm.rank])


def coords_of_process(grid: Grid, process: int) -> MultiIndex:
    """The coordinates of a process that is on ``grid``.  Local."""
    coords = grid.coords_of_process(process)
    if coords is None:
        raise LookupError(f"process {process} is not on {grid!r}")
    return coords


def member_of(process: int, comm: Communicator) -> int:
    """The rank of a process in a communicator.  Local."""
    if process < comm.size and comm.processes[process] == process:
        return process
    return comm.processes.index(process)
