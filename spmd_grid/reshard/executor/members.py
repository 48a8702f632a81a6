"""Which device of a layout a process is, and where among the members of a communicator."""

from __future__ import annotations

from spmd_grid.grid.layout import Layout
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import MultiIndex

__all__ = ["coords_of", "place_of"]


def coords_of(layout: Layout, comm: Communicator) -> MultiIndex | None:
    """The coordinates of this process on a layout's grid; None where it has none.  Local."""
    device = layout.grid.device_of_process(comm.processes[comm.rank])
    return None if device is None else layout.grid.multi_index(device)


def place_of(process: int, comm: Communicator) -> int:
    """The place of a process among the members.  Local."""
    if process < comm.size and comm.processes[process] == process:
        return process
    return comm.processes.index(process)
