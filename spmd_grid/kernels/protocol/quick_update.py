"""An update of halos as a function that Python calls, for fields that the plan has seen before.

It keeps the interpreter's lock, but for the callbacks of long waits: no exception can come in its middle, and no other
thread of this process sees it under way.  During callbacks it holds the gate's token (see waits.py).  Everything else
is left to a Python function, with the arguments as they came.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import load, same_words, store
from spmd_grid.kernels.compiled import by_address, inner
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.course import run_claimed
from spmd_grid.kernels.python_calls import (
    call_python,
    items_in,
    new_integer,
    new_reference,
    release,
    word_in,
)

__all__ = ["quick_update"]


@inner
def _known_call(head: int, fields: int, number: int) -> int:
    """The address of the call of these fields; 0 if it is not known."""
    row = load(head, at.FIELDS_KNOWN)
    for _ in range(at.MOST_KNOWN):
        if load(row, 0) and same_words(row + 8, fields, number):
            return load(row, 0)
        row += 8 * (1 + number)
    return 0


@inner
def _end(head: int, code: int) -> int:
    """Let Python raise the error of an update that has ended with ``code``."""
    argument = head + 8 * at.FIELDS_ARGUMENT
    number = new_integer(code)
    store(argument, 0, number)
    result = call_python(load(head, at.FIELDS_END), argument, 1, 0)
    release(number)
    return result


@by_address("int64(int64, int64, int64, int64)")
def quick_update(bound: int, fields: int, number: int, names: int) -> int:
    """``update(*fields)``."""
    head = word_in(bound)
    state, latch = load(head, at.FIELDS_STATE), load(head, at.FIELDS_LATCH)
    if not names and number == load(state, at.N_FIELDS) and not items_in(load(head, at.FIELDS_LATER)):
        call_ = _known_call(head, fields, number)
        if call_ and items_in(load(latch, at.LATCH_TOKENS)):
            code = run_claimed(at.UPDATE, state, call_, latch)
            if code == at.FINE and load(load(state, at.GATE), 0):
                code = at.BARRED
            if code == at.FINE:
                nothing = load(head, at.FIELDS_NONE)
                new_reference(nothing)
                return nothing
            if code == at.REFUSED_BY or code == at.ENDED or code == at.MOVED:
                return _end(head, code)
    return call_python(load(head, at.FIELDS_SLOW), fields, number, names)
