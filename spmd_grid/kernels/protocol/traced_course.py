"""The compiled course as a traced loop runs it: the times are noted, and a line of the trace is written at once.

A state of which nothing is traced holds the address of the bare course in its place, so that a loop pays nothing.
"""

from __future__ import annotations

import time

import numba  # noqa: F401 - first of all: see compiled.py
from numba import types

from spmd_grid.kernels.address import call, load, pointer, store
from spmd_grid.kernels.compiled import by_address, inner
from spmd_grid.kernels.protocol import slots as at

__all__ = ["traced_course_address"]

_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.int64))
_write = types.ExternalFunction("write", types.int64(types.int32, types.int64, types.int64))

_CLOCK = getattr(time, "CLOCK_UPTIME_RAW", time.CLOCK_MONOTONIC)  # that of time.monotonic(): the former on macOS
_SECOND = 1_000_000_000
_ZERO, _SPACE = ord("0"), ord(" ")


@inner
def _nanoseconds(clock, which):
    return load(clock, 2 * which) * _SECOND + load(clock, 2 * which + 1)


@inner
def _fill_in(form, blank, number):
    """Writes a number that is not negative into a blank of the line, to the right."""
    digits, last = pointer(load(form, blank), "u1"), load(form, at.FORM_BLANK) - 1
    digits[last] = _ZERO + number % 10
    for i in range(last - 1, -1, -1):
        number //= 10
        digits[i] = _ZERO + number % 10 if number else _SPACE


def _traced_course(what, state, call_):
    """Does what the course does; and writes the line."""
    form = load(state, at.FORM)
    file, clock = load(form, at.FORM_FILE), form + 8 * at.FORM_CLOCK
    store(file, at.FILE_BUSY, 1)
    _clock_gettime(_CLOCK, clock)
    code = call(load(state, at.COURSE), what, state, call_)
    _clock_gettime(_CLOCK, clock + 16)
    store(file, at.FILE_BUSY, 0)
    began = _nanoseconds(clock, 0)
    _fill_in(form, at.FORM_BEGAN, began)
    _fill_in(form, at.FORM_TOOK, _nanoseconds(clock, 1) - began)
    _fill_in(form, at.FORM_TURN, load(state, at.EPOCH) if code == at.FINE else 0)
    length = load(form, at.FORM_BYTES)
    if _write(load(file, at.FILE_DESCRIPTOR), load(form, at.FORM_TEXT), length) != length:
        store(file, at.FILE_DESCRIPTOR, -1)  # what follows half a line cannot be read
        store(file, at.FILE_LOST, load(file, at.FILE_LOST) + 1)
    return code


traced_course = by_address("int64(int64, int64, int64)")(_traced_course)
traced_course_address = traced_course.address
