"""A benchmark on all MPI processes: rank 0 speaks for all, and writes the files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from spmd_grid.bench.common.machine import crowding, machine
from spmd_grid.bench.common.mpi import library, world

__all__ = ["Session", "place_of"]


def place_of(setting: Mapping) -> str:
    """Ranks, processor and library, as captions say it.

    >>> place_of({"ranks": 2, "cores": 2, "processor": "AMD EPYC", "library": "MPICH Version: 5.0.2"})
    '2 ranks, 2 cores of AMD EPYC, MPICH Version: 5.0.2'
    """
    return "{ranks} ranks, {cores} cores of {processor}, {library}".format_map(setting)


class Session:
    """All MPI processes and what they run on, which is said at once.  Collective."""

    def __init__(self):
        self.comm = comm = world()
        self.setting = {"ranks": comm.size, "library": library(), **machine()}
        self.say(self.place)
        crowded = crowding(comm)
        if crowded:
            self.say(f"WARNING: {crowded}; ranks wait for each other to be scheduled, and these figures mean little")

    @property
    def place(self) -> str:
        """As `place_of` says it."""
        return place_of(self.setting)

    def say(self, *lines: str) -> None:
        """Prints the lines, on rank 0.  Local."""
        if self.comm.rank == 0:
            print(*lines, sep="\n", flush=True)

    def write_json(self, path: str, figures: dict) -> None:
        """Writes the setting and ``figures``, on rank 0, if there is a path.  Local."""
        if self.comm.rank == 0 and path:
            Path(path).write_text(json.dumps({**self.setting, **figures}, indent=1) + "\n")

    def write_markdown(self, path: str, text: str) -> None:
        """Writes ``text``, on rank 0, if there is a path.  Local."""
        if self.comm.rank == 0 and path:
            Path(path).write_text(text)
