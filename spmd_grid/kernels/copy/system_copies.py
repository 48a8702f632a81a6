"""Copies from the memory of other processes by calls of the system, one after the other in compiled code.

A table has a row of ``READ_WORDS`` for each call of Linux's ``process_vm_readv``: the system's id of the process, and
two lists of runs, of an address and a length in bytes each, as the system takes them.  The addresses may count from the
first byte of the arrays on both sides: the kernel adds where these lie, and keeps that in the row.  So the same table
serves arrays that move.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py
from numba import types

from spmd_grid.kernels.address import load, store
from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.copy import tables as at
from spmd_grid.kernels.python_calls import on_integers

__all__ = ["read_all", "read_memory"]

_process_vm_readv = types.ExternalFunction("process_vm_readv", types.int64(types.int32, *[types.int64] * 5))


@inner
def _move(runs: int, count: int, difference: int) -> None:
    """Add to the address of each run."""
    if difference:
        for i in range(count):
            store(runs, 2 * i, load(runs, 2 * i) + difference)


@inner
def read_all(table: int, rows: int, sources: int, into: int) -> int:
    """Make the calls of a table, up to the first that does not copy all its bytes; the number of those that do.

    ``sources``: address of words: the arrays that are read, by READ_SOURCE; ``into``: the array that is written.
    """
    for i in range(rows):
        row = table + 8 * at.READ_WORDS * i
        here, n_here = load(row, at.READ_HERE), load(row, at.READ_HERE_RUNS)
        there, n_there = load(row, at.READ_THERE), load(row, at.READ_THERE_RUNS)
        source = load(sources, load(row, at.READ_SOURCE))
        _move(here, n_here, into - load(row, at.READ_INTO))
        _move(there, n_there, source - load(row, at.READ_FROM))
        store(row, at.READ_INTO, into)
        store(row, at.READ_FROM, source)
        copied = _process_vm_readv(load(row, at.READ_PROCESS), here, n_here, there, n_there, 0)
        if copied != load(row, at.READ_BYTES):
            return i
    return rows


@on_integers
def read_memory(table: int, rows: int, sources: int, into: int) -> int:
    """As `read_all`, from Python.  Needs no GIL."""
    return read_all(table, rows, sources, into)
