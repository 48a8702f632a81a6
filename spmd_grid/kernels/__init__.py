"""Kernels: compiled functions over arrays of integers and raw addresses.

Importing this package does not load numba.  Use it as ``kernels.copy_boxes(...)``: the first access compiles the copies
or loads them from the cache, and binds the compiled function itself to its name, so that later calls cost no more.
(``from spmd_grid.kernels import copy_boxes`` works too, and loads numba immediately.)
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from spmd_grid.kernels.array_object import ARRAY_FIELDS, address_of
from spmd_grid.kernels.copy.tables import BoxRow, box_row, build_table, table_bytes
from spmd_grid.kernels.memory import Flat, bytes_at, flatten
from spmd_grid.kernels.reduce.folds import fold, fold_addresses, supports

__all__ = [
    "ARRAY_FIELDS",
    "BoxRow",
    "Flat",
    "address_of",
    "box_row",
    "build_table",
    "bytes_at",
    "call_roll",
    "collect",
    "copy_address",
    "copy_boxes",
    "copy_boxes_between",
    "copy_table",
    "course_address",
    "depart",
    "flatten",
    "fold",
    "fold_addresses",
    "loop_run_address",
    "meet",
    "new_quick_call",
    "new_quick_update",
    "run_course",
    "short_fold",
    "supports",
    "table_bytes",
    "traced_course_address",
]

_COMPILED = {
    "copy.boxes": ("copy_address", "copy_boxes", "copy_boxes_between"),
    "protocol.course": ("course_address", "run_course"),
    "protocol.traced_course": ("traced_course_address",),
    "protocol.loop_run": ("loop_run_address",),
    "protocol.quick_call": ("new_quick_call",),
    "protocol.quick_update": ("new_quick_update",),
    "protocol.meeting": ("call_roll", "collect", "copy_table", "depart", "meet"),
    "reduce.short_folds": ("short_fold",),
}


def __getattr__(name: str) -> Any:
    for module, names in _COMPILED.items():
        if name in names:
            compiled = import_module(f"spmd_grid.kernels.{module}")
            globals().update({each: getattr(compiled, each) for each in names})
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
