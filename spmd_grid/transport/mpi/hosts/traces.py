"""Traces of all processes: one folder or one per host, on one clock."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from spmd_grid.errors import OutputError
from spmd_grid.transport.communicator import Process
from spmd_grid.transport.mpi.hosts.hosts import Hosts
from spmd_grid.transport.mpi.library import MPI
from spmd_grid.watch.trace.runs import trace_process
from spmd_grid.watch.trace.writer import remove_files

__all__ = ["trace_all"]

_ROUND_TRIPS = 12  # of which the shortest counts; the first ones make connections


def trace_all(comm: MPI.Intracomm, hosts: Hosts, folder: str, process: Process) -> None:
    """Makes the recorders of all processes write traces.  Collective.

    Raises OutputError on all processes if one of them cannot write.
    """
    offset = _offset(comm, hosts)
    problem = ""
    try:
        is_shared = _look_at_folder(comm, hosts, folder)
        own = range(comm.size) if is_shared else hosts.ranks[hosts.names[comm.rank]]
        if comm.rank == own[0]:
            remove_files(Path(folder), keep=own)
        trace_process(folder, process, offset)
    except OutputError as error:
        problem = f"{error} (on {hosts.names[comm.rank]})"
    problems = [text for text in comm.allgather(problem) if text]
    if problems:
        raise OutputError(problems[0])


def _look_at_folder(comm: MPI.Intracomm, hosts: Hosts, folder: str) -> bool:
    """Whether all hosts see the same folder; if not, process 0 says what to do.  Collective."""
    mark, is_made = None, False
    with suppress(OSError):  # the first file that cannot be written raises
        os.makedirs(folder, exist_ok=True)
        if comm.rank == 0:
            mark = Path(folder, f".spmd_grid-{os.urandom(8).hex()}")
            mark.touch()
            is_made = True
    name = comm.bcast(mark.name if mark is not None and is_made else None)
    if name is None:
        return True
    sees = comm.allgather(Path(folder, name).exists())
    if mark is not None:
        mark.unlink(missing_ok=True)
    others = [hosts.described(host) for host, ranks in hosts.ranks.items() if not sees[ranks[0]]]
    if others and comm.rank == 0:
        print(
            f"spmd_grid: the trace folder {folder!r} is not shared by all hosts: {', '.join(others)} write to folders"
            " of their own; copy these to one host, and read all together: python -m spmd_grid trace FOLDER FOLDER ...",
            file=sys.stderr,
            flush=True,
        )
    return not others


def _offset(comm: MPI.Intracomm, hosts: Hosts) -> float | None:
    """Seconds by which process 0's clock is ahead of this process's; None on one host, which has one clock.

    Process 0 asks the first process of each other host for its time, again and again.  The answer of the shortest round
    trip is wrong by half of its length at most (F. Cristian, "Probabilistic clock synchronization", 1989).  Collective.
    """
    if len(hosts.ranks) == 1:
        return None
    offsets = {hosts.names[0]: 0.0}
    for host, (first, *_) in list(hosts.ranks.items())[1:]:
        if comm.rank == 0:
            trips = []
            for _ in range(_ROUND_TRIPS):
                sent = time.monotonic()
                comm.send(None, first)
                theirs = comm.recv(source=first)
                received = time.monotonic()
                trips.append((received - sent, (sent + received) / 2 - theirs))
            offsets[host] = min(trips)[1]
        elif comm.rank == first:
            for _ in range(_ROUND_TRIPS):
                comm.recv(source=0)
                comm.send(time.monotonic(), 0)
    return comm.bcast(offsets)[hosts.names[comm.rank]]
