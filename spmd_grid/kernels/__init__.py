"""Kernels: compiled functions over integers and raw addresses.

Importing this package does not load numba.  Use it as ``kernels.copy_table(...)``: the first access loads the kernel's
kept machine code, or compiles it, which loads numba, and binds it to its name, so that later calls cost no more.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from spmd_grid.kernels.arithmetic.operations import arithmetic
from spmd_grid.kernels.array_object import FIELDS_OFFSET, address_of
from spmd_grid.kernels.builtin_functions import bound_builtins
from spmd_grid.kernels.copy.tables import BoxRow, box_row, build_table, streams_for, table_bytes
from spmd_grid.kernels.loading import address_at, function_at
from spmd_grid.kernels.memory import Flat, bytes_at, flatten
from spmd_grid.kernels.reduce.folds import fold, fold_addresses
from spmd_grid.kernels.reduce.variants import fold_address, short_fold, supports

__all__ = [
    "FIELDS_OFFSET",
    "BoxRow",
    "Flat",
    "address_of",
    "arithmetic",
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
    "fetch",
    "fetch_address",
    "flatten",
    "fold",
    "fold_address",
    "fold_addresses",
    "loop_run_address",
    "meet",
    "new_known_call",
    "new_quick_call",
    "new_quick_update",
    "read_memory",
    "relay",
    "relay_address",
    "run_ahead",
    "run_course",
    "short_fold",
    "streams_for",
    "sum_rows_f4",
    "sum_rows_f8",
    "supports",
    "table_bytes",
    "traced_course_address",
]

# Kernels by their names here: the modules and functions of those that compiled code calls by their addresses ...
_ADDRESSES = {
    "copy_address": "copy.boxes.copy_rows",
    "course_address": "protocol.course.course",
    "fetch_address": "copy.fetching.fetch_course",
    "loop_run_address": "protocol.loop_run.loop_run",
    "relay_address": "protocol.relay.relay_course",
    "traced_course_address": "protocol.traced_course.traced_course",
}
# ... that Python calls with integers, and with the address of ``copy_rows`` in front ...
_FUNCTIONS = {
    "call_roll": "protocol.meeting.call_roll",
    "collect": "protocol.meeting.collect",
    "depart": "protocol.meeting.depart",
    "fetch": "copy.fetching.fetch",
    "meet": "protocol.meeting.meet",
    "read_memory": "copy.system_copies.read_memory",
    "relay": "protocol.relay.relay",
    "run_ahead": "protocol.loop_run.run_ahead",
    "run_course": "protocol.course.run_course",
    "sum_rows_f4": "reduce.row_sums.sum_rows_f4",
    "sum_rows_f8": "reduce.row_sums.sum_rows_f8",
}
_COPIES = {"copy_table": "copy.boxes.copy_table", "copy_table_between": "copy.boxes.copy_table_between"}
# ... and from which functions for one plan or call are made: their names and signatures ...
_MAKERS = {
    "new_known_call": (
        "protocol.known_call.known_call",
        "operate",
        "operate($self, x, grid, grid_axes, args, out)",
        "Run the operation; see the class",
    ),
    "new_quick_call": (
        "protocol.quick_call.quick_call",
        "run",
        "run($self, x=None, out=None)",
        "Run it; see the class",
    ),
    "new_quick_update": (
        "protocol.quick_update.quick_update",
        "update",
        "update($self, *fields, only_dirty=False)",
        "Refresh halos; see HaloExchange.update",
    ),
}


def __getattr__(name: str) -> Any:
    if name in _ADDRESSES:
        found: Any = address_at(_ADDRESSES[name])
    elif name in _FUNCTIONS:
        found = function_at(_FUNCTIONS[name])
    elif name in _COPIES:
        found = partial(function_at(_COPIES[name]), address_at(_ADDRESSES["copy_address"]))
    elif name in _MAKERS:
        path, called, signature, text = _MAKERS[name]
        found = bound_builtins(called, f"{signature}\n--\n\n{text}.", address_at(path))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, found)  # one for all threads, where two ask at once


def copy_boxes(table: np.ndarray, source_base: int, target_base: int) -> None:
    """Copies every box of ``table`` between two base addresses; base columns are not read.

    Local; needs no GIL.  Source and target bytes must not overlap.
    """
    _this.copy_table(address_of(table), table.shape[1], table.shape[0], source_base, target_base, 0)


def copy_boxes_between(table: np.ndarray, source_bases: np.ndarray, target_bases: np.ndarray) -> None:
    """Copies every box of ``table`` between the addresses that its base columns index, unchecked; as `copy_boxes`."""
    sources, targets = address_of(source_bases), address_of(target_bases)
    _this.copy_table_between(address_of(table), table.shape[1], table.shape[0], sources, targets)


_this: Any = sys.modules[__name__]
