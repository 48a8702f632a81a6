"""Checksums of blocks: 64 bits of XXH3, which is faster than memory is copied.

Y. Collet, https://xxhash.com; the wheel ``xxhash`` has no dependencies.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from spmd_grid.errors import StorageError

__all__ = ["CHECKSUM", "check_library", "checksum", "shown"]

CHECKSUM = "xxh3_64"


def checksum(data: np.ndarray | bytes) -> int:
    """The checksum of a contiguous array's bytes, or of bytes.  Local."""
    if isinstance(data, np.ndarray):
        return int(_xxhash().xxh3_64_intdigest(data.reshape(-1).view(np.uint8).data if data.nbytes else b""))
    return int(_xxhash().xxh3_64_intdigest(data))


def shown(number: int) -> str:
    """The checksum as manifests show it: 16 hexadecimal digits."""
    return f"{number:016x}"


def check_library(op: str) -> None:
    """Refuse to go on without the library that computes checksums.  Local.  Raises StorageError."""
    try:
        _xxhash()
    except ImportError:
        raise StorageError(
            f"{op}: checksums need the package xxhash, which is not installed: pip install 'spmd-grid[storage]'"
        ) from None


@cache
def _xxhash() -> Any:
    return import_module("xxhash")
