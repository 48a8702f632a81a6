"""The compiled run of an operation on small arrays, as a function that Python calls.

It looks for a run, as `loop_run` has them, that is for these arrays.  If there is one, the whole operation is made
here: nothing of it is Python's, so no exception can come in its middle, and no other thread of this process sees it
under way.  It keeps the interpreter's lock, and so its meeting never waits for long: then Python goes on from there.
Everything else is left to a Python function, with the arguments as they came.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import load, same_words, store
from spmd_grid.kernels.array_object import DATA, DTYPE, FLAGS, NDIM, PLAIN, SHAPE, WRITEABLE
from spmd_grid.kernels.compiled import by_address, inner
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.loop_run import run_once
from spmd_grid.kernels.python_calls import (
    call_python,
    clear_error,
    item_of,
    length_of,
    new_reference,
    release,
    word_in,
)

__all__ = ["quick_call"]


@inner
def _fits(head: int, known: int, thing: int) -> bool:
    """Whether an object is an array as the words at ``known`` say."""
    if not load(known, at.A_DTYPE):
        return True
    if load(thing + load(head, at.QUICK_TYPE), 0) != load(head, at.QUICK_ARRAY):
        return False
    fields, ndim = thing + load(head, at.QUICK_FIELDS), load(known, at.A_NDIM)
    needed = PLAIN | WRITEABLE if load(known, at.A_WRITTEN) else PLAIN
    if load(fields, DTYPE) != load(known, at.A_OBJECT) or load(fields, FLAGS) & needed != needed:
        return False
    return load(fields, NDIM) & 0xFFFFFFFF == ndim and same_words(load(fields, SHAPE), known + 8 * at.A_EXTENTS, ndim)


@inner
def _address(head: int, known: int, thing: int) -> int:
    """The address of an array's cells; 0 where any object would do."""
    return load(thing + load(head, at.QUICK_FIELDS), DATA) if load(known, at.A_DTYPE) else 0


@inner
def _are_apart(run: int, x: int, out: int) -> bool:
    """Whether the arrays at two addresses, 0 for none, do not overlap."""
    if not x or not out:
        return True
    return x + load(run, at.RUN_X + at.A_BYTES) <= out or out + load(run, at.RUN_OUT + at.A_BYTES) <= x


@inner
def _try_run(head: int, run: int, x: int, out: int) -> int:
    """The result, a new reference, if the run is for these objects; 0 if it is not, or raised; -1: it has not begun."""
    makes, none = load(run, at.RUN_MAKE), load(head, at.QUICK_NONE)
    known_x, known_out, made = run + 8 * at.RUN_X, run + 8 * at.RUN_OUT, 0
    if not _fits(head, known_x, x):
        return -1
    given = out
    if makes:
        if out != none:
            return -1
        made = call_python(makes, 0, 0, 0)
        if not made:
            clear_error()
            return -1
        out = made
    elif not _fits(head, known_out, out):
        return -1
    cells, into = _address(head, known_x, x), _address(head, known_out, out)
    code = at.BY_PYTHON
    if _are_apart(run, cells, into):
        code = run_once(run, cells, into, False)
    if code == at.FINE:
        if made:
            return made
        result = out if load(run, at.RUN_RETURNS) else none
        new_reference(result)
        return result
    if made:
        release(made)
    if code == at.BY_PYTHON:
        return -1
    arguments = run + 8 * at.RUN_ARGS
    store(arguments, 0, x)
    store(arguments, 1, given)
    return call_python(load(run, at.RUN_END if code == at.CUT else at.RUN_GO_ON), arguments, 2, 0)


@by_address("int64(int64, int64, int64, int64)")
def quick_call(bound: int, arguments: int, number: int, names: int) -> int:
    """``call(x=None, out=None)``."""
    head = word_in(bound)
    run = load(head, at.QUICK_FIRST)
    if run and not load(load(head, at.QUICK_WATCHED), 0):
        x = out = load(head, at.QUICK_NONE)
        if not names:
            if number > 0:
                x = load(arguments, 0)
            if number > 1:
                out = load(arguments, 1)
            if number > 2:
                run = 0
        elif number == 1 and length_of(names) == 1 and item_of(names, 0) == load(head, at.QUICK_OUT):
            x, out = load(arguments, 0), load(arguments, 1)
        else:
            run = 0
        while run:
            result = _try_run(head, run, x, out)
            if result != -1:
                return result
            run = load(run, at.RUN_NEXT)
    return call_python(load(head, at.QUICK_SLOW), arguments, number, names)
