"""Files that an MPI library would leave behind if the job were killed.

MPICH's processes of a node share a file in /dev/shm, whose name MPICH removes when MPI is finalized: a job that is
aborted or killed leaves it, some MiB each time, in a file system that containers keep small.  Once every process of
the node has mapped the file, the name is no longer needed; without it the system frees the file with its last process.
(Open MPI's launcher cleans up after its processes; UCX and MPICH's windows remove names at once.)
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["unlink_mapped"]

_FOLDER, _PREFIX = "/dev/shm", "mpich_shm_"


def unlink_mapped(maps: str | None = None) -> list[str]:
    """Removes the names of MPICH's files that this process has mapped and owns; the names that were removed.

    Local; one process of a node calls it, when all of the node have returned from ``MPI_Init``.  ``maps``: the text of
    /proc/self/maps.  A name that cannot be removed stays.
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
    """Whether the file exists, lies directly in the folder, and belongs to this user."""
    folder, name = os.path.split(path)
    with suppress(OSError):
        return folder == _FOLDER and name.startswith(_PREFIX) and os.lstat(path).st_uid == os.geteuid()
    return False
