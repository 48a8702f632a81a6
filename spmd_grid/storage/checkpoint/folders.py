"""The folders of a series of checkpoints: their names, numbers claimed and published, and removal.

    path/save-000007            a published checkpoint, the newest has the highest number
    path/.save-000008.partial   one that is being written, or was left by a program that ended
    path/.save-000008.lock      the lock of the program that writes it

A number is claimed by its lock and by making its hidden folder, which the system lets one program do.  The last step
gives that folder its final name.
"""

from __future__ import annotations

import errno
import json
import re
from contextlib import suppress
from pathlib import Path

from spmd_grid.errors import DamagedError, StorageError
from spmd_grid.storage.checkpoint.manifest import MANIFEST, MOST_MANIFEST_BYTES
from spmd_grid.storage.owners import PARTIAL, Owner, remove_left
from spmd_grid.storage.paths import File, Folders, is_missing

__all__ = ["Claim", "claim", "partial_numbers", "published", "remove_checkpoint", "remove_unfinished"]

_PUBLISHED = re.compile(r"save-(\d{6,})")
_PARTIAL = re.compile(r"\.save-(\d{6,})\.partial")
# What systems answer that cannot rename folders.
_CANNOT_RENAME = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV, errno.EPERM, errno.EINVAL)


def published(folders: Folders, root: Path) -> list[tuple[int, Path]]:
    """The published checkpoints of a series, oldest first, as (number, folder).  Local."""
    matches = [_PUBLISHED.fullmatch(name) for name in folders.names(root)]
    return sorted([(int(found[1]), root / found[0]) for found in matches if found])


def partial_numbers(folders: Folders, root: Path) -> list[int]:
    """The numbers of checkpoints that are being written, or were left unfinished.  Local."""
    return sorted([int(found[1]) for name in folders.names(root) if (found := _PARTIAL.fullmatch(name))])


class Claim:
    """A number that this program has claimed: the folder it writes to, and the one that it will be.

    With ``renames``, files are written to the hidden folder, which gets its final name at the end.  Without, for file
    systems on which that is not one step, they are written to the final folder, and the manifest is what publishes it.
    """

    def __init__(self, root: Path, number: int, renames: bool):
        self.hidden, self.final = root / f".save-{number:06d}{PARTIAL}", root / f"save-{number:06d}"
        self.number, self.renames, self.is_published = number, renames, False
        self._has_final = False  # made by this claim
        self._owner: Owner | None = None

    @property
    def folder(self) -> Path:
        """The folder to write to."""
        return self.hidden if self.renames else self.final

    def take(self, folders: Folders) -> bool:
        """Whether the number is this program's now.  Local, on one process."""
        self._owner = Owner.take(folders, self.hidden)
        if self._owner is None:
            return False
        is_mine = False
        try:
            folders.make(self.hidden)
            try:
                if self.final.name not in folders.names(self.final.parent):  # no other program has published since
                    if not self.renames:
                        folders.make(self.final)
                        self._has_final = True
                    is_mine = True
            finally:
                if not is_mine:
                    folders.remove_folder(self.hidden)
        except FileExistsError:
            is_mine = False
        finally:
            if not is_mine:
                self._owner.release(folders)
        return is_mine

    def publish(self, folders: Folders) -> None:
        """Make the checkpoint visible, all of whose files are on the disk.  Local, on one process.

        Raises StorageError; ``is_published`` tells whether the checkpoint is there nevertheless.
        """
        if self.renames:
            folders.sync(self.hidden)
            try:
                folders.rename(self.hidden, self.final)
            except StorageError as error:
                if getattr(error.__cause__, "errno", None) not in _CANNOT_RENAME:
                    raise
                self._move_files(folders)
        self.is_published = True
        try:
            if not self.renames:
                folders.sync(self.final)
            folders.sync(self.final.parent)
        except StorageError as error:
            raise StorageError(
                f"{error}; {self.final} is there and whole, but its name may not outlast a failure of power"
            ) from None
        finally:
            self.release(folders)

    def release(self, folders: Folders) -> None:
        """Remove what kept the number for this program.  Local; what is left does no harm."""
        if not self.renames:
            with suppress(StorageError):
                folders.remove_folder(self.hidden)
        if self._owner is not None:
            self._owner.release(folders)

    def _move_files(self, folders: Folders) -> None:
        """Move the files one by one into a new final folder, the manifest last."""
        try:
            folders.make(self.final)
        except FileExistsError:
            raise StorageError(f"save: {self.final} exists already; checkpoints are never overwritten") from None
        self._has_final = True
        names = [name for name in folders.names(self.hidden) if name != MANIFEST]
        for name in names:
            folders.rename(self.hidden / name, self.final / name)
        folders.sync(self.final)
        folders.rename(self.hidden / MANIFEST, self.final / MANIFEST)
        self.is_published = True
        folders.sync(self.final)
        with suppress(StorageError):
            folders.remove_folder(self.hidden)

    def withdraw(self, folders: Folders) -> None:
        """Remove, as far as possible, what was written and not published.  Local, on one process."""
        if self.is_published:
            return
        for folder in (self.hidden, *([self.final] if self._has_final else [])):
            with suppress(StorageError):
                _remove(folders, folder)
        self.release(folders)


def claim(folders: Folders, root: Path, renames: bool) -> Claim:
    """Claim the next number of a series.  Local, on one process; two programs never claim the same one.

    What programs that have ended left unfinished is removed.
    """
    folders.make_all(root)
    remove_unfinished(folders, root)
    number = 1 + max([0, *partial_numbers(folders, root), *[number for number, _ in published(folders, root)]])
    while not (found := Claim(root, number, renames)).take(folders):
        number += 1
    return found


def remove_unfinished(folders: Folders, root: Path, sure: bool = False) -> list[Path]:
    """Remove what programs that have ended left unfinished in a series; see `remove_left`.  Local."""

    def remove(hidden: Path) -> None:
        final = root / hidden.name.removeprefix(".").removesuffix(PARTIAL)
        if hidden.name in folders.names(root):
            if not _has_manifest(folders, final):
                _remove(folders, final, missing_ok=True)
            _remove(folders, hidden)

    return remove_left(folders, root, ".save-", remove, sure)


def _has_manifest(folders: Folders, folder: Path) -> bool:
    """Whether a folder has a manifest that was written to its end, by whatever version; one that is too large to be
    read may be.
    """
    try:
        with File.to_read(folders.system, folders.op, folder / MANIFEST) as file:
            size = file.size()
            return size > MOST_MANIFEST_BYTES or isinstance(json.loads(file.read_start(size)), dict)
    except (DamagedError, ValueError, RecursionError):
        return False


def remove_checkpoint(folders: Folders, folder: Path) -> None:
    """Remove a checkpoint, its manifest first: what is left of it is never taken for whole.  Local.

    Another program may remove it at the same time.
    """
    _remove_file(folders, folder / MANIFEST)
    with suppress(StorageError):
        folders.sync(folder)
    _remove(folders, folder, missing_ok=True)


def _remove(folders: Folders, folder: Path, missing_ok: bool = False) -> None:
    names = folders.names(folder)
    for name in [name for name in names if name == MANIFEST] + [name for name in names if name != MANIFEST]:
        _remove_file(folders, folder / name)
    try:
        folders.remove_folder(folder)
    except StorageError as error:
        if not (missing_ok and is_missing(error)):
            raise


def _remove_file(folders: Folders, path: Path) -> None:
    """Remove a file that another program may have removed."""
    try:
        folders.remove_file(path)
    except StorageError as error:
        if not is_missing(error):
            raise
