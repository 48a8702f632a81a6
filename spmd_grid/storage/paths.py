"""Files and folders of storage: whole reads and writes, and errors that name the operation, the call and the path."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

import numpy as np

from spmd_grid.errors import DamagedError, SpmdError, StorageError
from spmd_grid.storage.system import System

__all__ = ["File", "Folders", "described", "is_missing"]


def described(op: str, call: str, path: Path, error: OSError) -> StorageError:
    """The error that says which system call on which file failed in operation ``op``."""
    code = errno.errorcode.get(error.errno or 0, type(error).__name__)
    return StorageError(f"{op}: {call} of {path} failed: {error.strerror or error} ({code})")


def is_missing(error: StorageError) -> bool:
    """Whether the error of `described` says that a file or folder does not exist."""
    return str(error).endswith("(ENOENT)")


class File:
    """An open file: whole reads and writes at offsets, and errors that name the operation, the call and the file.

    Local.  ``op``: the operation's name in errors.  Raises `StorageError`; `DamagedError` where a file ends too early.
    """

    def __init__(self, system: System, op: str, path: Path, flags: int):
        self.path, self._system, self._op = path, system, op
        self._is_read = not flags & (os.O_WRONLY | os.O_RDWR)
        self._descriptor = -1
        try:
            self._descriptor = system.open(path, flags)
        except OSError as error:
            raise described(op, "open", path, error) from None

    @classmethod
    def create(cls, system: System, op: str, path: Path) -> File:
        """A new file; it must not exist."""
        return cls(system, op, path, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    @classmethod
    def to_write(cls, system: System, op: str, path: Path) -> File:
        """A file that the first process has made."""
        try:
            return cls(system, op, path, os.O_WRONLY)
        except StorageError as error:
            if is_missing(error):
                raise StorageError(
                    f"{op}: {path} was made by the first process and does not exist here; save to a folder that all"
                    " hosts share"
                ) from None
            raise

    @classmethod
    def to_read(cls, system: System, op: str, path: Path, if_missing: type[SpmdError] = DamagedError) -> File:
        """A file that exists, or an error where it does not: as a rule it is a part of something that is damaged."""
        try:
            return cls(system, op, path, os.O_RDONLY)
        except StorageError as error:
            if is_missing(error):
                raise if_missing(f"{op}: {path} does not exist") from None
            raise

    def write(self, data: np.ndarray | bytes, offset: int) -> None:
        """Writes all of ``data``, a contiguous array or bytes."""
        left = _bytes_of(data)
        while len(left):
            try:
                done = self._system.pwrite(self._descriptor, left, offset)
                if done <= 0:
                    raise OSError(errno.EIO, f"{len(left)} bytes at {offset} were not taken")
            except OSError as error:
                raise described(self._op, "pwrite", self.path, error) from None
            left, offset = left[done:], offset + done

    def read(self, buffer: np.ndarray, offset: int) -> None:
        """Fills ``buffer``, a contiguous array."""
        left = _bytes_of(buffer)
        while len(left):
            try:
                done = self._system.pread(self._descriptor, left, offset)
            except OSError as error:
                raise described(self._op, "preadv", self.path, error) from None
            if done <= 0:
                raise DamagedError(f"{self._op}: {self.path} ends at byte {offset}; {len(left)} more bytes are missing")
            left, offset = left[done:], offset + done

    def start_sync(self, offset: int, n_bytes: int) -> None:
        """Let the system begin to bring these bytes to the disk, so that `sync` waits less.  A hint: it cannot fail."""
        if hasattr(os, "posix_fadvise"):  # not everywhere
            with suppress(OSError):
                os.posix_fadvise(self._descriptor, offset, n_bytes, os.POSIX_FADV_DONTNEED)

    def will_be_read(self) -> None:
        """Let the system read farther ahead, since parts of the file are read from start to end.  A hint."""
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def read_start(self, most: int) -> bytes:
        """The first bytes of the file, at most this many."""
        buffer = np.empty(min(most, self.size()), np.uint8)
        self.read(buffer, 0)
        return buffer.tobytes()

    def size(self) -> int:
        """The number of bytes of the file."""
        try:
            return self._system.size(self._descriptor)
        except OSError as error:
            raise described(self._op, "fstat", self.path, error) from None

    def truncate(self, n_bytes: int) -> None:
        """Makes the file this long."""
        try:
            self._system.truncate(self._descriptor, n_bytes)
        except OSError as error:
            raise described(self._op, "ftruncate", self.path, error) from None

    def lock(self) -> bool | None:
        """Whether this program has the lock of the file until it closes it; None where there are no locks."""
        try:
            return self._system.lock(self._descriptor, self.path)
        except OSError:
            return None

    def sync(self) -> None:
        """Waits until what was written is on the disk."""
        try:
            self._system.fsync(self._descriptor)
        except OSError as error:
            raise described(self._op, "fsync", self.path, error) from None

    def close(self) -> None:
        """Closes the file; may be called again.  Errors matter where something was written."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                self._system.close(descriptor)
            except OSError as error:
                if not self._is_read:
                    raise described(self._op, "close", self.path, error) from None

    def __enter__(self) -> File:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        if kind is None:
            self.close()
        else:
            with suppress(StorageError):  # the first error is the one to know
                self.close()


class Folders:
    """The names of files and folders: made, listed, changed and removed, with errors that name operation and path.

    Local.  Raises `StorageError`; ``problem`` gives the number of the system's error.
    """

    def __init__(self, system: System, op: str):
        self.system, self.op = system, op

    def make(self, path: Path) -> None:
        """Makes a folder; raises FileExistsError itself where there is one."""
        try:
            self.system.mkdir(path)
        except FileExistsError:
            raise
        except OSError as error:
            raise described(self.op, "mkdir", path, error) from None

    def make_all(self, path: Path) -> None:
        """Makes a folder and those above it, where they do not exist."""
        missing = [path]
        while missing:
            try:
                self.make(missing[-1])
                self.sync(missing[-1].parent)
            except FileExistsError:
                pass
            except StorageError as error:
                above = missing[-1].parent
                if not is_missing(error) or above in missing:
                    raise
                missing.append(above)
                continue
            missing.pop()

    def names(self, path: Path) -> list[str]:
        """The sorted names in a folder; none where there is no folder."""
        try:
            return sorted(self.system.listdir(path))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise described(self.op, "listdir", path, error) from None

    def sync(self, path: Path) -> None:
        """Waits until the names in a folder are on the disk."""
        with File(self.system, self.op, path, os.O_RDONLY | os.O_DIRECTORY) as folder:
            folder.sync()

    def rename(self, source: Path, target: Path) -> None:
        """Gives a file or a folder another name."""
        try:
            self.system.rename(source, target)
        except OSError as error:
            raise described(self.op, "rename", source, error) from error

    def remove_file(self, path: Path) -> None:
        """Removes a file."""
        try:
            self.system.unlink(path)
        except OSError as error:
            raise described(self.op, "unlink", path, error) from None

    def remove_folder(self, path: Path) -> None:
        """Removes an empty folder."""
        try:
            self.system.rmdir(path)
        except OSError as error:
            raise described(self.op, "rmdir", path, error) from None


def _bytes_of(data: np.ndarray | bytes) -> memoryview:
    """The bytes of a contiguous array, whose dtype may be any."""
    if isinstance(data, bytes):
        return memoryview(data)
    return data.reshape(-1).view(np.uint8).data if data.nbytes else memoryview(b"")
