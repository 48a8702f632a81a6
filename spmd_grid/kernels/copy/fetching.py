"""The compiled copies of arrays that members read out of one another's memory, with the words that end them.

It follows a meeting in which all members have posted where their arrays lie.  Each copies what it can see, its own
array first, has the system copy the rest, tells that it has read, and waits until those that read from it have.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import copy_at, load, store, this_thread
from spmd_grid.kernels.compiled import by_address, inner
from spmd_grid.kernels.copy import tables
from spmd_grid.kernels.copy.system_copies import read_all
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.meeting import depart
from spmd_grid.kernels.python_calls import append, clear_list, lock_python, on_integers, unlock_python

__all__ = ["fetch", "fetch_course"]

_depart = inner(depart.function)


@inner
def _copy(program: int, result: int) -> bool:
    """Make the copies; whether the system has made all that it was asked for."""
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
    store(program, at.FETCH_DONE, done if done < calls else 0)
    return done == calls


@on_integers
def fetch(program: int, result: int) -> int:
    """Make all copies into the array at ``result``: FINE, ENDED if a wait was given up, or UNREAD.

    After UNREAD, FETCH_DONE is the number of the call that did not copy all its bytes.  Needs no GIL.
    """
    return (
        _depart(load(program, at.FETCH_STATE), load(program, at.FETCH_READERS)) if _copy(program, result) else at.UNREAD
    )


@by_address("int64(int64, int64, int64)")
def fetch_course(program: int, result: int, latch: int) -> int:
    """As `fetch`, for other kernels.  ``latch``: that of the gate if this thread has the interpreter's lock, else 0.

    In long copies it lets Python's other threads run, which find the token of the gate taken.
    """
    if latch and load(program, at.FETCH_IS_LONG):
        clear_list(load(latch, at.LATCH_TOKENS))
        store(latch, at.LATCH_THREAD, this_thread())
        thread = unlock_python()
        copied = _copy(program, result)
        lock_python(thread)
        store(latch, at.LATCH_THREAD, 0)
        append(load(latch, at.LATCH_TOKENS), load(latch, at.LATCH_TOKEN))
    else:
        copied = _copy(program, result)
    return _depart(load(program, at.FETCH_STATE), load(program, at.FETCH_READERS)) if copied else at.UNREAD
