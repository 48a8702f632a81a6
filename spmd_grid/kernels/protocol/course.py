"""The compiled course of an exchange between neighbours: fixed boxes, exchanged repeatedly, for a few words each time.

There are two transfer paths between neighbours, and one exchange may take both.

*Memory* that both share.  Each process posts a line: the number of the exchange and the addresses of its arrays.  A
neighbour that sees the number copies from there, or from staging into which the sender has packed, and stores the
number into the sender's ``done`` word.  Lines and staging exist twice, for even and odd exchanges, so that a process
may post the next one while a slower neighbour still reads this one.  It cannot be two ahead: it needs that neighbour's
next post, or, if it reads nothing from it, waits for its ``done``.  A process whose own arrays are read waits for
``done`` before it returns.

Whether its arrays are read in place is each process's own choice, exchange by exchange: it posts where they lie, or
that they are staged.  Which is quicker depends on the processors, on what the caches hold, and on what the program does
with its arrays in between.  So now and then all try both ways in the same exchanges, and each keeps the quicker one.

*Messages*, by persistent requests; the functions that start and test them are called by address: those of MPI, or of
the simulation.

Nothing is copied before all neighbours have posted, so a refusal by any of them leaves the arrays as they were.

Every release, acquire and wait here is needed: tests/protocols runs this source on a weak memory, in all executions of
a few exchanges, as it is and with each of them taken away.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import call, claim, copy_at, load, load_acquire, store, store_release, this_thread
from spmd_grid.kernels.compiled import by_address, inner
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.clock import nanoseconds, read_clock
from spmd_grid.kernels.protocol.unchanged_arrays import field_of, is_unchanged
from spmd_grid.kernels.protocol.waits import announce, start_all, test_all, wait_for, wait_for_messages
from spmd_grid.kernels.python_calls import on_integers

__all__ = ["course", "run_claimed", "run_course"]


@inner
def _copy(state: int, call_: int, first: int, count: int, source: int, target: int, streams: int = 0) -> None:
    """Copy ``count`` rows of the call's table between two base addresses, by `copy_rows` of copy/boxes.py."""
    if count:
        table, columns = load(call_, at.CALL_TABLE), load(call_, at.CALL_COLUMNS)
        copy_at(load(state, at.COPY), table, columns, first, first + count, source, target, streams)


@inner
def _write_post(state: int, address: int, refused: int, unchanged: int) -> None:
    """Write the head of a post (``POSTED_*``), without the number of the exchange."""
    store(address, at.POSTED_REFUSED, refused)
    store(address, at.POSTED_UNCHANGED, unchanged)
    store(address, at.POSTED_MISSED, load(state, at.MISSED))


@inner
def _stages(state: int, epoch: int) -> int:
    """Whether this process stages all cells in the exchange that begins: both ways by turns in tries, else the quicker.

    An exchange takes until the next one begins: lines that neighbours have read are slow to write again.  Of each block
    of tries the first one finds the caches as the other way has left them, and does not count.
    """
    usual, first = load(state, at.STAGES_ALL), load(state, at.TRIED_FROM)
    if not first or epoch < first:
        return usual
    clock, turn = state + 8 * at.TRY_CLOCK, epoch - first
    read_clock(clock)
    now = nanoseconds(clock)
    if turn and (turn - 1) % at.TRY_BLOCK:
        took, least = now - load(clock, 2), at.TRY_LEAST + 2 * ((turn - 1) // at.TRY_BLOCK & 1)
        store(state, least + 1, min(load(state, least + 1), max(load(state, least), took)))
        store(state, least, min(load(state, least), took))
    store(clock, 2, now)
    if turn < at.TRY_BLOCK * at.TRY_BLOCKS:
        return turn // at.TRY_BLOCK & 1
    kept, other = load(state, at.TRY_LEAST + 2 * usual + 1), load(state, at.TRY_LEAST + 2 * (1 - usual) + 1)
    if other < kept - kept // at.CLEARLY:
        usual = 1 - usual
        store(state, at.STAGES_ALL, usual)
    for i in range(4):
        store(state, at.TRY_LEAST + i, at.NO_TIME)
    store(state, at.TRIED_FROM, epoch + at.TRY_PAUSE)
    return usual


@inner
def _begin(state: int, call_: int) -> int:
    """Start an exchange: start receives, stage or lend cells and post them, pack messages and start them."""
    if load(load(state, at.GATE), 0):
        return at.BARRED
    if load(state, at.PHASE) != at.IDLE or load(state, at.HELD):
        return at.BUSY
    if not is_unchanged(state, call_):
        return at.ARRAY_CHANGED
    epoch = load(state, at.EPOCH) + 1
    store(state, at.EPOCH, epoch)
    store(state, at.PHASE, at.BEGUN)
    store(state, at.CALL, call_)
    n_fields, refused, unchanged = load(state, at.N_FIELDS), load(state, at.REFUSED), load(call_, at.CALL_UNCHANGED)
    odd = epoch & 1

    for i in range(load(state, at.N_READERS)):
        reader = state + 8 * (load(state, at.READERS) + i * at.READER_WORDS)
        if load(reader, at.R_ONE_WAY) and wait_for(state, load(reader, at.R_DONE), epoch - 2, -2 - i) != at.FINE:
            return at.ENDED
    if load(state, at.N_RECEIVES):
        if not start_all(state, load(state, at.REQUESTS_IN), load(state, at.COUNT_IN)):
            return at.ENDED

    lends, stages = 0, _stages(state, epoch)
    if load(state, at.N_READERS):
        staging = load(state, at.STAGING) + odd * load(state, at.STAGING_BYTES)
        if not refused:
            for i in range(load(state, at.N_READERS)):
                reader = state + 8 * (load(state, at.READERS) + i * at.READER_WORDS)
                pieces = load(reader, at.R_PIECES)
                for f in range(n_fields):
                    if (unchanged >> f) & 1:
                        continue
                    if stages or load(reader, at.R_STAGED) or field_of(call_, f, at.F_OFFSET) < 0:
                        first = load(reader, at.R_ROWS) + f * pieces
                        source = field_of(call_, f, at.F_ADDRESS)
                        _copy(state, call_, first, pieces, source, staging, load(state, at.STREAMS))
                    else:
                        lends = 1
        line = load(state, at.LINES) + odd * load(state, at.LINE_BYTES)
        _write_post(state, line, refused, unchanged)
        for f in range(n_fields):
            store(line, at.POSTED_OFFSETS + f, -1 if stages else field_of(call_, f, at.F_OFFSET))
        store_release(line, epoch)  # after the stores of line and staging, and the loads of the exchange before
        if not announce(state):
            return at.ENDED
    store(state, at.LENDS, lends)
    if load(state, at.N_SENDS):
        requests, count = load(call_, at.CALL_REQUESTS), load(call_, at.CALL_COUNT)
        if refused or unchanged == (1 << n_fields) - 1:
            requests, count = load(state, at.REQUESTS_SHORT), load(state, at.COUNT_SHORT)
        elif unchanged or not requests:
            requests = 0
        for i in range(load(state, at.N_SENDS)):
            neighbour = state + 8 * (load(state, at.SENDS) + i * at.MESSAGE_WORDS)
            buffer, pieces = load(neighbour, at.M_BUFFER), load(neighbour, at.M_PIECES)
            _write_post(state, buffer, refused, unchanged)
            for f in range(n_fields):
                if not requests and not (unchanged >> f) & 1:
                    first = load(neighbour, at.M_ROWS) + f * pieces
                    _copy(state, call_, first, pieces, field_of(call_, f, at.F_ADDRESS), buffer)
            store(buffer, at.POSTED_EPOCH, epoch)
        if not requests:
            requests, count = load(state, at.REQUESTS_OUT), load(state, at.COUNT_OUT)
        store(state, at.SENDING, requests)
        store(state, at.COUNT_SENDING, count)
        if not start_all(state, requests, count):
            return at.ENDED
    return at.FINE


@inner
def _source_line(state: int, source: int) -> int:
    """The address of the line in which ``source`` posts for the exchange under way."""
    return load(source, at.S_LINES) + (load(state, at.EPOCH) & 1) * load(source, at.S_LINE_BYTES)


@inner
def _arrive(state: int) -> int:
    """Wait until all neighbours have posted and all their messages have arrived."""
    epoch = load(state, at.EPOCH)
    culprit, missed = 0, 0
    for i in range(load(state, at.N_SOURCES)):
        source = state + 8 * (load(state, at.SOURCES) + i * at.SOURCE_WORDS)
        line = _source_line(state, source)
        if wait_for(state, line, epoch, i) != at.FINE:
            return at.ENDED
        missed = max(missed, load(line, at.POSTED_MISSED))
        if load(line, at.POSTED_REFUSED):
            store(source, at.S_REFUSED, epoch)
            culprit = 1
    if load(state, at.N_RECEIVES):
        if wait_for_messages(state, load(state, at.REQUESTS_IN), load(state, at.COUNT_IN), 0) != at.FINE:
            return at.ENDED
        for i in range(load(state, at.N_RECEIVES)):
            neighbour = state + 8 * (load(state, at.RECEIVES) + i * at.MESSAGE_WORDS)
            buffer = load(neighbour, at.M_BUFFER)
            if load(buffer, at.POSTED_EPOCH) != epoch:  # a message of another exchange
                return at.ENDED
            missed = max(missed, load(buffer, at.POSTED_MISSED))
            culprit = max(culprit, load(buffer, at.POSTED_REFUSED))
    store(state, at.CULPRIT, culprit)
    store(state, at.MISSED_BY, missed)
    store(state, at.PHASE, at.ARRIVED)
    return at.FINE


@inner
def _land(state: int) -> None:
    """Copy the cells that neighbours have posted and sent, those from the own array, and constants."""
    if load(state, at.REFUSED) or load(state, at.CULPRIT):
        store(state, at.MISSED, load(state, at.EPOCH))
        return
    call_, n_fields, odd = load(state, at.CALL), load(state, at.N_FIELDS), load(state, at.EPOCH) & 1
    streams = load(state, at.LANDS_STREAMING)
    for i in range(load(state, at.N_SOURCES)):
        source = state + 8 * (load(state, at.SOURCES) + i * at.SOURCE_WORDS)
        line, pieces = _source_line(state, source), load(source, at.S_PIECES)
        unchanged = load(line, at.POSTED_UNCHANGED)
        for f in range(n_fields):
            if (unchanged >> f) & 1:
                continue
            offset = load(line, at.POSTED_OFFSETS + f)
            first = load(source, at.S_ROWS) + f * pieces
            if offset >= 0 and load(source, at.S_SEGMENT) >= 0:
                theirs = load(source, at.S_SEGMENT) + offset
                _copy(state, call_, first, pieces, theirs, field_of(call_, f, at.F_INTO), streams)
            else:
                first += n_fields * pieces
                staging = load(source, at.S_STAGING) + odd * load(source, at.S_STAGING_BYTES)
                _copy(state, call_, first, pieces, staging, field_of(call_, f, at.F_INTO), streams)
    for i in range(load(state, at.N_RECEIVES)):
        neighbour = state + 8 * (load(state, at.RECEIVES) + i * at.MESSAGE_WORDS)
        buffer, pieces = load(neighbour, at.M_BUFFER), load(neighbour, at.M_PIECES)
        for f in range(n_fields):
            if not (load(buffer, at.POSTED_UNCHANGED) >> f) & 1:
                first = load(neighbour, at.M_ROWS) + f * pieces
                _copy(state, call_, first, pieces, buffer, field_of(call_, f, at.F_INTO), streams)
    for f in range(n_fields):
        into = field_of(call_, f, at.F_INTO)
        first = load(state, at.OWN) + f * load(state, at.N_OWN)
        _copy(state, call_, first, load(state, at.N_OWN), field_of(call_, f, at.F_ADDRESS), into, streams)
        first = load(state, at.FILL) + f * load(state, at.N_FILL)
        _copy(state, call_, first, load(state, at.N_FILL), load(state, at.CONSTANTS), into)


@inner
def _leave(state: int) -> int:
    """Tell the neighbours that this process has read what they posted."""
    epoch = load(state, at.EPOCH)
    for i in range(load(state, at.N_SOURCES)):
        source = state + 8 * (load(state, at.SOURCES) + i * at.SOURCE_WORDS)
        store_release(load(source, at.S_DONE), epoch)  # after the loads of what was posted, staged and lent
    store(state, at.PHASE, at.LEFT)
    return at.FINE if not load(state, at.N_SOURCES) or announce(state) else at.ENDED


@inner
def _part(state: int) -> int:
    """Wait until no neighbour reads this process's arrays any more, and its messages have been sent."""
    epoch = load(state, at.EPOCH)
    if load(state, at.LENDS):
        for i in range(load(state, at.N_READERS)):
            reader = state + 8 * (load(state, at.READERS) + i * at.READER_WORDS)
            if wait_for(state, load(reader, at.R_DONE), epoch, -2 - i) != at.FINE:
                return at.ENDED
    if load(state, at.N_SENDS):
        if wait_for_messages(state, load(state, at.SENDING), load(state, at.COUNT_SENDING), 1) != at.FINE:
            return at.ENDED
    store(state, at.PHASE, at.IDLE)
    return at.REFUSED_BY if load(state, at.CULPRIT) or load(state, at.REFUSED) else at.FINE


@inner
def _poke(state: int) -> int:
    """Let messages progress; 1 if the next part would not wait."""
    phase, epoch, ready = load(state, at.PHASE), load(state, at.EPOCH), 1
    if phase != at.IDLE and load(state, at.N_SENDS):
        sent = test_all(state, load(state, at.SENDING), load(state, at.COUNT_SENDING))
        if phase == at.LEFT and sent == 0:
            ready = 0
    if phase == at.BEGUN:
        if load(state, at.N_RECEIVES):
            if test_all(state, load(state, at.REQUESTS_IN), load(state, at.COUNT_IN)) == 0:
                ready = 0
        for i in range(load(state, at.N_SOURCES)):
            source = state + 8 * (load(state, at.SOURCES) + i * at.SOURCE_WORDS)
            if load_acquire(_source_line(state, source)) < epoch:
                ready = 0
    if phase == at.LEFT and load(state, at.LENDS):
        for i in range(load(state, at.N_READERS)):
            reader = state + 8 * (load(state, at.READERS) + i * at.READER_WORDS)
            if load_acquire(load(reader, at.R_DONE)) < epoch:
                ready = 0
    return ready


@by_address("int64(int64, int64, int64)")
def course(what: int, state: int, call_: int) -> int:
    """Run the parts that the bits of ``what`` select, in the order of the bits; FINE, or another outcome."""
    if what & at.BEGIN:
        code = _begin(state, call_)
        if code != at.FINE:
            return code
    if what & at.POKE:
        return _poke(state)
    if what & at.ARRIVE and load(state, at.PHASE) == at.BEGUN:
        code = _arrive(state)
        if code != at.FINE:
            return code
    code = at.FINE
    if what & at.LAND and load(state, at.PHASE) == at.ARRIVED:
        if is_unchanged(state, load(state, at.CALL)):
            _land(state)
        else:
            store(state, at.MISSED, load(state, at.EPOCH))
            code = at.MOVED
    if what & at.LEAVE and load(state, at.PHASE) == at.ARRIVED:
        left = _leave(state)
        if left != at.FINE:
            return left
    if what & at.PART and load(state, at.PHASE) == at.LEFT:
        parted = _part(state)
        return parted if parted != at.FINE else code
    return code


@inner
def run_claimed(what: int, state: int, call_: int, latch: int) -> int:
    """Run the compiled course of ``state``, unless another thread runs it, or its loops own it.

    ``latch``: that of the gate, where the caller has the interpreter's lock; else 0.
    """
    if claim(state + 8 * at.IN_USE):
        return at.TAKEN
    if what & at.BEGIN and load(state, at.THREAD) and load(state, at.THREAD) != this_thread():
        store_release(state + 8 * at.IN_USE, 0)
        return at.TAKEN
    store(state, at.LATCH, latch)
    code = call(load(state, at.COURSE), what, state, call_)
    store(state, at.LATCH, 0)
    store_release(state + 8 * at.IN_USE, 0)
    return code


@on_integers
def run_course(what: int, state: int, call_: int) -> int:
    """Run the compiled course of ``state``, unless another thread runs it, or its loops own it.  Needs no GIL."""
    return run_claimed(what, state, call_, 0)
