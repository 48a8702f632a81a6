"""Plain system calls of one process, to which all others are compared; and files that are no longer in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

__all__ = ["drop_from_memory", "files_in", "fsync_all", "read_raw", "write_raw"]

_PIECE = 1 << 24  # bytes of one system call


def write_raw(path: Path, array: np.ndarray) -> None:
    """Write the bytes of a contiguous array with ``os.pwrite``, then ``os.fsync``.  Local."""
    data = array.reshape(-1).view(np.uint8).data
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        at = 0
        while at < len(data):
            at += os.pwrite(file, data[at : at + _PIECE], at)
        os.fsync(file)
    finally:
        os.close(file)


def read_raw(path: Path, array: np.ndarray) -> None:
    """Fill a contiguous array with the last bytes of a file, by ``os.preadv``.  Local."""
    data = array.reshape(-1).view(np.uint8).data
    file = os.open(path, os.O_RDONLY)
    try:
        at, before = 0, max(os.fstat(file).st_size - len(data), 0)
        while at < len(data):
            n = os.preadv(file, [data[at : at + _PIECE]], before + at)
            if not n:
                raise EOFError(f"{path} ends after {at} of {len(data)} bytes")
            at += n
    finally:
        os.close(file)


def files_in(path: Path) -> Iterator[Path]:
    """The file ``path``, or all files below the folder.  Local."""
    if path.is_dir():
        for folder, _, names in os.walk(path):
            yield from (Path(folder, name) for name in names)
    elif path.exists():
        yield path


def fsync_all(path: Path) -> None:
    """Bring a file, or all files below a folder, to the disk.  Local."""
    for each in files_in(path):
        file = os.open(each, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def drop_from_memory(path: Path) -> None:
    """Let the system forget the pages of files, so that they are read from the disk.  Local."""
    for each in files_in(path):
        file = os.open(each, os.O_RDONLY)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
