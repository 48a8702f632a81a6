"""Saving arrays for ParaView: every process writes the file of its block, the first one the list of all files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.errors import ShapeError, SpmdError, StorageError
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.grid.box import Box, pieces_of
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import gate_of
from spmd_grid.storage.arguments import as_path
from spmd_grid.storage.files.blocks import aligned_sharding, resharded
from spmd_grid.storage.files.named_arrays import Arrays, common_grid, described, named_arrays
from spmd_grid.storage.files.publishing import published, refuse_existing, remove_tree, write_file
from spmd_grid.storage.files.vtk_format import PIECE_END, Image, piece_text, vtk_dtype, whole_text
from spmd_grid.storage.system import Folders
from spmd_grid.storage.team import Team
from spmd_grid.typing import MultiIndex

__all__ = ["save_vtk"]

_OP = "save_vtk"
_PIECE_BYTES = 1 << 26  # of a block that is not contiguous, packed at a time
Numbers = float | Sequence[float]


def save_vtk(path: object, arrays: Arrays, *, origin: Numbers = 0.0, spacing: Numbers = 1.0) -> None:
    """Save one array or several named ones as an image for ParaView: ``path``, ``NAME.pvti``, and a folder ``NAME``.

    Collective over the grid of the arrays, of one shape with one to three dimensions, the last one along x.  Every
    process writes one file, of its block; arrays that are cut otherwise than the first one are brought to its cuts.
    Values belong to cells, whose centres lie where ``a.coordinates(origin, spacing)`` says.  Bools become bytes.

    Both appear when all is on the disk, ``path`` last; nothing is overwritten.  Raises `StorageError`, `ShapeError`,
    `DTypeError`, `GridError` and `MismatchError`, the same on every process.
    """
    grid = common_grid(_OP, arrays)
    gate_of(_OP, grid).run(_OP, _save, path, arrays, grid, origin, spacing)


def _save(path: object, arrays: Arrays, grid: ProcessGrid, origin: Numbers, spacing: Numbers) -> None:
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
            refuse_existing(_OP, target)  # before the pieces are written
        text = f"path {str(target)!r}, {described(arrays)}, {image.attributes()}"
    team.agree()
    team.agree(text)
    folders, pieces = Folders(team.system, _OP), target.with_suffix("")
    with published(team, pieces, is_folder=True) as folder:
        first = next(iter(named.values()))
        sharding = aligned_sharding(first.sharding, first.shape, (1,) * first.ndim)
        cut = {name: resharded(a, sharding) for name, a in named.items()}
        boxes = _boxes(target.stem, next(iter(cut.values())).layout)
        with team.trying():
            _write_piece(team, folder, boxes, image, cut, dtypes)
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


def _write_piece(
    team: Team,
    folder: Path,
    boxes: Mapping[MultiIndex, tuple[str, Box]],
    image: Image,
    cut: Mapping[str, ShardedArray],
    dtypes: Mapping[str, np.dtype],
) -> None:
    """Write this process's file, if it has one.  Local."""
    own = boxes.get(next(iter(cut.values())).grid.own_coords)
    if own is not None:
        name, box = own
        write_file(team, folder / name, _piece(image, box, cut, dtypes))


def _piece(
    image: Image, box: Box, cut: Mapping[str, ShardedArray], dtypes: Mapping[str, np.dtype]
) -> Iterator[bytes | np.ndarray]:
    """The parts of a file, cells as flat bytes."""
    yield piece_text(image, box, dtypes)
    for name, dtype in dtypes.items():
        yield (box.size * dtype.itemsize).to_bytes(8, "little")
        core = cut[name].stored_core
        for piece in pieces_of(box, max(_PIECE_BYTES // dtype.itemsize, 1)):
            cells = view_of(core, piece.relative_to(box.starts))
            yield np.ascontiguousarray(cells, dtype).reshape(-1).view(np.uint8)
    yield PIECE_END
