"""Large arrays of runs without a meeting, in pieces: while one travels, others are folded and copied.

A program has *steps* and *takes*.  A step waits for pieces from other nodes, folds or packs cells in this member's
memory, which the others of its node see, sends pieces on, and says in a word how many are there.  A take copies a piece
that a member of the node has made or received, or cells of its array, to the result, once that word or the member's
line says so.  Takes are made while messages travel.  A step, or a take, that has to wait holds up those after it.
*Departures* are steps that wait for nothing.  A member that also receives pieces makes some of them first, then one for
each piece that has come, or when it has waited for some time: all members come to send and to receive from the start.

A member that sends nothing takes naps before pieces, but for the last ones, each as long as 35 KB took in the run
before; none if that was short, since MPI reads some 64 KiB at a time, and senders would wait.  Between naps it
asks several times: it may oversleep, and then more than that has come.
The system acknowledges what a process has read: if it reads several packets at once there are fewer acknowledgements,
which take their part of the cable.  Where ranks share a core, others of the node have it meanwhile.

Before a member takes anything, it compares the number of the run and its key with all from which it gets something.
What comes first from a member of another node *opens* the run, and says them: a piece that its sender has without
waiting for another one, or an empty message.  It comes to memory, never to the result, and is received from the start,
since what MPI does not expect takes longer.  Other pieces are received once the run is open.

Others of the node read a large array where it lies, and a run ends once they have.  What they read of it, if it is
small, is copied: then a run ends before that, and some runs later the copy is overwritten.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import copy_at, fold_at, give_way, load, load_acquire, sleep_on, store, store_release
from spmd_grid.kernels.ahead import slots as ahead_at
from spmd_grid.kernels.ahead.blocks import done_word, line_of, made_word
from spmd_grid.kernels.ahead.messages import (
    begin_message,
    begin_messages,
    compare,
    find_others,
    finish_messages,
    have_come,
    requests,
)
from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.clock import nanoseconds, read_clock
from spmd_grid.kernels.protocol.sleeping import wake
from spmd_grid.kernels.protocol.waits import look_around

__all__ = ["finish_sends", "go_by_pieces", "say_done"]

_LEAD, _PATIENCE = 4, 150  # departures before the first piece has come; tries before one more
_LEAST_NAP, _MOST_NAP, _NAP_BYTES = 220_000, 250_000, 35_328  # nanoseconds; what comes during a nap
_AWAKE = 3  # the last pieces for which a member stays awake
_TRIES_OF_NAP, _TRIES_BETWEEN_NAPS = 248, 8  # that a nap counts as, a multiple of the second


@inner
def _reaches(address: int, value: int) -> bool:
    """Whether the word at ``address`` is at least ``value``."""
    return load_acquire(address) >= value


@inner
def say_done(state: int, number: int) -> None:
    """Say that this member has read all that it reads of others of its node in this run."""
    word = done_word(state, load(state, at.MEMBER))
    store_release(word, number)  # after the loads of what others have posted and made
    wake(state, word)


@inner
def _made(number: int, row: int) -> int:
    """The value of the word of a member that has made the piece of a take."""
    return (number << ahead_at.MADE_BITS) + load(row, ahead_at.TAKE_MADE)


@inner
def _position(run: int, row: int) -> int:
    source = load(row, ahead_at.POSITION_SOURCE)
    if source == ahead_at.IN_MEMORY:
        return load(row, ahead_at.POSITION_AT)
    return load(load(run, at.RUN_ROWS), source) + load(row, ahead_at.POSITION_AT)


@inner
def _handle(program: int, pieces: int, number: int) -> int:
    return load(pieces, ahead_at.PIECE_HANDLES) + number * load(program, ahead_at.HANDLE_BYTES)


@inner
def _lines(run: int, program: int, pieces: int, state: int, number: int) -> int:
    """Compare the lines of this run that are needed, and note where their arrays lie: FINE, OTHERS or ANOTHER_RUN."""
    if load(pieces, ahead_at.HERE) == number:
        return at.FINE
    for i in range(load(program, ahead_at.NEEDS)):
        row = load(program, ahead_at.NEED_ROWS) + 8 * ahead_at.NEED_WORDS * i
        member = load(row, ahead_at.NEED_MEMBER)
        line = line_of(state, member, number)
        if not _reaches(line, number):
            return at.OTHERS
        code = compare(state, number, number, load(line, 1), -1 - member)
        if code != at.FINE:
            return code
        array = load(row, ahead_at.NEED_SEGMENT) + load(line, 2)
        store(load(run, at.RUN_ROWS), load(row, ahead_at.NEED_SOURCE), array)
    store(pieces, ahead_at.HERE, number)
    return at.FINE


@inner
def _arrive(run: int, program: int, pieces: int, state: int, number: int, out: int) -> int:
    """Begin to receive, once all senders have opened the run: FINE, OTHERS or an error."""
    if load(program, ahead_at.ARRIVED) == number:
        return at.FINE
    if load(pieces, ahead_at.LANDS):
        code = _lines(run, program, pieces, state, number)  # nothing is written before all is compared
        if code != at.FINE:
            return code
    code = have_come(state, requests(program, 0), load(program, ahead_at.RECEIVES))
    if code != at.FINE:
        return code
    for i in range(load(pieces, ahead_at.ARRIVALS)):
        row = load(pieces, ahead_at.ARRIVAL_ROWS) + 8 * ahead_at.ARRIVAL_WORDS * i
        peer, buffer = load(row, ahead_at.ARRIVAL_PEER), load(row, ahead_at.ARRIVAL_AT)
        if load(row, ahead_at.ARRIVAL_LANDS):
            buffer += out
        handle = _handle(program, pieces, load(row, ahead_at.ARRIVAL_HANDLE))
        n_bytes = load(row, ahead_at.ARRIVAL_BYTES)
        if not begin_message(program, 0, peer, buffer, n_bytes, handle):
            return at.CUT
    if load(pieces, ahead_at.NAPS):
        read_clock(pieces + 8 * ahead_at.BEGAN)
    store(program, ahead_at.ARRIVED, number)
    return at.FINE


@inner
def _make(run: int, program: int, pieces: int, row: int, x: int) -> int:
    """Fold, pack and send what a step does: FINE or CUT."""
    first, last = load(row, ahead_at.FIRST_INPUT), load(row, ahead_at.LAST_INPUT)
    if first < last:
        folded = load(pieces, ahead_at.FOLDED)
        for i in range(first, last):
            store(
                folded, i - first, _position(run, load(pieces, ahead_at.INPUT_ROWS) + 8 * ahead_at.POSITION_WORDS * i)
            )
        into, elements = load(row, ahead_at.FOLD_INTO), load(row, ahead_at.ELEMENTS)
        fold_at(load(pieces, ahead_at.FOLD), folded, last - first, elements, into, 0)
    first, last = load(row, ahead_at.FIRST_PACKED), load(row, ahead_at.LAST_PACKED)
    if first < last:
        table, columns = load(pieces, ahead_at.PIECE_TABLE), load(pieces, ahead_at.PIECE_COLUMNS)
        copy_at(load(run, at.RUN_COPY), table, columns, first, last, x, load(pieces, ahead_at.MEMORY), 0)
    for i in range(load(row, ahead_at.FIRST_LEAVE), load(row, ahead_at.LAST_LEAVE)):
        leave = load(pieces, ahead_at.LEAVE_ROWS) + 8 * ahead_at.LEAVE_WORDS * i
        handle = _handle(program, pieces, load(pieces, ahead_at.ARRIVALS) + i)
        peer, n_bytes = load(leave, ahead_at.LEAVE_PEER), load(leave, ahead_at.LEAVE_BYTES)
        if not begin_message(program, 1, peer, _position(run, leave), n_bytes, handle):
            return at.CUT
        store(pieces, ahead_at.BEGUN, i + 1)
    return at.FINE


@inner
def _depart(run: int, program: int, pieces: int, x: int, tries: int) -> int:
    """Make the next departure, if it is its turn: FINE, OTHERS or CUT."""
    departed, step, steps = load(pieces, ahead_at.DEPARTED), load(pieces, ahead_at.STEP), load(pieces, ahead_at.STEPS)
    if departed == load(pieces, ahead_at.DEPARTURES):
        return at.OTHERS
    if step < steps and departed >= step + _LEAD and tries < _PATIENCE:
        return at.OTHERS
    store(pieces, ahead_at.DEPARTED, departed + 1)
    row = load(pieces, ahead_at.STEP_ROWS) + 8 * ahead_at.STEP_WORDS * (steps + departed)
    return _make(run, program, pieces, row, x)


@inner
def _step(run: int, program: int, pieces: int, state: int, number: int, x: int, out: int) -> int:
    """Make the next step: FINE, OTHERS if something is not there yet, or an error."""
    step, code = load(pieces, ahead_at.STEP), at.FINE
    row = load(pieces, ahead_at.STEP_ROWS) + 8 * ahead_at.STEP_WORDS * step
    if step >= load(pieces, ahead_at.GATE):
        code = _lines(run, program, pieces, state, number)
    first, last = load(row, ahead_at.FIRST_ARRIVAL), load(row, ahead_at.LAST_ARRIVAL)
    if code == at.FINE and load(row, ahead_at.AWAITS):
        code = _arrive(run, program, pieces, state, number, out)
    if code == at.FINE and first < last:
        code = have_come(state, _handle(program, pieces, first), last - first)
    if code == at.FINE:
        code = _make(run, program, pieces, row, x)
    if code != at.FINE:
        return code
    store(pieces, ahead_at.STEP, step + 1)
    if load(pieces, ahead_at.NAPS) and step + 1 == load(pieces, ahead_at.STEPS):
        _set_nap(pieces)
    if load(row, ahead_at.MADE):
        word = made_word(state, load(state, at.MEMBER))
        store_release(word, (number << ahead_at.MADE_BITS) + load(row, ahead_at.MADE))
        wake(state, word)
    return at.FINE


@inner
def _set_nap(pieces: int) -> None:
    """Note how long naps are in the next run, by how long all pieces of this one took to come."""
    now, n_bytes = pieces + 8 * ahead_at.NOW, 0
    read_clock(now)
    for i in range(load(pieces, ahead_at.ARRIVALS)):
        row = load(pieces, ahead_at.ARRIVAL_ROWS) + 8 * ahead_at.ARRIVAL_WORDS * i
        n_bytes += load(row, ahead_at.ARRIVAL_BYTES)
    nap = (nanoseconds(now) - nanoseconds(pieces + 8 * ahead_at.BEGAN)) * _NAP_BYTES // n_bytes
    store(pieces, ahead_at.NAP + 1, min(nap, _MOST_NAP) if nap >= _LEAST_NAP else 0)


@inner
def _take(run: int, program: int, pieces: int, state: int, number: int, out: int) -> int:
    """Make the next take: FINE, OTHERS if its piece is not there yet, or ANOTHER_RUN."""
    row = load(pieces, ahead_at.TAKE_ROWS) + 8 * ahead_at.TAKE_WORDS * load(pieces, ahead_at.TAKE)
    code = _lines(run, program, pieces, state, number)
    if code == at.FINE and load(program, ahead_at.RECEIVES):
        code = _arrive(run, program, pieces, state, number, out)
    if code == at.FINE and load(row, ahead_at.TAKE_MADE):
        if not _reaches(made_word(state, load(row, ahead_at.TAKE_MEMBER)), _made(number, row)):
            return at.OTHERS
    if code == at.FINE:
        table, columns = load(pieces, ahead_at.PIECE_TABLE), load(pieces, ahead_at.PIECE_COLUMNS)
        first, last = load(row, ahead_at.TAKE_FIRST), load(row, ahead_at.TAKE_LAST)
        copy_at(load(run, at.RUN_COPY), table, columns, first, last, _position(run, row), out, 0)
        taken = load(pieces, ahead_at.TAKE) + 1
        store(pieces, ahead_at.TAKE, taken)
        if taken == load(pieces, ahead_at.LAST_READ):
            say_done(state, number)
    return code


@inner
def _advance(run: int, program: int, pieces: int, state: int, number: int, x: int, out: int, tries: int) -> int:
    """Make a departure, a step or a take: FINE, OTHERS if none can be made yet, or an error."""
    step, code = load(pieces, ahead_at.STEP), _depart(run, program, pieces, x, tries)
    has_steps = step < load(pieces, ahead_at.STEPS)
    if code == at.OTHERS and has_steps:
        code = _step(run, program, pieces, state, number, x, out)
    if code == at.OTHERS and load(pieces, ahead_at.TAKE) < load(pieces, ahead_at.TAKES):
        code = _take(run, program, pieces, state, number, out)
    if code == at.OTHERS and load(pieces, ahead_at.BEGUN):
        if not has_steps or (step >= load(pieces, ahead_at.GATE) and load(pieces, ahead_at.HERE) != number):
            # Nothing else asks MPI, which sends on only when it is asked.
            handle = _handle(program, pieces, load(pieces, ahead_at.ARRIVALS))
            if have_come(state, handle, load(pieces, ahead_at.BEGUN)) == at.CUT:
                return at.CUT
    return code


@inner
def _look_around(program: int, pieces: int, state: int, number: int) -> bool:
    """Let the interpreter do other work; False if the wait is given up."""
    step, take = load(pieces, ahead_at.STEP), load(pieces, ahead_at.TAKE)
    has_steps = step < load(pieces, ahead_at.STEPS)
    row = load(pieces, ahead_at.TAKE_ROWS) + 8 * ahead_at.TAKE_WORDS * take
    if has_steps and (step < load(pieces, ahead_at.GATE) or load(pieces, ahead_at.HERE) == number):
        return look_around(state, 0, 0, 0)
    if not has_steps and load(row, ahead_at.TAKE_MADE) and load(pieces, ahead_at.HERE) == number:
        member = load(row, ahead_at.TAKE_MEMBER)
        return look_around(state, made_word(state, member), _made(number, row), member)
    for i in range(load(program, ahead_at.NEEDS)):
        member = load(load(program, ahead_at.NEED_ROWS) + 8 * ahead_at.NEED_WORDS * i, ahead_at.NEED_MEMBER)
        line = line_of(state, member, number)
        if not _reaches(line, number):
            return look_around(state, line, number, member)
    return True


@inner
def _nap(program: int, pieces: int, number: int) -> bool:
    """Sleep for a while if this member only receives, and more is to come than its last pieces; whether it has."""
    is_early = load(pieces, ahead_at.STEP) + _AWAKE < load(pieces, ahead_at.STEPS)
    if load(pieces, ahead_at.NAP + 1) and is_early and load(program, ahead_at.ARRIVED) == number:
        sleep_on(pieces, load(pieces, 0), pieces + 8 * ahead_at.NAP)  # no process wakes it
        return True
    return False


@inner
def go_by_pieces(run: int, program: int, x: int, out: int, patient: bool) -> int:
    """Make all steps and takes of a run: FINE, ENDED, CUT or ANOTHER_RUN; OTHERS as of `go_ahead`."""
    state, pieces = load(program, ahead_at.STATE), load(program, ahead_at.PIECES)
    number = load(state, at.EPOCH)
    if load(program, ahead_at.SENT) != number:
        if not begin_messages(program, 1):
            return at.CUT
        for word in (ahead_at.STEP, ahead_at.TAKE, ahead_at.BEGUN, ahead_at.DEPARTED):
            store(pieces, word, 0)
        if load(pieces, ahead_at.LAST_READ) == 0:
            say_done(state, number)
        store(program, ahead_at.SENT, number)
    tries = 0
    while True:
        code = _advance(run, program, pieces, state, number, x, out, tries)
        if code == at.FINE:
            tries = 0
        elif code != at.OTHERS:
            return code
        elif load(pieces, ahead_at.STEP) == load(pieces, ahead_at.STEPS) and (
            load(pieces, ahead_at.TAKE) == load(pieces, ahead_at.TAKES)
        ):
            return at.FINE
        else:
            tries += 1
            if tries >= load(state, ahead_at.TESTS):
                if load(program, ahead_at.ARRIVED) != number:
                    code = find_others(program)
                    if code != at.OTHERS:
                        return code
                if not patient:
                    return at.OTHERS
                if not _look_around(program, pieces, state, number):
                    return at.ENDED
                tries = 0
            elif tries % _TRIES_BETWEEN_NAPS == 0 and _nap(program, pieces, number):
                tries += _TRIES_OF_NAP
            elif tries >= load(state, at.POLLS):
                give_way()
    return at.FINE


@inner
def finish_sends(program: int, patient: bool) -> int:
    """Wait until the pieces that this member has sent have gone: as `finish_messages`."""
    pieces = load(program, ahead_at.PIECES)
    handle = _handle(program, pieces, load(pieces, ahead_at.ARRIVALS))
    if not load(pieces, ahead_at.BEGUN):
        return at.FINE
    return finish_messages(program, handle, load(pieces, ahead_at.BEGUN), 1, patient)
