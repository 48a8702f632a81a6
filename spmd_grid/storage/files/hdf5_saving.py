"""Saving arrays as HDF5 and netCDF-4, by all processes at once, with any build of h5py.

The first process makes the file with h5py: its datasets are contiguous, with space set aside and nothing written to it.
h5py says where each dataset lies in the file, and all processes write their parts there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.errors import DTypeError, ShapeError, StorageError
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import gate_of
from spmd_grid.storage.arguments import as_attributes, as_path
from spmd_grid.storage.files.hdf5_loading import h5py_for
from spmd_grid.storage.files.named_arrays import Arrays, common_grid, described, named_arrays
from spmd_grid.storage.files.publishing import published
from spmd_grid.storage.paths import File
from spmd_grid.storage.ranges.blocks import BLOCK_BYTES, Blocks
from spmd_grid.storage.ranges.move import give_blocks
from spmd_grid.storage.team import Team

__all__ = ["save_hdf5"]

_OP = "save_hdf5"
# The text with which netCDF-4 marks a dimension that has no coordinates.
_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable.%10d"


class _Options(NamedTuple):
    """The options of a call."""

    dimension_names: Sequence[str] | None
    attributes: Mapping[str, Any]


def save_hdf5(
    path: object,
    arrays: Mapping[str, ShardedArray],
    *,
    dimension_names: Sequence[str] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Save named arrays as the datasets of an HDF5 file, which is a netCDF-4 file too.

    Collective over the grid of the arrays.  All processes write, with any build of h5py; datasets are contiguous.
    ``dimension_names``: the netCDF dimensions; of arrays with fewer dimensions, the last names count.  ``attributes``:
    those of the file.

    The file appears when all is on the disk, and is never overwritten.  Needs h5py, the extra ``[hdf5]``.  Raises
    `StorageError`, `ShapeError`, `DTypeError`, `GridError` and `MismatchError`, the same on every process.
    """
    grid = common_grid(_OP, arrays)
    options = _Options(dimension_names, as_attributes(_OP, attributes))
    gate_of(_OP, grid).run(_OP, _save, path, arrays, grid, options)


def _save(path: object, arrays: Arrays, grid: ProcessGrid, options: _Options) -> None:
    team = Team(_OP, [grid])
    text = ""
    with team.trying():
        target = as_path(_OP, path)
        if not isinstance(arrays, Mapping):
            raise StorageError(f"{_OP}: arrays is a ShardedArray; it must be a dict of names and arrays")
        named = named_arrays(arrays, "")
        _check(named, options)
        text = f"path {str(target)!r}, {described(arrays)}, {options}"
    team.agree()
    team.agree(text)
    with published(team, target) as file:
        offsets = np.zeros(len(named), np.int64)
        with team.trying():
            if team.is_first:
                offsets[:] = _make_file(file, named, options)
        team.agree()
        offsets = np.frombuffer(team.tell(offsets.tobytes()), np.int64)
        for a, offset in zip(named.values(), offsets.tolist()):
            _write(team, file, a, offset)


def _check(named: Mapping[str, ShardedArray], options: _Options) -> None:
    """Refuse what HDF5 or netCDF cannot have.  Local.  Raises `DTypeError`, `ShapeError` and `StorageError`."""
    h5py = h5py_for(_OP)
    for name, a in named.items():
        try:
            h5py.h5t.py_create(a.dtype, logical=True)
        except (TypeError, ValueError) as error:
            raise DTypeError(f"{_OP}: {name!r} has dtype {a.dtype}, which HDF5 does not have: {error}") from None
    for key, value in options.attributes.items():
        if not isinstance(key, str) or not (isinstance(value, str) or np.asarray(value).dtype.kind in "biufc"):
            raise StorageError(f"{_OP}: attribute {key!r} is {value!r}; it must be a text, a number, or numbers")
    names, extents = options.dimension_names, dict[str, int]()
    if names is None:
        return
    most = max(a.ndim for a in named.values())
    listed = [] if isinstance(names, str) else list(names)
    if len(listed) < most or not all(isinstance(each, str) and each for each in listed):
        raise ShapeError(f"{_OP}: dimension_names is {names!r}; it must list at least {most} names")
    for name, a in named.items():
        for dim, extent in zip(listed[len(listed) - a.ndim :], a.shape):
            if extents.setdefault(dim, extent) != extent:
                raise ShapeError(f"{_OP}: {name!r} has extent {extent} along {dim!r}; another array has {extents[dim]}")
            if dim in named:
                raise StorageError(f"{_OP}: {dim!r} is the name of an array and of a dimension; names must differ")


def _make_file(path: Path, named: Mapping[str, ShardedArray], options: _Options) -> list[int]:
    """Make the file, with space for all cells; the offsets of the datasets, 0 where there are no cells.  Local."""
    h5py = h5py_for(_OP)
    with h5py.File(path, "x", libver=("earliest", "v110"), track_order=True) as file:
        for key, value in options.attributes.items():
            file.attrs[key] = value
        scales: dict[str, Any] = {}
        for name, a in named.items():
            dataset = _make_dataset(h5py, file, name, a)
            dims = [] if options.dimension_names is None else list(options.dimension_names)[-a.ndim :] if a.ndim else []
            for number, dim in enumerate(dims):
                if dim not in scales:
                    scales[dim] = file.create_dataset(dim, (a.shape[number],), ">f4")
                    scales[dim].make_scale(_NO_VARIABLE % a.shape[number])
                    scales[dim].attrs["_Netcdf4Dimid"] = np.int32(len(scales) - 1)
                dataset.dims[number].attach_scale(scales[dim])
        file.flush()
        return [file[name].id.get_offset() or 0 for name in named]


def _make_dataset(h5py: Any, file: Any, name: str, a: ShardedArray) -> Any:
    """A contiguous dataset with space in the file, to which h5py writes nothing."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    properties.set_attr_creation_order(h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED)
    space = h5py.h5s.create_simple(a.shape) if a.ndim else h5py.h5s.create(h5py.h5s.SCALAR)
    kind = h5py.h5t.py_create(a.dtype, logical=True)
    return h5py.Dataset(h5py.h5d.create(file.id, name.encode(), kind, space, dcpl=properties))


def _write(team: Team, path: Path, a: ShardedArray, offset: int) -> None:
    """Write the cells of ``a`` from ``offset`` on, and bring the file to the disk.  Collective over the team."""
    blocks = Blocks(a.shape, a.dtype.itemsize, BLOCK_BYTES)
    file: File | None = None
    with team.trying():
        file = File.to_write(team.system, _OP, path)
    try:
        team.agree()
        assert file is not None, "a refusal raises on every process"
        writing = file
        give_blocks(a, blocks, lambda block, cells: writing.write(cells, offset + blocks.offset(block)), team)
        with team.trying():
            writing.sync()
            writing.close()
        team.agree()
    finally:
        if file is not None:
            with suppress(StorageError):  # another error is on its way, which all processes raise
                file.close()
