"""Owners of unfinished saves: the program that writes holds a lock, so what a killed program has left can be removed.

    .save-000008.partial    what is being written
    .save-000008.lock       the lock of its owner, from before the save is made until it has its final name

The system gives a lock back when its owner ends, in whatever way.  A free lock does not always mean that its owner has
ended: some file systems have no locks, and some keep them to one machine.  So the owner writes into the lock's file
whether it got the lock, and in which run of which machine.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from functools import cache
from pathlib import Path

from spmd_grid.errors import StorageError
from spmd_grid.storage.paths import File, Folders
from spmd_grid.storage.system import System

__all__ = ["LOCK", "PARTIAL", "Fate", "Owner", "fate_of", "remove_left"]

PARTIAL, LOCK = ".partial", ".lock"
_LOCKED = b"locked by a program in run "
_LONGEST = 1 << 10  # bytes of a lock's file that are read
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MOUNTS = Path("/proc/self/mountinfo")
# File systems of one machine, and what must be among the options of others, for locks to hold wherever they are seen.
_LOCAL = {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "overlay"}
_SHARED = {"nfs": "local_lock=none", "nfs4": "local_lock=none", "lustre": "flock"}


class Fate(Enum):
    """The state of something unfinished, as far as its lock tells."""

    WRITTEN = "is being written"
    LEFT = "was left by a program that ended; the next save here removes it"
    UNKNOWN = "is being written, or was left by a program that ended"


class Owner:
    """The lock of a program on something that it writes: ``take`` makes one.  Local."""

    def __init__(self, file: File):
        self._file, self._is_held = file, True

    @classmethod
    def take(cls, folders: Folders, unfinished: Path) -> Owner | None:
        """The lock of ``unfinished``, whose name ends in ``.partial``; None where another program has it.

        Local.  On file systems without locks its file alone is made, and says so.  Raises StorageError.
        """
        try:
            file = File.create(folders.system, folders.op, _lock_of(unfinished))
        except StorageError as error:
            if "(EEXIST)" in str(error):
                return None
            raise
        owner = cls(file)
        try:
            has_lock = file.lock()
            if has_lock is False:  # another program took it for one that was left, and removes it
                file.close()
                return None
            file.write(_LOCKED + _this_run() if has_lock else b"without a lock", 0)
        except BaseException:
            owner.release(folders)
            raise
        return owner

    def release(self, folders: Folders) -> None:
        """Give the lock back, and remove its file.  Local; may be called again; what fails does no harm."""
        if not self._is_held:
            return
        self._is_held = False
        with suppress(StorageError):
            folders.remove_file(self._file.path)
        with suppress(StorageError):
            self._file.close()


def remove_left(
    folders: Folders, root: Path, beginning: str, remove: Callable[[Path], None], sure: bool = False
) -> list[Path]:
    """Call ``remove`` with all in ``root`` that programs have left unfinished; its name starts with ``beginning``.

    Local; returns what was removed.  Nothing is touched whose owner lives, or may live; with ``sure``, only what is
    locked is spared: the caller knows that no program is writing on machines whose locks are not seen here.
    """
    found = []
    for unfinished in _unfinished(folders, root, beginning):
        with suppress(StorageError):  # it stays
            with File(folders.system, folders.op, _lock_of(unfinished), os.O_RDWR) as file:
                if file.lock() is True and (sure or _is_left(file, root)):
                    remove(unfinished)
                    folders.remove_file(file.path)
                    found.append(unfinished)
                    continue
        if sure and not os.path.lexists(_lock_of(unfinished)):  # of a program that made none
            with suppress(StorageError):
                remove(unfinished)
                found.append(unfinished)
    return found


def fate_of(system: System, unfinished: Path) -> Fate:
    """The state of something unfinished.  Local."""
    with suppress(StorageError), File(system, "ls", _lock_of(unfinished), os.O_RDWR) as file:
        has_lock = file.lock()
        if has_lock is False:
            return Fate.WRITTEN
        if has_lock and _is_left(file, unfinished.parent):
            return Fate.LEFT
    return Fate.UNKNOWN


def _unfinished(folders: Folders, root: Path, beginning: str) -> Iterator[Path]:
    """All of which there is a part, or a lock."""
    stems = set()
    for name in folders.names(root):
        for ending in (PARTIAL, LOCK):
            if name.startswith(beginning) and name.endswith(ending):
                stems.add(name.removesuffix(ending))
    for stem in sorted(stems):
        yield root / f"{stem}{PARTIAL}"


def _lock_of(unfinished: Path) -> Path:
    return unfinished.with_name(unfinished.name.removesuffix(PARTIAL) + LOCK)


def _is_left(file: File, root: Path) -> bool:
    """Whether the owner has ended for sure, of a lock that was free."""
    text = file.read_start(_LONGEST)
    if text and not text.startswith(_LOCKED):
        return False
    return text == _LOCKED + _this_run() or _holds_everywhere(root)


@cache
def _this_run() -> bytes:
    """A name of this machine since it was started, in which a lock holds for all programs."""
    try:
        return _BOOT.read_bytes().strip()
    except OSError:
        return socket.gethostname().encode()


def _holds_everywhere(folder: Path) -> bool:
    """Whether locks in a folder hold for the programs of all machines that see it.  Local."""
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return False
    deepest, kind, options = Path(), "", ""
    real = Path(os.path.realpath(folder))
    for line in lines:
        mount, _, device = line.partition(" - ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), mount.split()[4]))
        if real.is_relative_to(point) and len(point.parts) >= len(deepest.parts):
            words = device.split()
            deepest, kind, options = point, words[0], f"{mount.split()[5]},{words[-1]}"
    return kind in _LOCAL or (kind in _SHARED and _SHARED[kind] in options.split(","))
