"""Finds the quick form of an operation by the very objects that it is called with, as a function that Python calls.

The grid, the axes and the arguments of a call are mostly the same objects each time: literals in the caller's code, or
lists and tuples of such.  So their addresses are compared.  Every other call is left to a Python function.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import load, store
from spmd_grid.kernels.compiled import by_address, inner
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.python_calls import (
    call_python,
    item_of,
    items_in,
    length_of,
    list_item_of,
    new_reference,
    release,
    word_in,
)

__all__ = ["known_call"]


@inner
def _is(head: int, known: int, thing: int) -> bool:
    """Whether an object is the known one, or a list or tuple of the same items."""
    if load(known, at.THING_ADDRESS) == thing:
        return True
    kind, n = load(known, at.THING_TYPE), load(known, at.THING_LENGTH)
    if not kind or load(thing + load(head, at.KNOWN_TYPE), 0) != kind:
        return False
    is_list = kind == load(head, at.KNOWN_LIST)
    if (items_in(thing) if is_list else length_of(thing)) != n:
        return False
    for i in range(n):
        if (list_item_of(thing, i) if is_list else item_of(thing, i)) != load(known, at.THING_ITEMS + i):
            return False
    return True


@by_address("int64(int64, int64, int64, int64)")
def known_call(bound: int, arguments: int, number: int, names: int) -> int:
    """Make the call ``operate(x, grid, grid_axes, args, out)``, in its quick form if it is known."""
    head = word_in(bound)
    if number == at.OPERANDS and not names and load(load(head, at.KNOWN_CHANGES), 0) == load(head, at.KNOWN_AT):
        grid, axes, args = load(arguments, 1), load(arguments, 2), load(arguments, 3)
        n, row = length_of(args), head + 8 * at.KNOWN_ROWS
        for _ in range(load(head, at.KNOWN_COUNT)):
            things = row + 8 * at.ROW_THINGS
            if load(row, at.ROW_GRID) == grid and load(row, at.ROW_NUMBER) == n and _is(head, things, axes):
                same = True
                for i in range(n):
                    same = same and _is(head, things + 8 * at.THING_WORDS * (1 + i), item_of(args, i))
                if same:
                    arrays, run = head + 8 * at.KNOWN_ARRAYS, load(row, at.ROW_RUN)
                    store(arrays, 0, load(arguments, 0))
                    store(arrays, 1, load(arguments, 4))
                    new_reference(run)  # a handler of signals may close the grid meanwhile
                    result = call_python(run, arrays, 2, 0)
                    release(run)
                    return result
            row += 8 * at.ROW_WORDS
    return call_python(load(head, at.KNOWN_SLOW), arguments, number, names)
