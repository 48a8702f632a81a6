"""Models of links in files: JSON with the format's name and version, replaced at once or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from spmd_grid.errors import ShardingError, StorageError
from spmd_grid.file_text import text_of

__all__ = ["read_record", "write_record"]

_FORMAT, _VERSION = "spmd_grid links", 8
_MOST_BYTES = 64 << 20  # of a file that is read


def write_record(path: str | PathLike[str], record: Mapping[str, Any]) -> None:
    """Write ``record`` under the format's name and version.  Local.  Raises StorageError."""
    target = Path(path)
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    text = json.dumps({"format": _FORMAT, "version": _VERSION, **record}, indent=2) + "\n"
    try:
        draft.write_text(text)
        draft.replace(target)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise StorageError(f"links: {target} cannot be written: {error.strerror or error}") from None


def read_record(path: str | PathLike[str]) -> dict[str, Any]:
    """The record in a file.  Local.  Raises StorageError where it cannot be read, ShardingError for anything else."""
    try:
        text = text_of(path, _MOST_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"links: {Path(path)} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise ShardingError(f"links: {Path(path)} holds no model of links, as LinkModel.save writes them")
    if record.get("version") != _VERSION:
        raise ShardingError(
            f"links: {Path(path)} has version {record.get('version')!r}; this package reads version {_VERSION}:"
            " remove the file and measure again"
        )
    return record
