"""The array API's account of itself: devices, element types and limits.  Local."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.array_api.arrays import CPU, check_device

__all__ = ["__array_namespace_info__"]

_NAMES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
]
_MOST_DIMENSIONS = 64  # of numpy's arrays


class Info:
    """Answers to the questions that the standard's inspection asks.  Its methods are Local."""

    def capabilities(self) -> dict[str, bool | int]:
        """Whether selections by masks and results of data-dependent shapes exist, and the most dimensions.  Local.

        False where a part of what the standard asks for is refused: masks of another sharding or of fewer dimensions
        than the array, and numbers of repeats in an array that is cut.
        """
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": _MOST_DIMENSIONS}

    def default_device(self) -> str:
        """The device of new arrays.  Local."""
        return CPU

    def devices(self) -> list[str]:
        """All devices: one, since each process computes on its own.  Local."""
        return [CPU]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The element types of arrays whose dtype is not given.  Local."""
        check_device("default_dtypes", device)
        return {
            "real floating": np.dtype("float64"),
            "complex floating": np.dtype("complex128"),
            "integral": np.dtype("int64"),
            "indexing": np.dtype("int64"),
        }

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype]:
        """The element types of a kind, or of several, by name.  Local."""
        check_device("dtypes", device)
        found = {name: np.dtype(name) for name in _NAMES}
        return found if kind is None else {name: dtype for name, dtype in found.items() if np.isdtype(dtype, kind)}


def __array_namespace_info__() -> Info:
    """The answers of this namespace.  Local."""
    return Info()
