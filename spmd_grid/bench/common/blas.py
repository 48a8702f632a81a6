"""The threads of numpy's BLAS: no more of all ranks together than the cores that they share.

In each process OpenBLAS starts a thread for every core of the machine.  These threads wait for one another, while ranks
that wait for others use their cores: a product of 0.1 ms then takes 40 ms.
"""

from __future__ import annotations

import ctypes
import socket
from contextlib import suppress
from pathlib import Path

import numpy as np

from spmd_grid.bench.common.machine import usable_cores
from spmd_grid.bench.common.timing import Ranks

__all__ = ["share_cores_of_blas"]

_NAMES = "scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_", "openblas_set_num_threads"


def share_cores_of_blas(comm: Ranks) -> int:
    """Give BLAS an equal part of the node's cores; returns its threads, 0 where they cannot be set.  Collective."""
    found = comm.allgather((socket.gethostname(), usable_cores()))
    here = [usable for node, usable in found if node == socket.gethostname()]
    n = max(1, len(set().union(*here)) // len(here))
    np.ones((2, 2)) @ np.ones((2, 2))  # loads the library
    with suppress(OSError):
        lines = Path("/proc/self/maps").read_text().splitlines()
        for path in sorted({line.split()[-1] for line in lines if "openblas" in line}):
            library = ctypes.CDLL(path)
            for name in _NAMES:
                if hasattr(library, name):
                    getattr(library, name)(n)
                    return n
    return 0
