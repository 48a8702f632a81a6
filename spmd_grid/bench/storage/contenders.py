"""The ways to save and to load an array: ours, plain system calls of one process, and other libraries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spmd_grid.array import ShardedArray
from spmd_grid.bench.common.rows import OURS
from spmd_grid.bench.libraries.library import AbsentError
from spmd_grid.bench.reshard.libraries.dtensor import DTensor
from spmd_grid.bench.storage.by_hand import fsync_all, read_raw, write_raw
from spmd_grid.bench.storage.report import NO_CHECKSUMS, NPY, RAW
from spmd_grid.storage.checkpoint.load import load
from spmd_grid.storage.checkpoint.manifest import StoredArray
from spmd_grid.storage.checkpoint.save import save
from spmd_grid.storage.checksums import in_pieces
from spmd_grid.storage.files.npy import load_npy, save_npy
from spmd_grid.storage.paths import File

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["LIBRARY_WAYS", "OWN_WAYS", "Way"]


class Way:
    """A way to save the array ``a``, and to load the cells of this rank.  All methods are collective."""

    name: str
    package = ""  # that it needs, if it is another library's
    reads = ""  # the way that saves what this one loads, if it is another one

    def __init__(self, comm: Intracomm):
        self.comm = comm

    def open(self) -> None:
        """Load the library.  Raises AbsentError on all ranks where it is not installed on one."""
        reason = ""
        if self.package:
            try:
                import_module(self.package)
            except ImportError as error:
                reason = f"{self.package} is not installed ({error})"
        first = next(filter(None, self.comm.allgather(reason)), None)
        if first is not None:
            raise AbsentError(first)

    def version(self) -> str:
        return version(self.package)

    def hold(self, a: ShardedArray) -> None:
        """Get ready for ``a``: memory that a program has at hand is not part of the times."""
        self.a = a
        self.cells = a.layout.core_box(a.grid.own_coords).slices()

    def save(self, path: Path) -> None:
        raise NotImplementedError

    def save_beside(self, path: Path, compute: Callable[[], None]) -> None:
        """Save, and compute: at the same time, where the way can."""
        self.save(path)
        compute()

    def load(self, path: Path) -> np.ndarray:
        raise NotImplementedError

    def close(self) -> None:
        """Stop what `open` started."""


# -- ours ------------------------------------------------------------------------------------------------------


class Checkpoint(Way):
    """`spmd_grid.save` and `spmd_grid.load`."""

    name = OURS

    def save(self, path: Path) -> None:
        save(path, {"a": self.a})

    def save_beside(self, path: Path, compute: Callable[[], None]) -> None:
        saving = save(path, {"a": self.a}, wait=False)
        compute()
        saving.wait()

    def load(self, path: Path) -> np.ndarray:
        found: ShardedArray = load(path, {"a": self.a.sharding}, self.a.grid)["a"]
        return found.stored


class Unchecked(Checkpoint):
    """The same without checksums: all are 0, and none is compared."""

    name, reads = NO_CHECKSUMS, OURS

    def save(self, path: Path) -> None:
        with _no_checksums():
            super().save(path)

    def save_beside(self, path: Path, compute: Callable[[], None]) -> None:
        with _no_checksums():
            super().save_beside(path, compute)

    def load(self, path: Path) -> np.ndarray:
        with _no_checksums():
            return super().load(path)


@contextmanager
def _no_checksums() -> Iterator[None]:
    """Let no bytes of blocks be read for their checksums, and none be compared."""
    writing: Any = import_module("spmd_grid.storage.checkpoint.writing")
    loading: Any = import_module("spmd_grid.storage.checkpoint.load")
    kept = writing.checksum, loading.read_block
    try:
        writing.checksum, loading.read_block = lambda cells: 0, _read_unchecked
        yield
    finally:
        writing.checksum, loading.read_block = kept


def _read_unchecked(op: str, file: File, stored: StoredArray, block: int, cells: np.ndarray) -> None:
    """As `read_block`, for which the checksum does not matter."""
    start = len(stored.header) + stored.blocks.offset(block)
    for offset, piece in in_pieces(cells):
        file.read(piece, start + offset)


class Npy(Way):
    """`spmd_grid.save_npy` and `spmd_grid.load_npy`."""

    name = NPY

    def save(self, path: Path) -> None:
        save_npy(path, self.a)

    def load(self, path: Path) -> np.ndarray:
        return load_npy(path, self.a.sharding, self.a.grid).stored


# -- one process -----------------------------------------------------------------------------------------------


class OneProcess(Way):
    """The first rank writes and reads the same number of bytes, of memory of its own, by plain system calls."""

    name, reads = RAW, NPY

    def hold(self, a: ShardedArray) -> None:
        super().hold(a)
        whole = a.to_global(root=(0,))
        self.whole = np.empty(0) if whole is None else whole

    def save(self, path: Path) -> None:
        if self.comm.rank == 0:
            write_raw(path, self.whole)
        self.comm.Barrier()

    def load(self, path: Path) -> np.ndarray:
        if self.comm.rank == 0:
            read_raw(path, self.whole)
        self.comm.Barrier()
        return self.whole[self.cells] if self.comm.rank == 0 else self.a.stored


class NumpySave(Way):
    """``numpy.save`` of the gathered array on the first rank; every rank reads its cells of the mapped file."""

    name, package, reads = "numpy", "numpy", NPY

    def save(self, path: Path) -> None:
        whole = self.a.to_global(root=(0,))
        if whole is not None:
            with open(path, "wb") as file:
                np.save(file, whole)
                file.flush()
                os.fsync(file.fileno())
        self.comm.Barrier()

    def load(self, path: Path) -> np.ndarray:
        return np.array(np.load(path, mmap_mode="r")[self.cells])


class H5py(Way):
    """h5py with one writer, of the gathered array; every rank reads its cells."""

    name = package = "h5py"

    def save(self, path: Path) -> None:
        whole = self.a.to_global(root=(0,))
        if whole is not None:
            with import_module("h5py").File(path, "w") as file:
                file.create_dataset("a", data=whole)
            fsync_all(path)
        self.comm.Barrier()

    def load(self, path: Path) -> np.ndarray:
        with import_module("h5py").File(path, "r") as file:
            cells: np.ndarray = file["a"][self.cells]
        return cells


# -- other libraries of many processes -------------------------------------------------------------------------


class Zarr(Way):
    """zarr, every rank its own chunks of at most 64 MiB, raw; it brings nothing to the disk itself."""

    name = package = "zarr"

    def save(self, path: Path) -> None:
        zarr, a = import_module("zarr"), self.a
        if self.comm.rank == 0:
            rows, columns = a.layout.core_box((0,)).shape
            chunks = max(min(rows, (1 << 26) // (8 * columns)), 1), columns
            zarr.create_array(path, shape=a.shape, chunks=chunks, dtype=a.dtype, compressors=None)
        self.comm.Barrier()
        zarr.open_array(path, mode="r+")[self.cells] = a.stored
        self.comm.Barrier()
        if self.comm.rank == 0:
            fsync_all(path)
        self.comm.Barrier()

    def load(self, path: Path) -> np.ndarray:
        return np.asarray(import_module("zarr").open_array(path, mode="r")[self.cells])


class Dcp(Way):
    """torch's distributed checkpoint of a DTensor, over gloo; with its default of one file per rank."""

    name, package = "DCP", "torch"

    def open(self) -> None:
        self.torch = DTensor(self.comm)
        self.torch.open()
        self.checkpoint: Any = import_module("torch.distributed.checkpoint")

    def _tensor(self, cells: np.ndarray) -> Any:
        torch, shape = self.torch.torch, self.a.shape
        return self.torch.tensor.DTensor.from_local(
            torch.from_numpy(cells),
            self.torch.mesh,
            [self.torch.tensor.Shard(0 if self.a.sharding.axes_of(0) else 1)],
            run_check=False,
            shape=torch.Size(shape),
            stride=torch.empty(shape, device="meta").stride(),
        )

    def save(self, path: Path) -> None:
        self.checkpoint.save({"a": self._tensor(self.a.stored)}, checkpoint_id=str(path))

    def load(self, path: Path) -> np.ndarray:
        cells = np.empty(self.a.stored.shape, self.a.dtype)
        self.checkpoint.load({"a": self._tensor(cells)}, checkpoint_id=str(path))
        return cells

    def close(self) -> None:
        self.torch.close()


OWN_WAYS: Sequence[type[Way]] = (Checkpoint, Unchecked, Npy, OneProcess)
LIBRARY_WAYS: Sequence[type[Way]] = (NumpySave, H5py, Zarr, Dcp)  # in the order of `rows.STORAGE_LIBRARIES`
