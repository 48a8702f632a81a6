"""The hosts on which the processes of a job run, and whether all run the same software."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from functools import cached_property

from spmd_grid.errors import TransportError
from spmd_grid.formatting import spans
from spmd_grid.transport.mpi.library import MPI
from spmd_grid.version import __version__
from spmd_grid.watch.trace.writer import machine

__all__ = ["Hosts", "meet_hosts"]


class Hosts:
    """The host ``names`` of all processes, by rank; each host has another."""

    def __init__(self, names: Sequence[str]):
        self.names = tuple(names)

    @cached_property
    def ranks(self) -> dict[str, list[int]]:
        """The ranks of each host, in the order of the first ranks."""
        found: dict[str, list[int]] = {}
        for rank, name in enumerate(self.names):
            found.setdefault(name, []).append(rank)
        return found

    def described(self, name: str) -> str:
        """The host with its ranks.

        >>> Hosts(["node0", "node0", "node1"]).described("node0")
        'node0 (ranks 0-1)'
        """
        return f"{name} ({_ranks(self.ranks[name])})"


def _distinct(hosts: Sequence[tuple[str, str]]) -> list[str]:
    """The names of hosts, given with what identifies the machine; numbered where several machines have the same.

    >>> _distinct([("localhost", "a"), ("localhost", "b"), ("localhost", "a")])
    ['localhost', 'localhost#2', 'localhost']
    """
    machines: dict[str, list[str]] = {}
    names = []
    for name, identity in hosts:
        known = machines.setdefault(name, [])
        if identity not in known:
            known.append(identity)
        number = known.index(identity) + 1
        names.append(name if number == 1 else f"{name}#{number}")
    return names


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {spans(ranks)}"


def meet_hosts(comm: MPI.Intracomm) -> Hosts:
    """The hosts of all processes.  Collective; the first message between them.

    Raises TransportError, on all alike, if versions of this package or of Python differ between processes: some could
    wait for messages that others never send.
    """
    software = f"spmd_grid {__version__}", f"Python {sys.version_info.major}.{sys.version_info.minor}"
    known = comm.allgather(((socket.gethostname(), machine()), software))
    hosts = Hosts(_distinct([host for host, _ in known]))
    by_software: dict[tuple[str, ...], list[int]] = {}
    for rank, (_, each) in enumerate(known):
        by_software.setdefault(each, []).append(rank)
    if len(by_software) > 1:
        lines = [
            f"  {', '.join(each)} on {', '.join(dict.fromkeys(hosts.names[rank] for rank in ranks))} ({_ranks(ranks)})"
            for each, ranks in by_software.items()
        ]
        raise TransportError(
            "init_grid: processes run different software; use one environment on all hosts:\n" + "\n".join(lines)
        )
    return hosts
