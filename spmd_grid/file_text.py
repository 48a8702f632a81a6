"""Texts of files that are not trusted: their size is looked at before memory is taken for them."""

from __future__ import annotations

import errno
import os
import stat
from os import PathLike
from typing import BinaryIO

__all__ = ["open_regular", "text_of"]


def open_regular(path: str | PathLike[str], most: int) -> BinaryIO:
    """A file to read, of at most ``most`` bytes.  Local.

    Raises OSError, also for pipes and devices, which might keep the process waiting or never end.
    """
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    found = os.fstat(file.fileno())
    problem = "" if stat.S_ISREG(found.st_mode) else "it is not a regular file"
    if found.st_size > most:
        problem = f"it has {found.st_size} bytes; at most {most} are read"
    if problem:
        file.close()
        raise OSError(errno.EINVAL, problem)
    return file


def text_of(path: str | PathLike[str], most: int, errors: str = "strict") -> str:
    """The text of a file of at most ``most`` bytes.  Local.

    ``errors``: what is done with bytes that are not UTF-8, as `bytes.decode` has it.  Raises OSError and
    UnicodeDecodeError.
    """
    with open_regular(path, most) as file:
        return file.read(os.fstat(file.fileno()).st_size).decode(errors=errors)  # read takes as much memory as it may
