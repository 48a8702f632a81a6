"""``SPMD_GRID_PATH``, which way bytes shall go: what it says on any process, all of them take.

A launcher may hand the environment to the processes of its own host only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from spmd_grid.errors import TransportError

__all__ = ["NAME", "asked_path", "join_paths"]

NAME = "SPMD_GRID_PATH"

_path: str | None = None  # what this process has read, or agreed on with others


def asked_path() -> str:
    """What the variable says, here or on a process that this one has met; "" where it is not set.  Local."""
    global _path
    if _path is None:
        _path = os.environ.get(NAME, "").strip()
    return _path


def join_paths(everybodys: Sequence[str]) -> None:
    """Takes what some of the processes ask for.  Local, with equal arguments on all of them.

    Raises TransportError where they ask for different ways, of which none would suit all.
    """
    global _path
    found: dict[str, list[int]] = {}
    for process, path in enumerate(everybodys):
        if path:
            found.setdefault(path, []).append(process)
    if len(found) > 1:
        said = " and ".join(f"{path!r} on rank {processes[0]}" for path, processes in found.items())
        raise TransportError(f"{NAME} is {said}; it must be the same on all processes, or set on some of them only")
    _path = next(iter(found), "")
