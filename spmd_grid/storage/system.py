"""The seam between storage and the operating system: every system call of storage goes through a `System`.

Tests replace it, to fail or to end a process at any call: see `system_of`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

from spmd_grid.grid.process_grid import ProcessGrid

__all__ = ["System", "replace_system", "system_of"]

_KEPT = "the system calls of storage"


class System:
    """The system calls of storage, each as the operating system offers it.  Local.  All raise OSError.

    Offsets and sizes are in bytes.  `storage.paths` calls them, and says what was done to which file.
    """

    def open(self, path: Path, flags: int) -> int:
        """A descriptor of the file; links are not followed, and a pipe's other end is not waited for."""
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)

    def close(self, descriptor: int) -> None:
        """Ends the use of a descriptor."""
        os.close(descriptor)

    def pwrite(self, descriptor: int, data: memoryview, offset: int) -> int:
        """The number of bytes written, which may be fewer than asked for."""
        return os.pwrite(descriptor, data, offset)

    def pread(self, descriptor: int, buffer: memoryview, offset: int) -> int:
        """The number of bytes read into ``buffer``, which may be fewer than fit; 0 at the end of the file."""
        return os.preadv(descriptor, [buffer], offset)

    def truncate(self, descriptor: int, n_bytes: int) -> None:
        """Makes the file this long."""
        os.ftruncate(descriptor, n_bytes)

    def fsync(self, descriptor: int) -> None:
        """Waits until the file, or the folder, is on the disk."""
        os.fsync(descriptor)

    def lock(self, descriptor: int, path: Path) -> bool:
        """Whether the lock of an open file is now this descriptor's, and the file is still the one at ``path``."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.path.samestat(os.fstat(descriptor), os.lstat(path))
        except (BlockingIOError, FileNotFoundError):
            return False

    def size(self, descriptor: int) -> int:
        """The number of bytes of a regular file."""
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return found.st_size

    def mkdir(self, path: Path) -> None:
        """Makes a folder that did not exist."""
        os.mkdir(path)

    def rename(self, source: Path, target: Path) -> None:
        """Gives a file or a folder another name; replaces a file, and no folder that holds anything."""
        os.rename(source, target)

    def unlink(self, path: Path) -> None:
        """Removes a file."""
        os.unlink(path)

    def rmdir(self, path: Path) -> None:
        """Removes an empty folder."""
        os.rmdir(path)

    def listdir(self, path: Path) -> list[str]:
        """The names in a folder."""
        return os.listdir(path)


def system_of(grid: ProcessGrid) -> System:
    """The system calls of the calling process.  Local."""
    found: System = grid.process.kept.setdefault(_KEPT, System())
    return found


def replace_system(grid: ProcessGrid, system: System) -> None:
    """Lets the calling process store by ``system`` from now on: tests thus fail at any system call.  Local."""
    grid.process.kept[_KEPT] = system
