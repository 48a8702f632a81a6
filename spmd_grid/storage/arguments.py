"""Checks of the arguments that storing and loading share; all processes raise alike."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spmd_grid.array import ShardedArray
from spmd_grid.array.agreement import check_sharding
from spmd_grid.errors import DTypeError, StorageError
from spmd_grid.grid.box import as_ints
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding

__all__ = ["as_attributes", "as_path", "check_array", "check_bytes", "check_target"]


def as_path(op: str, path: object) -> Path:
    """The absolute path.  Local.  Raises StorageError for what is no path, or has no name."""
    try:
        found = Path(os.path.abspath(os.fsdecode(path)))  # type: ignore[arg-type]  # anything may be passed
    except (TypeError, ValueError) as error:
        raise StorageError(f"{op}: path is {path!r}; it must be the path of a file or folder: {error}") from None
    if not found.name or "\0" in str(found):
        raise StorageError(f"{op}: path is {path!r}; it must name a file or folder")
    return found


def as_attributes(op: str, attributes: object) -> dict[str, Any]:
    """The attributes as a dict, an empty one for None.  Local.  Raises StorageError."""
    if attributes is None:
        return {}
    if not isinstance(attributes, Mapping):
        raise StorageError(f"{op}: attributes is {attributes!r}; it must be a dict of names and values")
    return dict(attributes)


def check_bytes(op: str, name: str, value: object) -> None:
    """Refuse what is no number of bytes.  Local.  Raises StorageError."""
    if (as_ints([value]) or (0,))[0] < 1:
        raise StorageError(f"{op}: {name} is {value!r}; it must be a number of bytes, at least 1")


def check_array(op: str, what: str, a: object) -> None:
    """Refuse what is no sharded array.  Local.  Raises DTypeError."""
    if not isinstance(a, ShardedArray):
        raise DTypeError(f"{op}: {what} is {type(a).__name__}; it must be a ShardedArray")


def check_target(op: str, sharding: Sharding, grid: ProcessGrid) -> None:
    """Refuse a grid that this process cannot use, and a sharding on another grid.  Local.  Raises GridError."""
    check_sharding(op, sharding, grid)
