"""Plain ``.npy`` files of sharded arrays: every process writes and reads its part."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.array import ShardedArray
from spmd_grid.errors import DTypeError, StorageError
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.arguments import as_dtype, gate_of
from spmd_grid.storage.arguments import as_path, check_array, check_bytes, check_target
from spmd_grid.storage.checksums import in_pieces
from spmd_grid.storage.files.blocks import edges_of
from spmd_grid.storage.files.publishing import published
from spmd_grid.storage.new_local import new_local
from spmd_grid.storage.npy_format import header_of, read_header, stored_dtype
from spmd_grid.storage.paths import File
from spmd_grid.storage.ranges.blocks import BLOCK_BYTES, Blocks
from spmd_grid.storage.ranges.move import STAGE_BYTES, give_blocks, take_blocks
from spmd_grid.storage.team import Team

__all__ = ["load_npy", "save_npy"]


def save_npy(
    path: str | os.PathLike[str],
    a: ShardedArray,
    *,
    stage_bytes: int = STAGE_BYTES,
) -> Path:
    """Write a sharded array as a ``.npy`` file, the same bytes as ``numpy.save`` writes of the global array.

    Collective over the array's grid.  Every process writes its part, into a new file beside ``path`` that is then
    brought to the disk and renamed; so ``path`` holds the old file or the new one, never a part.  A process uses at
    most ``stage_bytes`` of memory besides its arrays.  Result: the path.  Elements that numpy does not know, such as
    bfloat16, are written as raw bytes.  Raises `StorageError` where a system call fails on any process, and
    `DTypeError`, the same on every process.

    >>> import tempfile, numpy as np, spmd_grid as sg
    >>> def body(path):
    ...     grid = sg.init_grid((3,))
    ...     return str(sg.save_npy(path, sg.from_global(np.arange(7), sg.Sharding(grid, [[0]]), grid)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = np.load(sg.run_spmd(body, f"{folder}/a.npy", ranks=3)[1])
    >>> found
    array([0, 1, 2, 3, 4, 5, 6])
    """
    check_array("save_npy", "a", a)
    check_bytes("save_npy", "stage_bytes", stage_bytes)
    return gate_of("save_npy", a.grid).run("save_npy", _save_npy, as_path("save_npy", path), a, stage_bytes)


def _save_npy(path: Path, a: ShardedArray, stage_bytes: int) -> Path:
    team = Team("save_npy", [a.grid])
    header = header_of(stored_dtype(team.op, a.dtype), a.shape)
    blocks = Blocks(a.shape, a.dtype.itemsize, min(BLOCK_BYTES, max(stage_bytes // 4, 1)))
    team.agree(f"{path}, {stage_bytes} bytes")
    with published(team, path, replaces=True) as hidden:
        with team.trying():
            if team.is_first:
                with File.create(team.system, team.op, hidden) as file:
                    file.truncate(len(header) + blocks.n_bytes)
                    file.write(header, 0)
        team.agree()
        _write_blocks(team, hidden, a, blocks, len(header), stage_bytes)
    return path


def _write_blocks(team: Team, path: Path, a: ShardedArray, blocks: Blocks, start: int, stage_bytes: int) -> None:
    file: File | None = None
    with team.trying():
        file = File.to_write(team.system, team.op, path)
    team.agree()
    assert file is not None, "a refusal raises on every process"
    with file:

        def write(block: int, cells: np.ndarray) -> None:
            file.write(cells, start + blocks.offset(block))
            file.start_sync(start + blocks.offset(block), cells.nbytes)

        give_blocks(a, blocks, write, team, stage_bytes)
        with team.trying():
            file.sync()
            file.close()
        team.agree()


def load_npy(
    path: str | os.PathLike[str],
    sharding: Sharding,
    grid: ProcessGrid,
    *,
    dtype: DTypeLike | None = None,
    stage_bytes: int = STAGE_BYTES,
) -> ShardedArray:
    """A sharded array of the values in a ``.npy`` file; every process reads its part.

    Collective over the grid.  Halo cells in the domain are filled, those outside are 0.  ``dtype``: values are
    converted to it (within the same kind); raw bytes are taken as elements of it, if of equal size.  A process uses at
    most ``stage_bytes`` of memory besides its array.  Objects are never unpickled.  Raises `DamagedError` for a file
    that is not a whole ``.npy`` file, `StorageError` where there is none or a system call fails, `ShardingError` where
    the sharding does not fit the shape, and `DTypeError`, the same on every process.

    >>> import tempfile, numpy as np, spmd_grid as sg
    >>> def body(path):
    ...     grid = sg.init_grid((3,))
    ...     return sg.load_npy(path, sg.Sharding(grid, [[0]], halo_sizes=[1, 0]), grid).local.tolist()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/a.npy", np.arange(1, 8))
    ...     sg.run_spmd(body, f"{folder}/a.npy", ranks=3)
    [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7]]
    """
    check_target("load_npy", sharding, grid)
    check_bytes("load_npy", "stage_bytes", stage_bytes)
    wanted = as_dtype("load_npy", dtype)
    return gate_of("load_npy", grid).run(
        "load_npy", _load_npy, as_path("load_npy", path), sharding, grid, wanted, stage_bytes
    )


def _load_npy(
    path: Path, sharding: Sharding, grid: ProcessGrid, wanted: np.dtype | None, stage_bytes: int
) -> ShardedArray:
    team = Team("load_npy", [grid])
    file = header = None
    with team.trying():
        file = File.to_read(team.system, team.op, path, StorageError)
        header = read_header(team.op, file)
        file.will_be_read()
    try:
        team.agree(f"{path}, {sharding}, {wanted}, {header}")
        assert file is not None and header is not None, "a refusal raises on every process"
        stored = header.dtype
        if wanted is not None and stored.kind == "V" and stored.names is None and stored.itemsize == wanted.itemsize:
            stored = wanted
        element = stored if wanted is None else wanted
        if not np.can_cast(stored, element, "same_kind"):
            raise DTypeError(f"load_npy: {path} holds {stored}, which does not convert to {element}")
        layout = Layout(sharding, header.shape)
        array = ShardedArray(new_local(team, layout, element, grid), layout, grid)
        filled = _reversed(array) if header.fortran_order else array
        blocks = Blocks(filled.shape, stored.itemsize, min(BLOCK_BYTES, max(stage_bytes // 4, 1)))
        start = header.offset

        def read(block: int, cells: np.ndarray) -> None:
            for offset, piece in in_pieces(cells):  # faster than all at once
                file.read(piece, start + blocks.offset(block) + offset)

        take_blocks(filled, blocks, stored, read, team, stage_bytes)
    finally:
        if file is not None:
            with suppress(StorageError):
                file.close()
    if sharding.halo_sizes is not None:
        array.refresh_halos()
    return array.with_fresh_halos()


def _reversed(a: ShardedArray) -> ShardedArray:
    """The cells of ``a`` with its dimensions in reverse order, as in a file in Fortran's order: a view.  Local."""
    shape, sharding = a.shape, a.sharding
    dims = range(len(shape) - 1, -1, -1)
    turned = Sharding(
        sharding.grid,
        [sharding.axes_of(dim) for dim in dims],
        sharded_dims_offsets=[edges_of(sharding, dim, shape[dim]) for dim in dims if sharding.axes_of(dim)] or None,
        partial_axes=sharding.partial_axes,
        partial_kind=sharding.partial_kind,
    )
    return ShardedArray(a.core_to_write().T, Layout(turned, shape[::-1]), a.grid)
