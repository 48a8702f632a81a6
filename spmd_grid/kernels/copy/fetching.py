"""The compiled copies of arrays that members read out of one another's memory, with the words that end them.

It follows a meeting in which all members have posted where their arrays lie.  Each copies what it can see, its own
array first, has the system copy the rest, tells that it has read, and waits until all others have.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import copy_at, load, store
from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.copy import tables
from spmd_grid.kernels.copy.system_copies import read_all
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.meeting import depart
from spmd_grid.kernels.python_calls import on_integers

__all__ = ["fetch"]

_depart = inner(depart.function)


@inner
def _run(program: int, result: int) -> int:
    sources, streams = load(program, at.FETCH_SOURCES), load(program, at.FETCH_STREAMS)
    done, calls = load(program, at.FETCH_DONE), load(program, at.FETCH_CALLS)
    if not done:
        copy, table = load(program, at.FETCH_COPY), load(program, at.FETCH_TABLE)
        columns = load(program, at.FETCH_COLUMNS)
        for row in range(load(program, at.FETCH_COPIES)):
            source = load(sources, load(table + 8 * columns * row, 2))
            copy_at(copy, table, columns, row, row + 1, source, result, streams)
    reads = load(program, at.FETCH_READS) + 8 * tables.READ_WORDS * done
    done += read_all(reads, calls - done, sources, result)
    store(program, at.FETCH_DONE, done)
    if done < calls:
        return at.UNREAD
    store(program, at.FETCH_DONE, 0)
    return _depart(load(program, at.FETCH_STATE), 1)


@on_integers
def fetch(program: int, result: int) -> int:
    """Make all copies into the array at ``result``: FINE, ENDED if a wait was given up, or UNREAD.

    Needs no GIL.
    """
    return _run(program, result)
