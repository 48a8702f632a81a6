"""A benchmark on all MPI processes: rank 0 speaks for all, and writes the files."""

from __future__ import annotations

import json
from pathlib import Path

from spmd_grid.bench.machine import crowding, machine
from spmd_grid.bench.mpi import library, world

__all__ = ["Session"]


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
        """Ranks, processor and library, as captions say it."""
        cores, processor, library_ = (self.setting[name] for name in ("cores", "processor", "library"))
        return f"{self.comm.size} ranks, {cores} cores of {processor}, {library_}"

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
