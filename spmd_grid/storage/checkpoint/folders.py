"""The folders of a series of checkpoints: their names, numbers claimed and published, and removal.

    path/save-000007            a published checkpoint, the newest has the highest number
    path/.save-000008.partial   one that is being written, or was left by a program that ended

A number is claimed by making its hidden folder, which the system lets one program do.  The last step gives that folder
its final name.
"""

from __future__ import annotations

import errno
import re
from contextlib import suppress
from pathlib import Path

from spmd_grid.errors import StorageError
from spmd_grid.storage.checkpoint.manifest import MANIFEST
from spmd_grid.storage.system import Folders

__all__ = ["Claim", "claim", "partial_numbers", "published", "remove_checkpoint"]

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
        self.hidden, self.final = root / f".save-{number:06d}.partial", root / f"save-{number:06d}"
        self.renames = renames

    @property
    def folder(self) -> Path:
        """The folder to write to."""
        return self.hidden if self.renames else self.final

    def publish(self, folders: Folders) -> None:
        """Make the checkpoint visible, all of whose files are on the disk.  Local, on one process."""
        if not self.renames:
            folders.sync(self.final)
            folders.sync(self.final.parent)
            with suppress(StorageError):  # a claim that is left does no harm
                folders.remove_folder(self.hidden)
            return
        folders.sync(self.hidden)
        try:
            folders.rename(self.hidden, self.final)
        except StorageError as error:
            if getattr(error.__cause__, "errno", None) not in _CANNOT_RENAME:
                raise
            self._move_files(folders)
        folders.sync(self.final.parent)

    def _move_files(self, folders: Folders) -> None:
        """Move the files one by one into a new final folder, the manifest last."""
        try:
            folders.make(self.final)
        except FileExistsError:
            raise StorageError(f"save: {self.final} exists already; checkpoints are never overwritten") from None
        names = [name for name in folders.names(self.hidden) if name != MANIFEST]
        for name in names:
            folders.rename(self.hidden / name, self.final / name)
        folders.sync(self.final)
        folders.rename(self.hidden / MANIFEST, self.final / MANIFEST)
        folders.sync(self.final)
        with suppress(StorageError):
            folders.remove_folder(self.hidden)

    def withdraw(self, folders: Folders) -> None:
        """Remove what was written, and was not published, as far as that is possible.  Local, on one process."""
        for folder in (self.hidden, *([] if self.renames else [self.final])):
            with suppress(StorageError):
                _remove(folders, folder)


def claim(folders: Folders, root: Path, renames: bool) -> Claim:
    """Claim the next number of a series.  Local, on one process; two programs never claim the same one."""
    folders.make_all(root)
    number = 1 + max([0, *partial_numbers(folders, root), *[number for number, _ in published(folders, root)]])
    while True:
        found = Claim(root, number, renames)
        number += 1
        try:
            folders.make(found.hidden)
        except FileExistsError:
            continue
        if found.final.name in folders.names(root):  # another program has published since
            folders.remove_folder(found.hidden)
            continue
        if not renames:
            folders.make(found.final)
        return found


def remove_checkpoint(folders: Folders, folder: Path) -> None:
    """Remove a checkpoint, its manifest first: what is left of it is never taken for whole.  Local."""
    folders.remove_file(folder / MANIFEST)
    folders.sync(folder)
    _remove(folders, folder)


def _remove(folders: Folders, folder: Path) -> None:
    names = folders.names(folder)
    for name in [name for name in names if name == MANIFEST] + [name for name in names if name != MANIFEST]:
        folders.remove_file(folder / name)
    folders.remove_folder(folder)
