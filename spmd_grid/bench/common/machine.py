"""What a benchmark ran on."""

from __future__ import annotations

import os
import platform
import socket
import sys
from importlib.metadata import version
from pathlib import Path

__all__ = ["crowding", "free_bytes", "machine"]


def machine() -> dict:
    """Processor, cores, and the versions of what takes part.  Local."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        **{name: version(name) for name in ("numpy", "numba", "mpi4py")},
    }


def free_bytes() -> int:
    """Memory that new arrays can take; very much where the system does not say.  Local."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")), 1 << 62)


def crowding(comm) -> str:
    """Which node has more ranks than cores that they may use, in words; empty if none has.  Collective."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    by_node: dict[str, list[set[int]]] = {}
    for node, usable in comm.allgather((socket.gethostname(), cores)):
        by_node.setdefault(node, []).append(usable)
    for node, usable in by_node.items():
        n = len(set().union(*usable))
        if len(usable) > n:
            return f"{len(usable)} ranks on the {n} core{'s' * (n != 1)} of {node}"
    return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine())
