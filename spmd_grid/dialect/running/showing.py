"""Values as text, and results in files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.dialect.execute.faults import ExecutionError
from spmd_grid.dialect.execute.values import Undefined

__all__ = ["in_lines", "in_one_line", "saved"]

_MOST_CELLS = 64  # shown whole


def in_one_line(x: Any) -> str:
    """A value in one line; large arrays are shortened."""
    if isinstance(x, Undefined):
        return str(x)
    array = np.asarray(x)
    if not array.ndim:
        return str(array[()])
    shown = np.array2string(array, threshold=_MOST_CELLS, edgeitems=2, separator=", ", max_line_width=10**9)
    return " ".join(shown.split())


def in_lines(x: Any) -> str:
    """A value as numpy shows it."""
    if isinstance(x, Undefined):
        return str(x)
    return np.array2string(np.asarray(x), threshold=1000, separator=", ")


def saved(path: str, results: Sequence[Any] | Any, grid: tuple[int, ...] | None) -> None:
    """Write a result to a file of numpy's.

    ``grid``: None where ``results`` is one whole array; else its shape, and ``results`` are those of all devices: a
    .npy file has the grid's dimensions in front, a .npz file one array per device.  Raises ExecutionError.
    """
    held = [results] if grid is None else [x for x in results if not _is_missing(x)]
    if any(np.asarray(x).dtype.hasobject for x in held):
        raise ExecutionError(f"output {path}: a sharding is no array, and is not written to a file")
    try:
        if grid is None:
            np.save(path, np.asarray(results))
            return
        devices = list(np.ndindex(*grid))
        if path.endswith(".npz"):
            named = {",".join(map(str, at)): np.asarray(x) for at, x in zip(devices, results) if not _is_missing(x)}
            np.savez(path, allow_pickle=False, **named)
            return
        arrays = [np.asarray(x) for x in results if not _is_missing(x)]
        if len(arrays) < len(devices) or len({x.shape for x in arrays}) > 1:
            raise ExecutionError(
                f"output {path}: devices hold arrays of several shapes, or none; a name that ends in .npz takes them"
            )
        np.save(path, np.stack(arrays).reshape((*grid, *arrays[0].shape)))
    except OSError as error:
        raise ExecutionError(f"output {path} is not written: {error}") from None


def _is_missing(x: Any) -> bool:
    return isinstance(x, Undefined)
