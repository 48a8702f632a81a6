"""The arrays of a call that saves one array or several with names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.errors import GridError, StorageError
from spmd_grid.grid.process_grid import ProcessGrid

__all__ = ["Arrays", "common_grid", "described", "named_arrays"]

Arrays = ShardedArray | Mapping[str, ShardedArray]


def common_grid(op: str, arrays: Any) -> ProcessGrid:
    """The grid of all arrays.  Local.  Raises StorageError for what is no sharded array, and GridError."""
    found = list(arrays.items()) if isinstance(arrays, Mapping) else [("", arrays)]
    if not found:
        raise StorageError(f"{op}: there are no arrays; at least one must be given")
    for name, a in found:
        if not isinstance(name, str) or (isinstance(arrays, Mapping) and not _is_plain(name)):
            raise StorageError(f"{op}: {name!r} is no name of an array; it must be letters, digits and ' _-.'")
        if not isinstance(a, ShardedArray):
            raise StorageError(f"{op}: array {name!r} is a {type(a).__name__}; it must be a ShardedArray")
    grid: ProcessGrid = found[0][1].grid
    for name, a in found:
        if a.grid is not grid:
            raise GridError(f"{op}: array {name!r} is on another grid than {found[0][0]!r}; all must be on one")
    grid.check_use(op)
    return grid


def named_arrays(arrays: Arrays, name: str) -> dict[str, ShardedArray]:
    """The arrays by name; ``name`` is that of a single one.  Local."""
    return dict(arrays) if isinstance(arrays, Mapping) else {name: arrays}


def described(arrays: Arrays) -> str:
    """A line that is equal for arrays of the same names, dtypes and layouts.  Local."""
    named = named_arrays(arrays, "array")
    return "; ".join(f"{name}: {a.dtype.str} {a.layout}" for name, a in named.items())


def _is_plain(name: str) -> bool:
    return bool(name.strip(". ")) and all(letter.isalnum() or letter in " _-." for letter in name)
