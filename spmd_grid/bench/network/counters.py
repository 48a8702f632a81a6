"""The bytes that calls send over the network, read from the interfaces' counters."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["node_numbers", "sent_per_call"]

_COUNTERS = Path("/proc/self/net/dev")
_SETTLED_SECONDS = 5e-3  # in which the last acknowledgements have gone


def node_numbers(comm: Intracomm) -> list[int]:
    """The node of every rank, numbered by first rank.  Collective."""
    names = comm.allgather(socket.gethostname())
    first = list(dict.fromkeys(names))
    return [first.index(name) for name in names]


def sent_per_call(comm: Intracomm, call: Callable[[], object], calls: int) -> float | None:
    """Bytes that all nodes together send per call, headers of packets included; None where nothing counts them.

    Collective.
    """
    before = _sent()
    comm.Barrier()
    for _ in range(calls):
        call()
    comm.Barrier()
    time.sleep(_SETTLED_SECONDS)
    after = _sent()
    mine = None if before is None or after is None else after - before
    by_node = dict(zip(node_numbers(comm), comm.allgather(mine), strict=True))
    found = [each for each in by_node.values() if each is not None]
    return None if len(found) < len(by_node) else sum(found) / calls


def _sent() -> int | None:
    """Bytes sent so far by all interfaces of this node but the one to itself."""
    try:
        lines = _COUNTERS.read_text().splitlines()[2:]
        columns = [line.partition(":") for line in lines]
        return sum(int(numbers.split()[8]) for name, _, numbers in columns if name.strip() != "lo")
    except (OSError, ValueError, IndexError):
        return None
