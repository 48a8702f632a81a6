"""A benchmark that runs on all MPI processes; rank 0 prints for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spmd_grid.bench.common.machine import crowding, machine
from spmd_grid.bench.common.mpi import library, world

__all__ = ["Session", "setting_text"]


def setting_text(setting: Mapping[str, Any]) -> str:
    """Ranks, processor and library in one line, as captions have them.

    >>> setting_text({"ranks": 2, "cores": 2, "processor": "AMD EPYC", "library": "MPICH Version: 5.0.2"})
    '2 ranks, 2 cores of AMD EPYC, MPICH Version: 5.0.2'
    """
    return "{ranks} ranks, {cores} cores of {processor}, {library}".format_map(setting)


class Session:
    """All MPI processes and the machine they run on, which is printed at once.  Collective."""

    def __init__(self) -> None:
        self.comm = comm = world()
        self.setting = {"ranks": comm.size, "library": library(), **machine()}
        self.say(setting_text(self.setting))
        crowded = crowding(comm)
        if crowded:
            self.say(f"WARNING: {crowded}; ranks wait for each other to be scheduled, and these figures mean little")

    def say(self, *lines: str) -> None:
        """Print the lines, on rank 0.  Local."""
        if self.comm.rank == 0:
            print(*lines, sep="\n", flush=True)
