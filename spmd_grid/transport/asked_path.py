"""``SPMD_GRID_PATH``, the requested path of bytes: its value on any process counts for all of them.

A launcher may pass the environment only to the processes of its own host.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from spmd_grid.errors import TransportError

__all__ = ["NAME", "asked_path", "changes", "join_paths"]

NAME = "SPMD_GRID_PATH"

# How often something has changed on which the way of a call depends, other than its arguments: for compiled code.
changes = np.zeros(1, np.int64)

_path: str | None = None  # the value that this process has read, or agreed on with others


def asked_path() -> str:
    """The value of the variable, here or on a process that this one has met; "" if it is not set.  Local."""
    global _path
    if _path is None:
        _path = os.environ.get(NAME, "").strip()
    return _path


def join_paths(paths: Sequence[str]) -> None:
    """Adopts the path that some processes request, from the requests of all.  Local, with equal arguments on all.

    Raises TransportError if they request different paths.
    """
    global _path
    found: dict[str, list[int]] = {}
    for process, path in enumerate(paths):
        if path:
            found.setdefault(path, []).append(process)
    if len(found) > 1:
        said = " and ".join(f"{path!r} on rank {processes[0]}" for path, processes in found.items())
        raise TransportError(f"{NAME} is {said}; it must be the same on all processes, or set on some of them only")
    _path = next(iter(found), "")
    changes[0] += 1
