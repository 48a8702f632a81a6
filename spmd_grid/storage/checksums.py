"""Checksums of blocks: 64 bits of XXH3, which is faster than memory is copied.

Y. Collet, https://xxhash.com; the wheel ``xxhash`` has no dependencies.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from spmd_grid.errors import StorageError

__all__ = ["CHECKSUM", "check_library", "checksum", "pieces_in_turn", "in_pieces", "running_checksum", "checksum_text"]

CHECKSUM = "xxh3_64"
_PIECE_BYTES = 1 << 18  # which stay in a processor's own cache between a checksum and a system call


def checksum(data: np.ndarray | bytes) -> int:
    """The checksum of a contiguous array's bytes, or of bytes.  Local."""
    if isinstance(data, np.ndarray):
        return int(_xxhash().xxh3_64_intdigest(data.reshape(-1).view(np.uint8).data if data.nbytes else b""))
    return int(_xxhash().xxh3_64_intdigest(data))


def running_checksum() -> Any:
    """A checksum that grows: ``update(data)``, and at the end ``intdigest()``.  Local."""
    return _xxhash().xxh3_64()


def in_pieces(data: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """The bytes of a contiguous array in pieces, each with its first byte.  Local."""
    raw = data.reshape(-1).view(np.uint8) if data.nbytes else np.empty(0, np.uint8)
    for start in range(0, len(raw), _PIECE_BYTES):
        yield start, raw[start : start + _PIECE_BYTES]


def pieces_in_turn(n_bytes: int) -> Iterator[tuple[int, np.ndarray]]:
    """Pieces of that many bytes, each with its first byte, in the memory of one."""
    piece = np.empty(min(n_bytes, _PIECE_BYTES), np.uint8)
    for start in range(0, n_bytes, _PIECE_BYTES):
        yield start, piece[: n_bytes - start]


def checksum_text(number: int) -> str:
    """The checksum as manifests show it: 16 hexadecimal digits."""
    return f"{number:016x}"


def check_library(op: str) -> None:
    """Refuse to go on without the library that computes checksums.  Local.  Raises StorageError."""
    try:
        _xxhash()
    except ImportError:
        raise StorageError(
            f"{op}: checksums need the package xxhash, which is not installed; 'pip install xxhash' installs it"
        ) from None


@cache
def _xxhash() -> Any:
    return import_module("xxhash")
