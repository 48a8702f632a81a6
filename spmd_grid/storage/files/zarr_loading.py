"""Loading zarr arrays into any layout: every process reads the chunks that its cells need."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.errors import StorageError
from spmd_grid.grid.box import Box
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.arguments import gate_of
from spmd_grid.storage.arguments import as_path
from spmd_grid.storage.files.blocks import chunks_in
from spmd_grid.storage.files.reading import read_into_layout
from spmd_grid.storage.files.zarr_codecs import check_codecs

__all__ = ["load_zarr"]

_OP = "load_zarr"
_opening = threading.Lock()  # zarr starts a thread when it is first used, and ranks that are threads might start two


def load_zarr(
    path: object,
    sharding: Sharding,
    grid: ProcessGrid,
    *,
    name: str | None = None,
    dtype: DTypeLike | None = None,
    fill_missing: bool = False,
) -> ShardedArray:
    """Load an array that zarr can read, in any layout; ``name``: that of an array of the group ``path``.

    Collective over the grid; no messages carry cells: every process reads its own, those of halos included.  The result
    has the file's dtype, or ``dtype``.  A missing chunk is an error.  With ``fill_missing`` its cells get the fill
    value, as zarr itself does it, since programs may leave out chunks that hold nothing else.

    Needs zarr, the extra ``[zarr]``.  Raises `StorageError`, `ShardingError`, `DTypeError` and `GridError`, the same
    on every process.
    """

    def open_source() -> _Source:
        return _Source(as_path(_OP, path), name, fill_missing)

    return gate_of(_OP, grid).run(_OP, read_into_layout, _OP, open_source, sharding, grid, dtype)


class _Source:
    """An array in a folder, opened by zarr."""

    def __init__(self, path: Path, name: str | None, fill_missing: bool):
        try:
            zarr = import_module("zarr")
        except ImportError:
            raise StorageError(f"{_OP}: zarr is not installed; 'pip install \"zarr>=3\"' installs it") from None
        self.folder = path if name is None else path / name
        self.text = str(self.folder)
        if not self.folder.is_dir():
            raise StorageError(f"{_OP}: {self.text!r} is no folder; a zarr array is one")
        check_codecs(_OP, self.folder)
        try:
            with _opening:
                found = zarr.open(self.folder, mode="r")
        except Exception as error:  # whatever zarr finds wrong with the metadata
            raise StorageError(f"{_OP}: {self.text!r} is no zarr array ({type(error).__name__}: {error})") from None
        if not isinstance(found, zarr.Array):
            names = ", ".join(sorted(dict(found.arrays())))
            raise StorageError(f"{_OP}: {self.text!r} is a group; pass name=, one of: {names or 'none'}")
        self._array: Any = found
        self._fill_missing = fill_missing
        self.shape = tuple(found.shape)
        self.dtype = np.dtype(found.dtype)

    def check(self, box: Box) -> None:
        """Refuse a box of which chunks are missing.  Local.  Raises StorageError."""
        if self._fill_missing:
            return
        chunks: Sequence[int] = self._array.shards or self._array.chunks
        for number in chunks_in(box, chunks):
            key = self._array.metadata.encode_chunk_key(number)
            if not os.path.isfile(self.folder / key):
                raise StorageError(
                    f"{_OP}: chunk {key!r} of {self.text!r} is missing; fill_missing=True takes its fill value"
                    f" {self._array.fill_value!r} instead"
                )

    def read(self, box: Box) -> np.ndarray:
        """The cells of ``box``.  Local."""
        return np.asarray(self._array[box.slices()])

    def close(self) -> None:
        pass
