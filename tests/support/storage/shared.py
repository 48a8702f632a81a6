"""Shared by tests of storage: a folder that all ranks see, and arrays of many layouts."""

import contextlib
import shutil
import tempfile
from pathlib import Path

import numpy as np

import spmd_grid as sg

# Cases by name: split axes on a 2x3 grid, and options of the sharding.
LAYOUTS = {
    "rows": ([[0, 1]], {}),
    "columns": ([[], [1]], {}),
    "both, swapped, with halos": ([[1], [0]], {"halo_sizes": [1, 2, 0, 1]}),
    "balanced, one axis left": ([[0]], {"blocks": "balanced"}),
    "whole": ([], {}),
    "partial": ([[1]], {"partial_axes": [0]}),
    "major last": ([[], [1, 0]], {"blocks": "balanced"}),
}


@contextlib.contextmanager
def common_folder(grid):
    """A new folder, the same on all ranks, which is removed at the end."""
    made = tempfile.mkdtemp() if grid.rank == 0 else ""
    text = np.frombuffer(made.encode(), np.uint8) if grid.rank == 0 else None
    path = Path(sg.broadcast(text, grid, None, root=[0] * grid.ndim).tobytes().decode())
    yield path
    sg.all_reduce(1, grid, None, "sum")
    if grid.rank == 0:
        shutil.rmtree(path, ignore_errors=True)


def values(shape, dtype):
    """Values that differ from cell to cell, of any dtype."""
    dtype = np.dtype(dtype)
    n = int(np.prod(shape, dtype=int))
    if dtype.type is np.void:
        raw = np.arange(n * dtype.itemsize, dtype=np.uint64).astype(np.uint8) % 251
        return raw.view(dtype).reshape(shape) if n else np.empty(shape, dtype)
    if dtype.kind in "SU":
        return np.array([f"s{i}" for i in range(n)], dtype).reshape(shape)
    numbers = np.arange(1, n + 1).reshape(shape)
    return numbers.astype(dtype) if dtype.kind != "c" else (numbers - 2j * numbers).astype(dtype)
