"""The most simulated ranks that a process can have: a thread each."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from spmd_grid.errors import SimulationError

__all__ = ["check_ranks", "most_ranks"]

_SYSTEM = 1 << 15  # the usual limit of Linux
_MAPPINGS_PER_THREAD = 2  # its stack, and the page that guards it


def check_ranks(ranks: int) -> None:
    """Raises SimulationError if there can be fewer threads than ``ranks``.  Local."""
    most = most_ranks()
    if ranks > most:
        shown = str(ranks) if ranks < 10**30 else "more than 10**30"
        raise SimulationError(
            f"{shown} simulated ranks; each is a thread of this process, and the system allows {most} of them at most"
        )


def most_ranks() -> int:
    """The number of threads that this system lets one process start.  Local."""
    return min(_limits(), default=_SYSTEM)


def _limits() -> Iterator[int]:
    with suppress(OSError, ValueError):
        yield int(Path("/proc/sys/kernel/threads-max").read_text())
    with suppress(OSError, ValueError):
        yield int(Path("/proc/sys/vm/max_map_count").read_text()) // _MAPPINGS_PER_THREAD
    with suppress(OSError, ValueError):  # the limit of a container
        yield int(Path("/sys/fs/cgroup/pids.max").read_text())
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if processes != resource.RLIM_INFINITY and os.getuid() != 0:  # root is exempt
        yield processes
