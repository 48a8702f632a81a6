"""Files and folders that appear under their name only when they are whole.

They are written under a name of their own beside it, brought to the disk, and then renamed.  What a program that was
killed leaves behind has a name that ends in ``.partial``, and is never read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from spmd_grid.errors import SpmdError, StorageError
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.storage import system
from spmd_grid.storage.together import first_alone

__all__ = ["path_of", "published", "refuse_existing"]


def path_of(op: str, path: object) -> Path:
    """``path`` as a path.  Local.  Raises StorageError."""
    if isinstance(path, str | os.PathLike):
        with suppress(TypeError, ValueError):
            found = Path(path)
            if found.name:
                return found
    raise StorageError(f"{op}: path is {path!r}; it must name a file or a folder")


def refuse_existing(op: str, path: Path) -> None:
    """Refuse a path that is there already.  Local.  Raises StorageError."""
    if os.path.lexists(path):
        raise StorageError(f"{op}: {str(path)!r} is there already; nothing is overwritten")


@contextmanager
def published(op: str, grid: ProcessGrid, path: Path, is_folder: bool = False) -> Iterator[Path]:
    """A path to write to, of a new file or folder, which bears the name ``path`` after the block.

    Collective over the grid.  A folder is there when the block begins; a file is made by the block.  In it all
    processes bring to the disk what they wrote, and agree on errors.  After an error, nothing bears the name.  Raises
    `StorageError`, also where ``path`` is there already.
    """

    def begin() -> Path:
        refuse_existing(op, path)
        temporary = path.with_name(f".{path.name}.{token_hex(8)}.partial")
        if is_folder:
            system.mkdir(temporary)
        return temporary

    def publish() -> None:
        refuse_existing(op, path)
        system.rename(temporary, path)
        system.fsync_folder(path.parent)

    temporary = first_alone(op, grid, begin)
    try:
        yield temporary
        first_alone(op, grid, publish)
    except SpmdError:
        if grid.process_linear_index() == 0:
            _remove(temporary)
        raise


def _remove(path: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
