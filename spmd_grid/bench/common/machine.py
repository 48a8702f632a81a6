"""The machine that a benchmark runs on: processor, cores, versions, memory."""

from __future__ import annotations

import os
import platform
import socket
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from spmd_grid.bench.common.timing import Ranks
from spmd_grid.formatting import count_text

__all__ = ["crowding", "free_bytes", "machine", "usable_cores"]


def machine() -> dict[str, Any]:
    """Processor, number of cores, and versions of Python and the packages that matter.  Local."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        **{name: version(name) for name in ("numpy", "numba", "mpi4py")},
    }


def free_bytes() -> int:
    """Memory that new arrays can take; a very large number where the system does not say.  Local."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")), 1 << 62)


def usable_cores() -> set[int]:
    """The cores that this process may run on.  Local."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def crowding(comm: Ranks) -> str:
    """Description of a node whose ranks outnumber the cores they may use; empty if there is none.  Collective."""
    by_node: dict[str, list[set[int]]] = {}
    for node, usable in comm.allgather((socket.gethostname(), usable_cores())):
        by_node.setdefault(node, []).append(usable)
    for node, of_ranks in by_node.items():
        n = len(set().union(*of_ranks))
        if len(of_ranks) > n:
            return f"{len(of_ranks)} ranks on the {count_text(n, 'core')} of {node}"
    return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine())
