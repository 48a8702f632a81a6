"""The compiled meeting of processes that see one another's memory: everybody posts a few bytes and reads everybody's.

Each process owns a block of two lines and two words.  A line has the number of the meeting, a *place* (where an array
of the process lies), a frame, and room for a small array.  Lines exist twice, for even and odd meetings: who comes to
the next meeting has read all lines of this one, and who posts in the one after it has seen everybody at the next.  Only
arrays that are read where they lie need a second step: their owners wait until all the others have departed.

Every release, acquire and wait here is needed: tests/protocols runs this source on a weak memory, in all executions of
a few rounds, as it is and with each of them taken away.
"""

from __future__ import annotations

from functools import partial

import numba  # noqa: F401 - first of all: see compiled.py

from spmd_grid.kernels.address import copy_at, load, store, store_release
from spmd_grid.kernels.compiled import inner, kernel
from spmd_grid.kernels.copy.boxes import copy_address, move
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.waits import announce, wait_for

__all__ = ["call_roll", "copy_table", "depart", "meet"]

_HEADER_WORDS = at.FRAME_WORDS // 2


@inner
def _copy_words(source, target, count):
    for i in range(count):
        store(target, i, load(source, i))


@inner
def _renew_words(source, target, known, count):
    """Copies ``known`` words and zeros up to ``count``; 1 where that changes any."""
    changed = 0
    for i in range(count):
        word = load(source, i) if i < known else 0
        changed |= word ^ load(target, i)
        store(target, i, word)
    return 1 if changed else 0


@kernel("int64(int64, int64, int64, int64, int64)")
def meet(state, array, n_bytes, offset, flags):
    """Posts this process's frame and place, and collects everybody's; ANY_LENT and CHANGED, or -1: given up.

    ``offset``: where in this process's segment its array lies (-1: nowhere), and ``flags`` how; or ``n_bytes`` of the
    array at address ``array`` are posted with the line.  Needs no GIL.
    """
    epoch = load(state, at.EPOCH) + 1
    store(state, at.EPOCH, epoch)
    size, rank, line_bytes = load(state, at.MEMBERS), load(state, at.MEMBER), load(state, at.LINE_BYTES)
    turn = (epoch & 1) * line_bytes
    line = load(state, at.BLOCKS + rank) + turn
    if n_bytes:
        move(array, line + at.LINE_ARRAY, n_bytes)
        offset = load(state, at.BLOCK_OFFSET) + turn + at.LINE_ARRAY
    place = state + 8 * at.LOCATION
    store(place, at.LOCATION_OFFSET, offset)
    store(place, at.LOCATION_FLAGS, flags)
    _copy_words(place, line + at.LINE_LOCATION, at.LOCATION_WORDS if flags & at.STRIDED else at.LOCATION_STRIDES)
    _copy_words(load(state, at.FRAME), line + at.LINE_FRAME, at.FRAME_WORDS)
    store_release(line, epoch)  # behind the stores of the line, and behind the loads of the meeting before this one
    if not announce(state):
        return -1

    found, turn = 0, (epoch & 1) * size * 8
    headers = load(state, at.HEADERS_SEEN) + turn * _HEADER_WORDS
    frames = load(state, at.FRAMES_SEEN) + turn * at.FRAME_WORDS
    places = load(state, at.LOCATIONS_SEEN) + turn * at.LOCATION_WORDS
    for i in range(size):
        line = load(state, at.BLOCKS + i) + (epoch & 1) * line_bytes
        if i != rank and wait_for(state, line, epoch, i) != at.FINE:
            return -1
        flags = load(line + at.LINE_LOCATION, at.LOCATION_FLAGS)
        known = at.LOCATION_WORDS if flags & at.STRIDED else at.LOCATION_STRIDES
        changed = _renew_words(line + at.LINE_FRAME, headers + i * 8 * _HEADER_WORDS, _HEADER_WORDS, _HEADER_WORDS)
        changed |= _renew_words(line + at.LINE_LOCATION, places + i * 8 * at.LOCATION_WORDS, known, at.LOCATION_WORDS)
        _copy_words(line + at.LINE_FRAME, frames + i * 8 * at.FRAME_WORDS, at.FRAME_WORDS)
        found |= changed * at.CHANGED | (flags & at.LENT)
    return found


@kernel("int64(int64, int64)")
def depart(state, lends):
    """Tells that this process has read all that was lent in the last meeting; who ``lends`` waits for all the others.

    FINE, or ENDED where the wait was given up.  Needs no GIL.
    """
    epoch, size, rank = load(state, at.EPOCH), load(state, at.MEMBERS), load(state, at.MEMBER)
    done = 2 * load(state, at.LINE_BYTES)
    store_release(load(state, at.BLOCKS + rank) + done, epoch)  # behind the loads, and stores, of what was lent
    if not announce(state):
        return at.ENDED
    if lends:
        for i in range(size):
            if i != rank and wait_for(state, load(state, at.BLOCKS + i) + done, epoch, i) != at.FINE:
                return at.ENDED
    return at.FINE


@kernel("int64(int64, int64, int64)")
def call_roll(state, rounds, brought):
    """Lets all members wait for one another, ``rounds`` times, on nothing but a word each.

    The largest of the numbers, from 0, that they bring, or -1 where the wait was given up.  Numbers exist twice, for
    even and odd calls, as lines do.  Needs no GIL.
    """
    size, rank = load(state, at.MEMBERS), load(state, at.MEMBER)
    words = 2 * load(state, at.LINE_BYTES) + 64  # on a line of its own
    calls = load(state, at.CALLS)
    last = calls + rounds
    store(state, at.CALLS, last)
    own = load(state, at.BLOCKS + rank) + words
    for number in range(calls + 1, last + 1):
        if number == last:
            store(own, 1 + (last & 1), brought)
        store_release(own, number)  # behind the store of what is brought, and the loads of the call before this one
        for i in range(size):
            if i != rank and wait_for(state, load(state, at.BLOCKS + i) + words, number, i) != at.FINE:
                return -1
    for i in range(size):
        brought = max(brought, load(load(state, at.BLOCKS + i) + words, 1 + (last & 1)))
    return brought


@kernel("void(int64, int64, int64, int64, int64, int64)")
def _copy_table(copy, table, columns, rows, source, target):
    copy_at(copy, table, columns, 0, rows, source, target)


# copy_table(table, columns, rows, source, target): copies all rows of the copy table at an address, between two base
# addresses.  Local; needs no GIL.
copy_table = partial(_copy_table, copy_address)
