"""The compiled course for traced loops: takes the times of each exchange and writes a line of the trace at once.

The state of an exchange that is not traced holds the address of the plain course instead, so its loops pay nothing.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py
from numba import types

from spmd_grid.kernels.address import call, load, pointer, store
from spmd_grid.kernels.compiled import by_address, inner
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.clock import nanoseconds, read_clock

__all__ = ["traced_course"]

_write = types.ExternalFunction("write", types.int64(types.int32, types.int64, types.int64))

_ZERO, _SPACE = ord("0"), ord(" ")


@inner
def _fill_in(form: int, blank: int, number: int) -> None:
    """Write a number from 0 into a blank of the line, right-aligned."""
    digits, last = pointer(load(form, blank), "u1"), load(form, at.FORM_BLANK) - 1
    digits[last] = _ZERO + number % 10
    for i in range(last - 1, -1, -1):
        number //= 10
        digits[i] = _ZERO + number % 10 if number else _SPACE


@by_address("int64(int64, int64, int64)")
def traced_course(what: int, state: int, call_: int) -> int:
    """Run the course, and write the line."""
    form = load(state, at.FORM)
    file, clock = load(form, at.FORM_FILE), form + 8 * at.FORM_CLOCK
    store(file, at.FILE_BUSY, 1)
    read_clock(clock)
    code = call(load(state, at.COURSE), what, state, call_)
    read_clock(clock + 16)
    store(file, at.FILE_BUSY, 0)
    began = nanoseconds(clock)
    _fill_in(form, at.FORM_BEGAN, began)
    _fill_in(form, at.FORM_TOOK, nanoseconds(clock + 16) - began)
    _fill_in(form, at.FORM_TURN, load(state, at.EPOCH) if code == at.FINE else 0)
    length = load(form, at.FORM_BYTES)
    if _write(load(file, at.FILE_DESCRIPTOR), load(form, at.FORM_TEXT), length) != length:
        store(file, at.FILE_DESCRIPTOR, -1)  # nothing can be read after half a line
        store(file, at.FILE_LOST, load(file, at.FILE_LOST) + 1)
    return code
