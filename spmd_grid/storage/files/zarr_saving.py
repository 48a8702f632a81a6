"""Saving arrays as zarr v3: every process writes the chunks that it holds, and no chunk is written by two."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.errors import ShapeError, StorageError
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.grid.box import Box, as_ints
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import gate_of
from spmd_grid.storage.arguments import as_attributes, as_path, check_bytes
from spmd_grid.storage.files.blocks import aligned_sharding, chunks_in, fitting_chunks
from spmd_grid.storage.files.named_arrays import Arrays, common_grid, described, named_arrays
from spmd_grid.storage.files.publishing import published, write_file
from spmd_grid.storage.files.steps import in_steps
from spmd_grid.storage.files.zarr_format import (
    METADATA,
    array_metadata,
    chunk_key,
    group_metadata,
    metadata_bytes,
    zarr_dtype,
)
from spmd_grid.storage.paths import Folders
from spmd_grid.storage.ranges.move import STAGE_BYTES
from spmd_grid.storage.team import Team

__all__ = ["save_zarr"]

_OP = "save_zarr"


class _Options(NamedTuple):
    """The options of a call, the same for all its arrays."""

    chunks: Sequence[int] | None
    dimension_names: Sequence[str] | None
    attributes: Mapping[str, Any]
    stage_bytes: int


class _Member(NamedTuple):
    """An array to write: the name of its folder, empty for a single one, and its chunks."""

    folder: str
    array: ShardedArray
    dtype: np.dtype
    chunks: tuple[int, ...]
    metadata: dict[str, Any]


def save_zarr(
    path: object,
    arrays: ShardedArray | Mapping[str, ShardedArray],
    *,
    chunks: Sequence[int] | None = None,
    dimension_names: Sequence[str] | None = None,
    attributes: Mapping[str, Any] | None = None,
    stage_bytes: int = STAGE_BYTES,
) -> None:
    """Save an array, or a group of named arrays, as zarr v3, which zarr, xarray and other programs read.

    Collective over the grid of the arrays.  ``chunks``: the extents of all chunks; by default blocks are chunks, or
    equal parts of blocks of more than 64 MiB.  Cuts between processes that are not at edges of chunks are moved to the
    nearest ones, by messages, in at most ``stage_bytes`` of memory or that of single chunks.  ``dimension_names`` and
    ``attributes`` (as JSON has them) are for all arrays; of arrays with fewer dimensions, the last names count.  Every
    chunk has a checksum.

    The folder ``path`` appears when all is on the disk, and is never overwritten.  Needs zarr, the extra ``[zarr]``.
    Raises `StorageError`, `ShapeError`, `DTypeError`, `GridError` and `MismatchError`, the same on every process.
    """
    grid = common_grid(_OP, arrays)
    check_bytes(_OP, "stage_bytes", stage_bytes)
    options = _Options(chunks, dimension_names, as_attributes(_OP, attributes), stage_bytes)
    gate_of(_OP, grid).run(_OP, _save, path, arrays, grid, options)


def _save(path: object, arrays: Arrays, grid: ProcessGrid, options: _Options) -> None:
    team = Team(_OP, [grid])
    members: list[_Member] = []
    texts: dict[str, bytes] = {}
    text = ""
    with team.trying():
        target = as_path(_OP, path)
        members = [_member(name, a, options) for name, a in named_arrays(arrays, "").items()]
        texts = _metadata_files(members, options, isinstance(arrays, Mapping))
        _checksum()
        metadata = json.dumps([each.decode() for each in texts.values()])
        text = f"path {str(target)!r}, {described(arrays)}, {metadata}"
    team.agree()
    team.agree(text)
    with published(team, target, is_folder=True) as folder:
        with team.trying():
            if team.is_first:
                _make_folders(team, folder, members)
        team.agree()
        for member in members:
            _write_chunks(team, folder / member.folder, member, options.stage_bytes)
            team.agree()
        with team.trying():
            if team.is_first:
                _write_texts(team, folder, texts)
        team.agree()


def _member(name: str, a: ShardedArray, options: _Options) -> _Member:
    """The array, with its chunks and metadata.  Local.  Raises `ShapeError`, `DTypeError` and `StorageError`."""
    dtype = zarr_dtype(_OP, f"array {name!r}" if name else "the array", a.dtype)
    if options.chunks is None:
        chunks = fitting_chunks(a.sharding, a.shape, dtype.itemsize)
    else:
        chunks = as_ints(options.chunks) or ()
        if len(chunks) != a.ndim or min(chunks, default=1) < 1:
            raise ShapeError(
                f"{_OP}: chunks is {options.chunks!r}; it must list {a.ndim} extents of at least 1, one per dimension"
            )
    names = options.dimension_names
    if names is not None:
        if isinstance(names, str) or not all(isinstance(each, str) for each in names) or len(names) < a.ndim:
            raise ShapeError(f"{_OP}: dimension_names is {names!r}; it must list at least {a.ndim} names")
        names = list(names)[len(names) - a.ndim :]
    return _Member(name, a, dtype, chunks, array_metadata(a.shape, dtype, chunks, names, options.attributes))


def _metadata_files(members: Sequence[_Member], options: _Options, is_group: bool) -> dict[str, bytes]:
    """The metadata files by path, the one at the top last."""
    files = {f"{member.folder}/{METADATA}".lstrip("/"): metadata_bytes(_OP, member.metadata) for member in members}
    if is_group:
        group = group_metadata({member.folder: member.metadata for member in members}, options.attributes)
        files[METADATA] = metadata_bytes(_OP, group)
    return files


def _checksum() -> Callable[[Any], int]:
    """The function that computes a CRC-32C.  Local.  Raises StorageError where zarr is not installed."""
    try:
        value: Callable[[Any], int] = import_module("google_crc32c").value
    except ImportError:
        raise StorageError(f"{_OP}: zarr is not installed; 'pip install \"zarr>=3\"' installs it") from None
    return value


def _make_folders(team: Team, folder: Path, members: Sequence[_Member]) -> None:
    """The folders of all chunks, so that no two processes make one at a time."""
    made = []
    for member in members:
        base = folder / member.folder
        if member.folder:
            made.append(base)
        if member.array.ndim and 0 not in member.array.shape:
            counts = [-(-n // chunk) for n, chunk in zip(member.array.shape, member.chunks)]
            for depth in range(len(counts)):
                for number in np.ndindex(*counts[:depth]):
                    made.append(base / chunk_key(number))
    folders = Folders(team.system, _OP)
    for each in made:
        folders.make(each)
    for parent in {each.parent for each in made}:
        folders.sync(parent)


def _write_chunks(team: Team, folder: Path, member: _Member, stage_bytes: int) -> None:
    """Write the chunks that this process holds, or is given.  Collective; errors are kept by the team."""
    a, used = member.array, set[Path]()
    target = aligned_sharding(a.sharding, a.shape, member.chunks)
    for box, cells in in_steps(a, target, member.chunks, stage_bytes):
        with team.trying():
            if not team.failed:
                used |= _write_box(team, folder, member, box, cells)
    with team.trying():
        for each in used:
            Folders(team.system, _OP).sync(each)


def _write_box(team: Team, folder: Path, member: _Member, box: Box, cells: np.ndarray) -> set[Path]:
    """Write the chunks in ``box``, and return the folders of their files.  Local."""
    checksum, used = _checksum(), set[Path]()
    whole = np.zeros(member.chunks, member.dtype)  # chunks at the upper edges are as large as all others
    for number in chunks_in(box, member.chunks):
        starts = tuple([n * extent for n, extent in zip(number, member.chunks)])
        chunk = Box(starts, tuple([start + extent for start, extent in zip(starts, member.chunks)]))
        inside = chunk.intersect(box)
        if inside != chunk:
            whole[...] = 0
        view_of(whole, inside.relative_to(chunk.starts))[...] = view_of(cells, inside.relative_to(box.starts))
        path = folder / chunk_key(number)
        raw = whole.reshape(-1).view(np.uint8)
        write_file(team, path, (raw, checksum(raw).to_bytes(4, "little")))
        used.add(path.parent)
    return used


def _write_texts(team: Team, folder: Path, texts: Mapping[str, bytes]) -> None:
    for name, text in texts.items():
        write_file(team, folder / name, (text,))
    for each in {(folder / name).parent for name in texts}:
        Folders(team.system, _OP).sync(each)
