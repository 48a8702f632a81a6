"""Loading HDF5 and netCDF-4 datasets into any layout: every process reads its own cells, with any build of h5py."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.errors import StorageError
from spmd_grid.file_text import open_regular
from spmd_grid.grid.box import Box
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.arguments import gate_of
from spmd_grid.storage.arguments import as_path
from spmd_grid.storage.files.reading import read_into_layout

__all__ = ["h5py_for", "load_hdf5"]

_OP = "load_hdf5"
_MOST_BYTES = 1 << 63  # any: only what is asked for is read
_CLASSIC = b"CDF"  # the first bytes of netCDF files before version 4


def load_hdf5(
    path: object,
    name: str,
    sharding: Sharding,
    grid: ProcessGrid,
    *,
    dtype: DTypeLike | None = None,
) -> ShardedArray:
    """Load the dataset ``name`` of an HDF5 or netCDF-4 file, in any layout.

    Collective over the grid; no messages carry cells: every process reads its own, those of halos included.  The result
    has the file's dtype, or ``dtype``.  Values are as stored: netCDF's scales, offsets and fill values are not applied.

    Needs h5py, the extra ``[hdf5]``; any build does.  Raises `StorageError`, `ShardingError`, `DTypeError` and
    `GridError`, the same on every process.
    """

    def open_source() -> _Source:
        return _Source(as_path(_OP, path), name)

    return gate_of(_OP, grid).run(_OP, read_into_layout, _OP, open_source, sharding, grid, dtype)


def h5py_for(op: str) -> ModuleType:
    """The module h5py.  Local.  Raises StorageError where it is not installed."""
    try:
        return import_module("h5py")
    except ImportError:
        raise StorageError(f"{op}: h5py is not installed; 'pip install h5py' installs it") from None


class _Source:
    """A dataset in a file, opened by h5py."""

    def __init__(self, path: Path, name: str):
        h5py = h5py_for(_OP)
        with open_regular(path, _MOST_BYTES) as file:
            start = file.read(len(_CLASSIC))
        if start == _CLASSIC:
            raise StorageError(
                f"{_OP}: {str(path)!r} is a netCDF file of the classic format; 'nccopy -k netCDF-4 OLD NEW' makes one"
                " that is HDF5"
            )
        try:
            self._file: Any = h5py.File(path, "r")
        except OSError as error:
            raise StorageError(f"{_OP}: {str(path)!r} is no HDF5 file: {error}") from None
        try:
            self._dataset = self._find(h5py, path, name)
        except BaseException:
            self._file.close()
            raise
        self.text = f"{path}:{name}"
        self.shape = tuple(self._dataset.shape)
        self.dtype = np.dtype(self._dataset.dtype)

    def _find(self, h5py: ModuleType, path: Path, name: str) -> Any:
        found = self._file.get(name) if isinstance(name, str) else None
        if not isinstance(found, h5py.Dataset) or found.shape is None:
            names: list[str] = []
            self._file.visititems(lambda each, item: names.append(each) if isinstance(item, h5py.Dataset) else None)
            raise StorageError(f"{_OP}: {str(path)!r} has no dataset {name!r}; it has {', '.join(names) or 'none'}")
        return found

    def check(self, box: Box) -> None:
        """Nothing: h5py finds missing parts itself."""

    def read(self, box: Box) -> np.ndarray:
        """The cells of ``box``.  Local."""
        return np.asarray(self._dataset[(..., *box.slices())])

    def close(self) -> None:
        self._file.close()
