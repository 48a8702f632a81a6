"""Files and folders that appear under their name only when they are whole.

They are written under a name of their own beside it, brought to the disk, and then renamed.  What a program that was
killed leaves behind has a name that ends in ``.partial``, is never read, and is removed by the next save to that name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

import numpy as np

from spmd_grid.errors import SpmdError, StorageError
from spmd_grid.storage.owners import PARTIAL, Owner, remove_left
from spmd_grid.storage.paths import File, Folders
from spmd_grid.storage.team import Team

__all__ = ["published", "refuse_existing", "remove_tree", "write_file"]


def refuse_existing(op: str, path: Path) -> None:
    """Refuse a path that is there already.  Local.  Raises StorageError."""
    if os.path.lexists(path):
        raise StorageError(f"{op}: {str(path)!r} is there already; nothing is overwritten")


@contextmanager
def published(team: Team, path: Path, is_folder: bool = False, replaces: bool = False) -> Iterator[Path]:
    """A path to write to, of a new file or folder, which bears the name ``path`` after the block.

    Collective over the team.  A folder is there when the block begins; a file is made by the block.  In it all
    processes bring to the disk what they wrote, and agree on errors.  After an error, nothing bears the name, or, if
    the new file ``replaces`` one, the old file does.  What programs that have ended left of saves to ``path`` is
    removed.  Raises `StorageError`, also where ``path`` is there already.
    """
    folders = Folders(team.system, team.op)
    temporary = path.with_name(f".{path.name}.{token_hex(8)}{PARTIAL}")
    owner: Owner | None = None
    try:
        with team.trying():
            if team.is_first:
                if not replaces:
                    refuse_existing(team.op, path)
                remove_left(folders, path.parent, f".{path.name}.", lambda left: remove_tree(folders, left))
                owner = Owner.take(folders, temporary)
                if is_folder:
                    folders.make(temporary)
        team.agree()
        temporary = Path(os.fsdecode(team.tell(os.fsencode(temporary))))  # the name that the first process made up
        yield temporary
        with team.trying():
            if team.is_first:
                _rename(team.op, folders, temporary, path, replaces)
        if owner is not None:
            owner.release(folders)  # before others go on, who find no trace of it
        team.agree()
    except SpmdError:
        if team.is_first:
            remove_tree(folders, temporary)
        raise
    finally:
        if owner is not None:
            owner.release(folders)


def _rename(op: str, folders: Folders, temporary: Path, path: Path, replaces: bool) -> None:
    """Give what is whole its name.  Local.  Raises StorageError."""
    if not replaces:
        refuse_existing(op, path)
    folders.rename(temporary, path)
    try:
        folders.sync(path.parent)
    except StorageError as error:  # the name may not outlast a failure of power
        if replaces:
            raise StorageError(f"{error}; {path} is the new file, or after a failure of power maybe the old") from None
        remove_tree(folders, path)
        raise


def write_file(team: Team, path: Path, parts: Iterable[np.ndarray | bytes]) -> None:
    """A new file of all ``parts``, one after the other, brought to the disk.  Local.  Raises StorageError."""
    with File.create(team.system, team.op, path) as file:
        at = 0
        for part in parts:
            file.write(part, at)
            at += part.nbytes if isinstance(part, np.ndarray) else len(part)
        file.sync()


def remove_tree(folders: Folders, path: Path) -> None:
    """Remove a file, or a folder with all that it holds, as far as the system lets it.  Local."""
    with suppress(SpmdError):
        if path.is_dir() and not path.is_symlink():
            for name in folders.names(path):
                remove_tree(folders, path / name)
            folders.remove_folder(path)
        elif os.path.lexists(path):
            folders.remove_file(path)
