"""The compiled relay of arrays that members of a meeting cannot, or should not, read where they lie.

Each member owns a *ring* of memory that all see.  In each step it packs a piece of its array into its ring, posts the
number of the step in a word, waits until all others have posted theirs, and copies or folds what they packed in the
step before.  So it packs while others may still read.  Cells that stay on a member are copied between its post and its
wait, when the caches have just read those around them.

A part of the ring is used again four steps later.  Who packs step s has seen all posts of step s - 2; who posted
step s - 2 had read all that was packed in step s - 4.  A relay follows a meeting, in which all members have left the
relay before it.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import copy_at, fold_at, load, store, store_release
from spmd_grid.kernels.compiled import by_address, inner
from spmd_grid.kernels.copy.tables import BY_LINES, NEVER
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.sleeping import wake
from spmd_grid.kernels.protocol.waits import announce, wait_for
from spmd_grid.kernels.python_calls import on_integers

__all__ = ["relay", "relay_course"]


@inner
def _base(program: int, number: int, x: int, result: int, part: int) -> int:
    """The address to which a side of a row of the table is relative."""
    if number == at.FROM_X:
        return x
    if number == at.INTO_RESULT:
        return result
    return load(load(program, at.RELAY_RINGS), number - at.FIRST_RING) + part


@inner
def _copy(program: int, firsts: int, step: int, x: int, result: int, part: int, streams: int) -> None:
    """Copy the rows of the table that belong to a step; what others have packed is not for memcpy to fetch."""
    table, columns = load(program, at.RELAY_TABLE), load(program, at.RELAY_COLUMNS)
    for row in range(load(firsts, step), load(firsts, step + 1)):
        fixed = table + 8 * columns * row
        source = _base(program, load(fixed, 2), x, result, part)
        target = _base(program, load(fixed, 3), x, result, part)
        how = BY_LINES if streams == NEVER and load(fixed, 2) >= at.FIRST_RING else streams
        copy_at(load(program, at.RELAY_COPY), table, columns, row, row + 1, source, target, how)


@inner
def _fold(state: int, program: int, step: int, x: int, result: int, part: int) -> None:
    """Fold the rows of a step into the result."""
    size, rank, rows = load(state, at.MEMBERS), load(state, at.MEMBER), load(program, at.RELAY_ROWS)
    words = load(program, at.RELAY_FOLDS) + 8 * (at.FOLD_FIRST + size) * step
    elements, count = load(words, at.FOLD_ELEMENTS), 0
    if elements:
        for i in range(size):
            if load(words, at.FOLD_FIRST + i) != at.NO_ROW:
                in_ring = i != rank or load(program, at.RELAY_OWN_IN_RING)
                base = load(load(program, at.RELAY_RINGS), i) + part if in_ring else x
                store(rows, count, base + load(words, at.FOLD_FIRST + i))
                count += 1
        out = result + load(words, at.FOLD_OUT)
        fold_at(load(program, at.RELAY_FOLD), rows, count, elements, out, load(program, at.RELAY_BUFFER))


@inner
def _run(program: int, x: int, result: int) -> int:
    state = load(program, at.RELAY_STATE)
    size, rank, epoch = load(state, at.MEMBERS), load(state, at.MEMBER), load(state, at.EPOCH)
    steps, word = load(program, at.RELAY_STEPS), 2 * load(state, at.LINE_BYTES) + 128  # on a line of its own
    part = epoch % load(program, at.RELAY_PARTS) * load(program, at.RELAY_PART_BYTES)
    posted = epoch << at.RELAY_STEP_BITS  # of all relays of this meeting, and no other
    if load(program, at.RELAY_SCRATCH):
        result = load(program, at.RELAY_SCRATCH)
    for step in range(steps + 1):
        if step < steps:
            streams = load(state, at.STREAMS)
            _copy(program, load(program, at.RELAY_PACKS), step, x, result, part, streams)
            # After the stores of what was packed, and the loads of the steps before.
            store_release(load(state, at.BLOCKS + rank) + word, posted + step + 1)
            wake(state, load(state, at.BLOCKS + rank) + word)
            if not announce(state):
                return at.ENDED
            streams = load(program, at.RELAY_LANDS_STREAMING)
            _copy(program, load(program, at.RELAY_KEEPS), step, x, result, part, streams)
        if step:
            for i in range(size):
                if i != rank and wait_for(state, load(state, at.BLOCKS + i) + word, posted + step, i) != at.FINE:
                    return at.ENDED
            streams = load(program, at.RELAY_LANDS_STREAMING)
            _copy(program, load(program, at.RELAY_LANDS), step - 1, x, result, part, streams)
            if load(program, at.RELAY_FOLD):
                _fold(state, program, step - 1, x, result, part)
    return at.FINE


@on_integers
def relay(program: int, x: int, result: int) -> int:
    """Run all steps of a relay from the array at ``x`` to the one at ``result``; FINE, or ENDED if a wait was given up.

    It follows the meeting in which the members have agreed on it.  Needs no GIL.
    """
    return _run(program, x, result)


@by_address("int64(int64, int64, int64)")
def relay_course(program: int, x: int, result: int) -> int:
    """As `relay`, for other kernels."""
    return _run(program, x, result)
