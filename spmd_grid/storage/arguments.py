"""Checks of the arguments that storing and loading share; all processes raise alike."""

from __future__ import annotations

import os
from pathlib import Path

from spmd_grid.array import ShardedArray
from spmd_grid.array.agreement import check_sharding
from spmd_grid.errors import DTypeError, StorageError
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding

__all__ = ["as_path", "check_array", "check_target"]


def as_path(op: str, path: object) -> Path:
    """The absolute path.  Local.  Raises StorageError for what is no path, or has no name."""
    try:
        found = Path(os.path.abspath(os.fsdecode(path)))  # type: ignore[arg-type]  # anything may be passed
    except (TypeError, ValueError) as error:
        raise StorageError(f"{op}: path is {path!r}; it must be the path of a file or folder: {error}") from None
    if not found.name or "\0" in str(found):
        raise StorageError(f"{op}: path is {path!r}; it must name a file or folder")
    return found


def check_array(op: str, what: str, a: object) -> None:
    """Refuse what is no sharded array.  Local.  Raises DTypeError."""
    if not isinstance(a, ShardedArray):
        raise DTypeError(f"{op}: {what} is {type(a).__name__}; it must be a ShardedArray")


def check_target(op: str, sharding: Sharding, grid: ProcessGrid) -> None:
    """Refuse a grid that this process cannot use, and a sharding on another grid.  Local.  Raises GridError."""
    check_sharding(op, sharding, grid)
