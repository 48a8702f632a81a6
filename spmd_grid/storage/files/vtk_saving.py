"""Saving arrays for ParaView: every process writes the file of its block, the first one the list of all files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.errors import ShapeError, SpmdError, StorageError
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.grid.box import Box, pieces_of
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.arguments import gate_of
from spmd_grid.storage.arguments import as_path, check_bytes
from spmd_grid.storage.files.blocks import aligned_sharding
from spmd_grid.storage.files.named_arrays import Arrays, common_grid, described, named_arrays
from spmd_grid.storage.files.publishing import published, refuse_existing, remove_tree, write_file
from spmd_grid.storage.files.steps import in_steps
from spmd_grid.storage.files.vtk_format import PIECE_END, Image, piece_text, vtk_dtype, whole_text
from spmd_grid.storage.paths import File, Folders
from spmd_grid.storage.ranges.move import STAGE_BYTES
from spmd_grid.storage.team import Team
from spmd_grid.typing import MultiIndex

__all__ = ["save_vtk"]

_OP = "save_vtk"
_PIECE_BYTES = 1 << 24  # of a block that is not contiguous, packed at a time
Numbers = float | Sequence[float]


def save_vtk(
    path: object,
    arrays: Arrays,
    *,
    origin: Numbers = 0.0,
    spacing: Numbers = 1.0,
    stage_bytes: int = STAGE_BYTES,
) -> None:
    """Save one array or several named ones as an image for ParaView: ``path``, ``NAME.pvti``, and a folder ``NAME``.

    Collective over the grid of the arrays, of one shape with one to three dimensions, the last one along x.  Every
    process writes one file, of its block; arrays that are cut otherwise than the first one are brought to its cuts, in
    at most ``stage_bytes`` of memory.
    Values belong to cells, whose centres lie where ``a.coordinates(origin, spacing)`` says.  Bools become bytes.

    Both appear when all is on the disk, ``path`` last; nothing is overwritten.  Raises `StorageError`, `ShapeError`,
    `DTypeError`, `GridError` and `MismatchError`, the same on every process.
    """
    grid = common_grid(_OP, arrays)
    check_bytes(_OP, "stage_bytes", stage_bytes)
    gate_of(_OP, grid).run(_OP, _save, path, arrays, grid, origin, spacing, stage_bytes)


def _save(path: object, arrays: Arrays, grid: ProcessGrid, origin: Numbers, spacing: Numbers, stage_bytes: int) -> None:
    team = Team(_OP, [grid])
    text = ""
    with team.trying():
        target = as_path(_OP, path)
        if target.suffix != ".pvti":
            raise StorageError(f"{_OP}: path is {str(target)!r}; its name must end in .pvti")
        named = named_arrays(arrays, target.stem)
        image = _image(named, origin, spacing)
        dtypes = {name: vtk_dtype(_OP, name, a.dtype) for name, a in named.items()}
        if team.is_first:
            _refuse_existing(target)  # before the pieces are written
        text = f"path {str(target)!r}, {described(arrays)}, {image.attributes()}, {stage_bytes} bytes"
    team.agree()
    team.agree(text)
    folders, pieces = Folders(team.system, _OP), target.with_suffix("")
    with published(team, pieces, is_folder=True) as folder:
        first = next(iter(named.values()))
        sharding = aligned_sharding(first.sharding, first.shape, (1,) * first.ndim)
        boxes = _boxes(target.stem, Layout(sharding, first.shape))
        piece = boxes.get(grid.own_coords)
        with _Piece(team, None if piece is None else folder / piece[0]) as file:
            if piece is not None:
                file.write(piece_text(image, piece[1], dtypes))
            for name, a in named.items():
                _write_cells(file, a, sharding, dtypes[name], stage_bytes)
            file.write(PIECE_END)
        team.agree()
        with team.trying():
            if team.is_first:
                folders.sync(folder)
        team.agree()
    try:
        with published(team, target) as file:
            with team.trying():
                if team.is_first:
                    paths = {f"{pieces.name}/{name}": box for name, box in boxes.values()}
                    write_file(team, file, (whole_text(image, paths, dtypes),))
            team.agree()
    except SpmdError:
        if team.is_first:
            remove_tree(folders, pieces)
        raise


def _refuse_existing(target: Path) -> None:
    """Refuse names that are there already.  Local.  Raises StorageError."""
    refuse_existing(_OP, target)
    try:
        refuse_existing(_OP, target.with_suffix(""))
    except StorageError as error:
        raise StorageError(
            f"{error}; {target.name} is not, so that a program which was killed while it saved may have left it"
        ) from None


def _image(named: Mapping[str, ShardedArray], origin: Numbers, spacing: Numbers) -> Image:
    """The cells of the arrays.  Local.  Raises ShapeError."""
    (first_name, first), *others = named.items()
    for name, a in others:
        if a.shape != first.shape:
            raise ShapeError(
                f"{_OP}: {name!r} has shape {a.shape}, {first_name!r} has {first.shape}; they must be equal"
            )
    if not 1 <= first.ndim <= 3 or 0 in first.shape:
        raise ShapeError(f"{_OP}: {first_name!r} has shape {first.shape}; images have one to three dimensions of cells")
    return Image(first.shape, _per_dim("origin", origin, first.ndim), _per_dim("spacing", spacing, first.ndim))


def _per_dim(what: str, value: Numbers, ndim: int) -> list[float]:
    try:
        numbers = np.broadcast_to(np.asarray(value, np.float64), ndim)
    except (TypeError, ValueError):
        numbers = np.full(ndim, np.nan)
    if not np.isfinite(numbers).all() or (what == "spacing" and (numbers <= 0).any()):
        rule = "positive numbers" if what == "spacing" else "numbers"
        raise ShapeError(f"{_OP}: {what} is {value!r}; it must be one or {ndim} finite {rule}")
    return numbers.tolist()


def _boxes(stem: str, layout: Layout) -> dict[MultiIndex, tuple[str, Box]]:
    """Name and cells of every file, by the device that writes it.  Local."""
    found = {}
    for device in range(layout.grid.size):
        coords = layout.grid.multi_index(device)
        box = layout.core_box(coords)
        if layout.is_owner(coords) and not box.is_empty:
            found[coords] = f"{stem}_{device}.vti", box
    return found


class _Piece:
    """The file of this process, written from its start to its end, if it has one.  Errors are kept by the team."""

    def __init__(self, team: Team, path: Path | None):
        self._team, self._path, self._at = team, path, 0
        self._file: File | None = None

    def write(self, data: np.ndarray | bytes) -> None:
        """Write what follows.  Local."""
        with self._team.trying():
            if self._file is not None and not self._team.failed:
                self._file.write(data, self._at)
                self._at += len(data)

    def __enter__(self) -> _Piece:
        with self._team.trying():
            if self._path is not None:
                self._file = File.create(self._team.system, _OP, self._path)
        return self

    def __exit__(self, *exc_info: object) -> None:
        with self._team.trying():
            if self._file is not None:
                with self._file as file:
                    file.sync()


def _write_cells(file: _Piece, a: ShardedArray, sharding: Sharding, dtype: np.dtype, stage_bytes: int) -> None:
    """Write the cells that ``sharding`` gives to this process, and the number of their bytes.  Collective."""
    layout = Layout(sharding, a.shape)
    file.write((layout.core_box(a.grid.own_coords).size * dtype.itemsize).to_bytes(8, "little"))
    most = max(min(_PIECE_BYTES, stage_bytes // 4) // dtype.itemsize, 1)
    for box, cells in in_steps(a, sharding, (1,) * a.ndim, stage_bytes):
        for piece in pieces_of(box, most):
            some = view_of(cells, piece.relative_to(box.starts))
            file.write(np.ascontiguousarray(some, dtype).reshape(-1).view(np.uint8))
