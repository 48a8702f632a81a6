"""The system calls of storage, all in one place, so that tests can let each of them fail."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["fsync_folder", "mkdir", "rename"]


def mkdir(path: Path) -> None:
    os.mkdir(path)


def rename(path: Path, target: Path) -> None:
    os.rename(path, target)


def fsync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, pieces: Iterable[Any]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        at = 0
        for piece in pieces:
            view = memoryview(piece).cast("B")
            while view.nbytes:
                n = os.pwrite(descriptor, view, at)
                at += n
                view = view[n:]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
