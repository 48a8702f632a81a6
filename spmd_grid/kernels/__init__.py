"""Kernels: compiled functions over arrays of integers and raw addresses, which know nothing else.

Importing this package does not load numba.  Use it as ``kernels.copy_boxes(...)``: the first touch compiles the copies
or loads them from the cache, and binds the compiled function itself under its name, so that later calls pass no door.
(``from spmd_grid.kernels import copy_boxes`` works too, and loads numba there and then.)
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from spmd_grid.kernels.folds import fold, fold_addresses, supports
from spmd_grid.kernels.tables import BoxRow, Flat, address_of, box_row, build_table, flatten, table_bytes

__all__ = [
    "BoxRow",
    "Flat",
    "address_of",
    "box_row",
    "build_table",
    "copy_boxes",
    "copy_boxes_between",
    "flatten",
    "fold",
    "fold_addresses",
    "supports",
    "table_bytes",
]

_COMPILED = ("copy_boxes", "copy_boxes_between")


def __getattr__(name: str) -> Any:
    if name not in _COMPILED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    copies = import_module("spmd_grid.kernels.copy")
    for each in _COMPILED:
        globals()[each] = getattr(copies, each)
    return globals()[name]
