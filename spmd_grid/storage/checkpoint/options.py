"""Checks of the options of a save, which all processes make alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spmd_grid.errors import DTypeError, StorageError
from spmd_grid.grid.box import as_ints
from spmd_grid.storage.arguments import as_attributes, check_bytes
from spmd_grid.storage.ranges.blocks import MOST_BLOCK_BYTES

__all__ = ["as_json", "check_options"]

_LEAST_BLOCKS = 4  # that fit into staging
_COMMITS = ("rename", "file")


def as_json(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """The attributes of a checkpoint, as JSON keeps them.  Local.  Raises DTypeError and StorageError."""
    try:
        found: Any = json.loads(json.dumps(as_attributes("save", attributes), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise DTypeError(f"save: attributes cannot be written as JSON: {error}") from None
    return dict(found)


def check_options(keep: int | None, stage_bytes: int, block_bytes: int, commit: str) -> None:
    """Refuse numbers that are none, and what does not fit together.  Local.  Raises StorageError."""
    if keep is not None and (as_ints((keep,)) or (0,))[0] < 1:
        raise StorageError(f"save: keep is {keep!r}; it must be the number of checkpoints to keep, at least 1, or None")
    for name, value in (("stage_bytes", stage_bytes), ("block_bytes", block_bytes)):
        check_bytes("save", name, value)
    if block_bytes > MOST_BLOCK_BYTES:
        raise StorageError(f"save: block_bytes is {block_bytes}; it must be at most {MOST_BLOCK_BYTES}")
    if block_bytes * _LEAST_BLOCKS > stage_bytes:
        raise StorageError(
            f"save: stage_bytes is {stage_bytes} and block_bytes {block_bytes}; staging must have space for"
            f" {_LEAST_BLOCKS} blocks"
        )
    if commit not in _COMMITS:
        raise StorageError(f"save: commit is {commit!r}; it must be one of {', '.join(_COMMITS)}")
