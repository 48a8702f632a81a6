"""What an MPI library would leave behind if the job were killed now.

MPICH's processes of a node share a file in /dev/shm, whose name it removes when MPI is finalized: a job that is
aborted or killed leaves it, some MiB each time, in a file system that containers keep small.  Once every process of
the node has mapped the file nobody needs the name, and without one the system takes the file back with its last
process.  (Open MPI's launcher clears up after its processes; UCX and MPICH's windows remove names at once.)
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["unlink_mapped"]

_FOLDER, _PREFIX = "/dev/shm", "mpich_shm_"


def unlink_mapped(maps: str | None = None) -> list[str]:
    """Removes the names of MPICH's files that this process has mapped and owns; those removed.

    Local; one process of a node calls it, when all of the node have come out of ``MPI_Init``.  ``maps``: the text of
    /proc/self/maps.  Where anything is in the way, the name stays.
    """
    removed = []
    with suppress(OSError):
        text = Path("/proc/self/maps").read_text() if maps is None else maps
        for path in sorted({line.split(maxsplit=5)[5] for line in text.splitlines() if f"{_FOLDER}/{_PREFIX}" in line}):
            if _is_mine(path):
                os.unlink(path)
                removed.append(path)
    return removed


def _is_mine(path: str) -> bool:
    """Whether it is still there, a plain file directly in the folder, and this user's."""
    folder, name = os.path.split(path)
    with suppress(OSError):
        return folder == _FOLDER and name.startswith(_PREFIX) and os.lstat(path).st_uid == os.geteuid()
    return False
