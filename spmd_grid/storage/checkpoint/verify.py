"""Checkpoints read again: the manifest, the files' sizes and the checksum of every block."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from spmd_grid.errors import DamagedError, StorageError
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import gate_of
from spmd_grid.storage.arguments import as_path
from spmd_grid.storage.checkpoint.folders import published
from spmd_grid.storage.checkpoint.manifest import MANIFEST, MOST_MANIFEST_BYTES, Manifest, StoredArray, parse_manifest
from spmd_grid.storage.checksums import check_library, checksum_text, in_pieces, pieces_in_turn, running_checksum
from spmd_grid.storage.paths import File, Folders
from spmd_grid.storage.system import System
from spmd_grid.storage.team import Team

__all__ = [
    "checkpoint_at",
    "is_checkpoint",
    "latest",
    "manifest_bytes",
    "open_array",
    "read_block",
    "read_manifest",
    "verify",
    "verify_blocks",
]

_MOST_SHOWN = 100  # problems of one process


def read_manifest(system: System, op: str, folder: Path) -> Manifest:
    """The manifest of a checkpoint.  Local.  Raises DamagedError, also where there is none, and StorageError."""
    path = folder / MANIFEST
    with File.to_read(system, op, path) as file:
        return parse_manifest(op, path, manifest_bytes(op, file))


def manifest_bytes(op: str, file: File) -> bytes:
    """The bytes of an open manifest.  Local.  Raises DamagedError for one that is too large, and StorageError."""
    size = file.size()
    if size > MOST_MANIFEST_BYTES:
        raise DamagedError(f"{op}: {file.path} has {size} bytes; a manifest has at most {MOST_MANIFEST_BYTES}")
    return file.read_start(size)


def open_array(system: System, op: str, folder: Path, stored: StoredArray) -> File:
    """The file of an array, whose size and header are what the manifest says.  Local.  Raises DamagedError."""
    file = File.to_read(system, op, folder / stored.file)
    try:
        found = file.size()
        if found != stored.n_bytes:
            raise DamagedError(f"{op}: {file.path} has {found} bytes; the manifest makes it {stored.n_bytes}")
        if file.read_start(len(stored.header)) != stored.header:
            raise DamagedError(f"{op}: the header of {file.path} is not the one of {stored.shape} {stored.dtype}")
        file.will_be_read()
    except BaseException:
        file.close()
        raise
    return file


def read_block(op: str, file: File, stored: StoredArray, block: int, cells: np.ndarray) -> None:
    """Fill ``cells`` with a block of the file.  Local.  Raises DamagedError if it has not the manifest's checksum."""
    _compare_block(op, file, stored, block, in_pieces(cells))


def _compare_block(
    op: str, file: File, stored: StoredArray, block: int, pieces: Iterable[tuple[int, np.ndarray]]
) -> None:
    """Read a block in pieces, each from its first byte.  Local.  Raises DamagedError for another checksum."""
    start, running, n_bytes = len(stored.header) + stored.blocks.offset(block), running_checksum(), 0
    for offset, piece in pieces:
        file.read(piece, start + offset)
        running.update(piece)
        n_bytes = offset + len(piece)
    found = running.intdigest()
    if found != stored.checksums[block]:
        raise DamagedError(
            f"{op}: {file.path} is damaged between bytes {start} and {start + n_bytes} (block {block} of array"
            f" {stored.name!r}): its checksum is {checksum_text(found)}, and"
            f" {checksum_text(stored.checksums[block])} was saved"
        )


def verify_blocks(system: System, op: str, folder: Path, manifest: Manifest, rank: int, size: int) -> list[str]:
    """Read a share of all blocks, that of process ``rank`` of ``size``, and list in words what is wrong with them.

    Local.  Empty if nothing is; at most a hundred lines.
    """
    problems: list[str] = []
    for stored in manifest.arrays.values():
        blocks = stored.blocks
        share = range(len(blocks) * rank // size, len(blocks) * (rank + 1) // size)
        try:
            with open_array(system, op, folder, stored) as file:
                for block in share:
                    pieces = pieces_in_turn(blocks.box(block).size * stored.dtype.itemsize)
                    try:
                        _compare_block(op, file, stored, block, pieces)
                    except DamagedError as error:
                        problems.append(str(error))
        except (DamagedError, StorageError) as error:
            problems.append(str(error))
        if len(problems) >= _MOST_SHOWN:
            break
    return problems[:_MOST_SHOWN]


def verify(path: str | os.PathLike[str], grid: ProcessGrid | None = None) -> list[str]:
    """Read a checkpoint, and list in words what is wrong with it: nothing, if every byte is as it was saved.

    Collective over ``grid``, whose processes read a share each; Local without one.  ``path``: a checkpoint's folder, or
    the folder of a series, of which the newest is read.  Raises `StorageError` where there is no checkpoint.
    """
    check_library("verify")
    root = as_path("verify", path)
    if grid is None:
        system = System()
        return _problems(system, checkpoint_at(system, "verify", root), 0, 1)
    return gate_of("verify", grid).run("verify", _verify_together, root, grid)


def _problems(system: System, folder: Path, rank: int, size: int) -> list[str]:
    """Read a share of a checkpoint's blocks, and list in words what is wrong with it.  Local."""
    try:
        manifest = read_manifest(system, "verify", folder)
    except DamagedError as error:
        return [str(error)]
    return verify_blocks(system, "verify", folder, manifest, rank, size)


def _verify_together(root: Path, grid: ProcessGrid) -> list[str]:
    team, folder, mine = Team("verify", [grid]), root, []
    with team.trying():
        if team.is_first:
            folder = checkpoint_at(team.system, team.op, root)
    team.agree(str(root))
    folder = Path(os.fsdecode(team.tell(os.fsencode(folder))))  # by now there may be a newer one
    with team.trying():
        mine = _problems(team.system, folder, team.rank, team.size)
    team.agree()
    texts = team.gather(np.frombuffer("\n".join(mine).encode() + b"\n", np.uint8)).tobytes().decode()
    return list(dict.fromkeys([line for line in texts.split("\n") if line]))


def latest(path: str | os.PathLike[str], grid: ProcessGrid | None = None) -> Path | None:
    """The newest checkpoint in the folder ``path`` of which every byte is as it was saved; None if there is none.

    Collective over ``grid``, whose processes read a share each; Local without one.  Raises `StorageError`.

    >>> latest("/nowhere") is None
    True
    """
    check_library("latest")
    root = as_path("latest", path)
    if grid is None:
        system = System()
        whole = (each for each in newest_first(Folders(system, "latest"), root) if not _problems(system, each, 0, 1))
        return next(whole, None)
    return gate_of("latest", grid).run("latest", _latest_together, root, grid)


def _latest_together(root: Path, grid: ProcessGrid) -> Path | None:
    team = Team("latest", [grid])
    folders = newest_first(Folders(team.system, team.op), root)
    while True:
        name, mine = "", []
        with team.trying():
            if team.is_first:
                name = getattr(next(folders, None), "name", "")
        team.agree(str(root))
        name = team.tell(name.encode()).decode()
        if not name:
            return None
        with team.trying():
            mine = _problems(team.system, root / name, team.rank, team.size)
        team.agree()
        if not team.gather(np.array([len(mine)])).any():
            return root / name


def is_checkpoint(system: System, folder: Path) -> bool:
    """Whether a folder is a checkpoint, rather than a series of them.  Local."""
    return MANIFEST in Folders(system, "load").names(folder)


def newest_first(folders: Folders, root: Path) -> Iterator[Path]:
    """The published checkpoints of a series, newest first, then those that programs have published meanwhile.  Local.

    Another program may remove old ones: it has published a newer one before.
    """
    seen: set[Path] = set()
    while more := [folder for _, folder in reversed(published(folders, root)) if folder not in seen]:
        seen.update(more)
        yield from more


def checkpoint_at(system: System, op: str, root: Path) -> Path:
    """A folder if it is a checkpoint; of a series of them, the newest that has a valid manifest.

    Local.  Raises StorageError if there is none.
    """
    folders, problem = Folders(system, op), ""
    if is_checkpoint(system, root):
        return root
    for folder in newest_first(folders, root):
        try:
            read_manifest(system, op, folder)
            return folder
        except DamagedError as error:
            problem = problem or f"; {error}"
    raise StorageError(f"{op}: there is no checkpoint in {root}{problem}")
