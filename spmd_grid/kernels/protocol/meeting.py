"""The compiled meeting of processes that share memory: every member posts a few bytes and reads those of all members.

Each process owns a block of two lines and two words.  A line has the number of the meeting, a *location* (of an array
of the process), a frame, and space for a small array.  Lines exist twice, for even and odd meetings: a member that
posts in the next meeting has read all lines of this one, and a member that posts in the one after it has seen all posts
of the next.  Only arrays that are read in place need a second step: an owner waits until those that read its array have
departed.

Every release, acquire and wait here is needed: tests/protocols runs this source on a weak memory, in all executions of
a few rounds, as it is and with each of them taken away.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import load, store, store_release
from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.copy.boxes import move
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.sleeping import wake
from spmd_grid.kernels.protocol.waits import announce, wait_for
from spmd_grid.kernels.python_calls import on_integers

__all__ = ["call_roll", "collect", "depart", "meet"]

_HEADER_WORDS = at.FRAME_WORDS // 2


@inner
def _copy_words(source: int, target: int, count: int) -> None:
    for i in range(count):
        store(target, i, load(source, i))


@inner
def _renew_words(source: int, target: int, known: int, count: int) -> int:
    """Copy ``known`` words, and zeros up to ``count``; 1 if any word of the target changes."""
    changed = 0
    for i in range(count):
        word = load(source, i) if i < known else 0
        changed |= word ^ load(target, i)
        store(target, i, word)
    return 1 if changed else 0


@inner
def _collect(state: int, epoch: int) -> int:
    """Wait until all members have posted in meeting ``epoch``, and collect what they posted; as `meet`."""
    size, rank, line_bytes = load(state, at.MEMBERS), load(state, at.MEMBER), load(state, at.LINE_BYTES)
    found, turn = 0, (epoch & 1) * size * 8
    headers = load(state, at.HEADERS_SEEN) + turn * _HEADER_WORDS
    frames = load(state, at.FRAMES_SEEN) + turn * at.FRAME_WORDS
    locations = load(state, at.LOCATIONS_SEEN) + turn * at.LOCATION_WORDS
    for i in range(size):
        line = load(state, at.BLOCKS + i) + (epoch & 1) * line_bytes
        if i != rank and wait_for(state, line, epoch, i) != at.FINE:
            return -1
        if load(state, at.SPANS) and load(line + at.LINE_RAN_AHEAD, 0) != load(state, at.RAN_AHEAD):
            store(state, at.DIFFERS, 1)
        flags = load(line + at.LINE_LOCATION, at.LOCATION_FLAGS)
        known = at.LOCATION_WORDS if flags & at.STRIDED else at.LOCATION_STRIDES
        changed = _renew_words(line + at.LINE_FRAME, headers + i * 8 * _HEADER_WORDS, _HEADER_WORDS, _HEADER_WORDS)
        changed |= _renew_words(
            line + at.LINE_LOCATION, locations + i * 8 * at.LOCATION_WORDS, known, at.LOCATION_WORDS
        )
        _copy_words(line + at.LINE_FRAME, frames + i * 8 * at.FRAME_WORDS, at.FRAME_WORDS)
        found |= changed * at.RENEWED | (flags & at.LENT)
    if load(state, at.DIFFERS):
        return -1
    asks = load(state, at.ASKS)
    if asks and epoch % asks == 0:
        found |= at.ASK
    return found | (epoch & 1) * at.ODD


@on_integers
def meet(state: int, array: int, n_bytes: int, offset: int, flags: int) -> int:
    """Post this process's frame and location, and collect those of all members; result bits, or -1: given up.

    ``offset``: that of its array in this process's segment (-1: none), described by ``flags``; or ``n_bytes`` of the
    array at address ``array`` are posted with the line.  -1 also where a compiled loop uses the meeting: then nothing
    has begun, and IN_USE is set; and where members have not run ahead alike: then DIFFERS is set.  Needs no GIL.
    """
    if load(state, at.IN_USE):
        return -1
    epoch = load(state, at.EPOCH) + 1
    store(state, at.EPOCH, epoch)
    turn = (epoch & 1) * load(state, at.LINE_BYTES)
    line = load(state, at.BLOCKS + load(state, at.MEMBER)) + turn
    if n_bytes:
        move(array, line + at.LINE_ARRAY, n_bytes)
        offset = load(state, at.BLOCK_OFFSET) + turn + at.LINE_ARRAY
        flags = n_bytes * at.BODY_BYTES
    location = state + 8 * at.LOCATION
    store(location, at.LOCATION_OFFSET, offset)
    store(location, at.LOCATION_FLAGS, flags)
    _copy_words(location, line + at.LINE_LOCATION, at.LOCATION_WORDS if flags & at.STRIDED else at.LOCATION_STRIDES)
    _copy_words(load(state, at.FRAME), line + at.LINE_FRAME, at.FRAME_WORDS)
    store(line, at.LINE_KEY, 0)
    if load(state, at.SPANS):
        store(line + at.LINE_RAN_AHEAD, 0, load(state, at.RAN_AHEAD))
    store(state, at.HOLDS + (epoch & 1), 0)
    store_release(line, epoch)  # after the stores of the line, and after the loads of the meeting before this one
    wake(state, line)
    if not announce(state):
        return -1

    return _collect(state, epoch)


@on_integers
def collect(state: int) -> int:
    """Collect what all members have posted in the meeting that a compiled loop has begun; as `meet`."""
    return _collect(state, load(state, at.EPOCH))


@on_integers
def depart(state: int, readers: int) -> int:
    """Tell that this process has read all that was lent in the last meeting, and wait for those that read from it.

    ``readers``: the address of a word for each member, not 0 if it reads this process's array; 0: none does.  FINE, or
    ENDED if the wait was given up.  Needs no GIL.
    """
    epoch, size, rank = load(state, at.EPOCH), load(state, at.MEMBERS), load(state, at.MEMBER)
    done = 2 * load(state, at.LINE_BYTES)
    store_release(load(state, at.BLOCKS + rank) + done, epoch)  # after the loads, and stores, of what was lent
    wake(state, load(state, at.BLOCKS + rank) + done)
    if not announce(state):
        return at.ENDED
    if readers:
        for i in range(size):
            if i != rank and load(readers, i):
                if wait_for(state, load(state, at.BLOCKS + i) + done, epoch, i) != at.FINE:
                    return at.ENDED
    return at.FINE


@on_integers
def call_roll(state: int, rounds: int, value: int) -> int:
    """Synchronise all members, ``rounds`` times, by one word each; the maximum of the ``value`` of each member.

    Values are from 0; -1 if the wait was given up.  The words of values exist twice, for even and odd calls, as lines
    do.  Needs no GIL.
    """
    size, rank = load(state, at.MEMBERS), load(state, at.MEMBER)
    words = 2 * load(state, at.LINE_BYTES) + 64  # on a line of its own
    calls = load(state, at.CALLS)
    last = calls + rounds
    store(state, at.CALLS, last)
    own = load(state, at.BLOCKS + rank) + words
    for number in range(calls + 1, last + 1):
        if number == last:
            store(own, 1 + (last & 1), value)
        store_release(own, number)  # after the store of the number, and the loads of the call before this one
        wake(state, own)
        for i in range(size):
            if i != rank and wait_for(state, load(state, at.BLOCKS + i) + words, number, i) != at.FINE:
                return -1
    for i in range(size):
        value = max(value, load(load(state, at.BLOCKS + i) + words, 1 + (last & 1)))
    return value
