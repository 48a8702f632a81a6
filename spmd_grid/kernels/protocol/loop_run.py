"""The compiled run of an operation on small arrays in the memory of a node, for compiled loops.

It is a meeting as that of meeting.py, with the same lines: members may be in this run or in Python's.  Besides its
frame, a process posts the *key* of the run, which stands for all headers, and a second copy of a short array, beside
the meeting's number: members in the same run read one line of cache.  Then results are copied and folded from there.

A run is given up before it begins (BY_PYTHON) where an operation of this process is under way.  Where another member
has posted anything but the known header, or a run that is not ``patient`` would wait for long, Python goes on (OTHERS).

Larger arrays are relayed after a meeting of headers alone; some not if all can be read where they lie, as members post:
then each copies from there, or leaves it to Python.  In a relay's long waits Python's other threads run, which find the
token of the gate taken.

Where runs of large arrays outside the node's memory have *ways*, each member posts the address of its array, and all
relay, or all have the system copy from there, as they have found out in Python's runs.  All count these runs alike, and
no others: where a member has posted neither an address nor a readable array, all relay.  So it is with runs of arrays
that all can be read, where processors are far apart or words are slow.  A run that has ways and no fetch was made
before it was known whether the system copies, for arrays that all can be read: it leaves others to Python.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import call, claim, copy_at, load, store, store_release, this_thread
from spmd_grid.kernels.ahead import slots as ahead_at
from spmd_grid.kernels.ahead.runs import begin_ahead, end_ahead, go_ahead
from spmd_grid.kernels.compiled import by_address, inner
from spmd_grid.kernels.copy.boxes import move
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.clock import nanoseconds, read_clock
from spmd_grid.kernels.protocol.sleeping import wake
from spmd_grid.kernels.protocol.waits import announce, wait_a_while, wait_for
from spmd_grid.kernels.python_calls import on_integers

__all__ = ["loop_run", "run_ahead", "run_once"]

_HEADER_WORDS = at.FRAME_WORDS // 2


@inner
def _post(run: int, state: int, x: int, epoch: int, told: int, lent: int) -> None:
    """Post the key, the array at ``x`` and, unless the line holds it, what members in Python's run read.

    ``told``: the address of an array that lies outside the segment, if others may want it; ``lent``: the offset in it
    of an array that others may read there, or -1.
    """
    odd = epoch & 1
    turn = odd * load(state, at.LINE_BYTES)
    rank, key, n_bytes = load(state, at.MEMBER), load(run, at.RUN_KEY), load(run, at.RUN_BYTES)
    line = load(state, at.BLOCKS + rank) + turn
    if load(state, at.HOLDS + odd) != key:
        header = load(run, at.RUN_HEADERS) + rank * 8 * _HEADER_WORDS
        for i in range(_HEADER_WORDS):
            store(line + at.LINE_FRAME, i, load(header, i))
        offset = load(state, at.BLOCK_OFFSET) + turn + at.LINE_ARRAY if n_bytes else -1
        store(line + at.LINE_LOCATION, at.LOCATION_OFFSET, offset)
        store(line + at.LINE_LOCATION, at.LOCATION_FLAGS, n_bytes * at.BODY_BYTES)
        for i in range(at.LOCATION_STRIDES, at.LOCATION_WORDS):
            store(line + at.LINE_LOCATION, i, 0)
        store(state, at.HOLDS + odd, key)
    if load(run, at.RUN_WAYS) or load(run, at.RUN_READ):
        flags = at.LENT if lent >= 0 else at.STRIDED | at.OUTSIDE if told else 0
        store(line + at.LINE_LOCATION, at.LOCATION_OFFSET, lent)
        store(line + at.LINE_LOCATION, at.LOCATION_FLAGS, flags)
        store(line + at.LINE_LOCATION, at.LOCATION_STRIDES, told)
    if 0 < n_bytes <= at.SHORT_BYTES:
        move(x, line + at.LINE_SHORT, n_bytes)
        key |= at.SHORT
    store(line, at.LINE_KEY, key)
    if load(state, at.SPANS):
        store(line + at.LINE_RAN_AHEAD, 0, load(state, at.RAN_AHEAD))
    if n_bytes:
        move(x, line + at.LINE_ARRAY, n_bytes)
        if n_bytes <= at.INLINE_BYTES and load(state, at.SPANS):
            move(x, line + at.LINE_FRAME + 8 * _HEADER_WORDS, n_bytes)
    store_release(line, epoch)  # after the stores of the line, and the loads of the meeting before this one
    wake(state, line)


@inner
def _array_in(line: int, run: int, member: int) -> int:
    """The address of the array that a member has posted; 0 if it posted something else."""
    posted = load(line, at.LINE_KEY)
    if posted - (posted & at.SHORT) == load(run, at.RUN_KEY):
        return line + (at.LINE_SHORT if posted & at.SHORT else at.LINE_ARRAY)
    if posted:
        return 0
    header = load(run, at.RUN_HEADERS) + member * 8 * _HEADER_WORDS
    for i in range(_HEADER_WORDS):
        if load(line + at.LINE_FRAME, i) != load(header, i):
            return 0
    return line + at.LINE_ARRAY


@inner
def _depends(run: int, state: int) -> int:
    """The words at RUN_UNLESS_READ, where it depends on the arrays' memory whether they are relayed; else 0."""
    if load(state, at.IS_FAR):
        always = load(run, at.RUN_IF_FAR)
    else:
        always = load(run, at.RUN_IF_NEAR) and not load(state, at.IS_LATE)
    return 0 if always else load(run, at.RUN_UNLESS_READ)


@inner
def _asks_now(run: int, state: int) -> bool:
    """Whether members measure how far apart they are, which Python does, before the relay that they consider next."""
    asks, relays = load(state, at.ASKS), load(run, at.RUN_RELAY) or load(run, at.RUN_READ)
    return relays != 0 and asks != 0 and (load(state, at.RELAYS) + 1) % at.RELAYS_ASK == 0


@inner
def _read_ways(run: int, state: int) -> int:
    """The words by which arrays that all can be read are relayed or read; 0: they are read."""
    return load(run, at.RUN_READ_WAYS) if load(state, at.IS_FAR) or load(state, at.IS_LATE) else 0


@inner
def _may_read(run: int, state: int) -> bool:
    """Whether this run moves arrays that all can be read, and Python does not try now what is quicker."""
    ways = _read_ways(run, state)
    is_known = not ways or load(ways, at.WAYS_RUNS) < load(ways, at.WAYS_UNTIL)
    can = not ways or load(ways, at.WAYS_WAY) or load(run, at.RUN_RELAY)
    return load(run, at.RUN_READ) != 0 and is_known and can != 0 and not _asks_now(run, state)


@inner
def _meet(run: int, state: int, x: int, patient: bool) -> int:
    """Meet the others, and note where the arrays of all lie: FINE, BY_WAYS, BY_READING, BY_PYTHON, OTHERS or ENDED."""
    epoch, asks, ways = load(state, at.EPOCH) + 1, load(state, at.ASKS), load(run, at.RUN_WAYS)
    depends, rank = _depends(run, state), load(state, at.MEMBER)
    has_array = load(run, at.RUN_UNLESS_READ) and load(load(run, at.RUN_UNLESS_READ), rank)
    is_read = has_array and 0 <= x - load(run, at.RUN_SEGMENT) < load(run, at.RUN_SEGMENT_BYTES)
    lends = depends and is_read
    if lends and not _may_read(run, state):
        return at.BY_PYTHON
    if not load(load(run, at.RUN_TOKENS), 0) or (asks and epoch % asks == 0):
        return at.BY_PYTHON
    way = 0
    if ways and not load(run, at.RUN_FETCH):
        if has_array and not is_read:
            return at.BY_PYTHON
    elif ways and not is_read:
        way = load(ways, at.WAYS_WAY)
        if load(ways, at.WAYS_RUNS) >= load(ways, at.WAYS_UNTIL) or not (way or load(run, at.RUN_RELAY)):
            return at.BY_PYTHON
    if not way and _asks_now(run, state):
        return at.BY_PYTHON
    store(state, at.EPOCH, epoch)
    told = x if ways and has_array and not is_read else 0
    _post(run, state, x, epoch, told, x - load(run, at.RUN_SEGMENT) if lends else -1)
    if not announce(state):
        return at.ENDED
    turn, rows, shift = (epoch & 1) * load(state, at.LINE_BYTES), load(run, at.RUN_ROWS), load(run, at.RUN_SHIFT)
    turns = at.LARGE_WAITS if asks and (load(run, at.RUN_RELAY) or load(run, at.RUN_READ)) else 1
    for i in range(load(state, at.MEMBERS)):
        array = x
        if i != rank:
            line = load(state, at.BLOCKS + i) + turn
            if patient:
                if wait_for(state, line, epoch, i) != at.FINE:
                    return at.ENDED
            else:
                left = turns
                while not wait_a_while(state, line, epoch):
                    left -= 1
                    if not left:
                        return at.OTHERS
            if load(state, at.SPANS) and load(line + at.LINE_RAN_AHEAD, 0) != load(state, at.RAN_AHEAD):
                return at.OTHERS
            array = _array_in(line, run, i)
            if not array:
                return at.OTHERS
        store(rows, i, array + shift)
    return _by_ways(run, state, x, turn, told, lends) if depends or ways else at.FINE


@inner
def _by_ways(run: int, state: int, x: int, turn: int, told: int, lends: int) -> int:
    """Find how members run it by where the arrays of all lie, and note the addresses of these: as `_meet`.

    FINE: they relay.  ``told``, ``lends``: whether this member has posted an address, or a readable array.
    """
    members, rank, bases = load(run, at.RUN_UNLESS_READ), load(state, at.MEMBER), load(run, at.RUN_BASES)
    fetch, read, strided = load(run, at.RUN_FETCH), load(run, at.RUN_READ), False
    outside, lent = told != 0, lends != 0
    hides = load(members, rank) != 0 and not outside and not lent
    for i in range(load(state, at.MEMBERS)):
        if load(members, i) and i != rank:
            location = load(state, at.BLOCKS + i) + turn + at.LINE_LOCATION
            flags, offset = load(location, at.LOCATION_FLAGS), load(location, at.LOCATION_OFFSET)
            if flags & at.OUTSIDE:
                if not fetch:
                    return at.OTHERS
                store(load(fetch, at.FETCH_SOURCES), i, load(location, at.LOCATION_STRIDES))
                outside = True
            elif offset < 0:
                hides = True
            else:
                lent, strided = True, strided or flags & at.STRIDED != 0
                if read:
                    store(load(read, at.FETCH_SOURCES), i, load(bases, i) + offset)
    if hides:
        return at.FINE if load(run, at.RUN_RELAY) and not _asks_now(run, state) else at.OTHERS
    if outside:
        store(load(fetch, at.FETCH_SOURCES), rank, x)
        return at.OTHERS if lent else at.BY_WAYS
    if strided or not _depends(run, state) or not _may_read(run, state):
        return at.OTHERS
    store(load(read, at.FETCH_SOURCES), rank, x)
    return at.BY_READING


@inner
def _work(run: int, out: int) -> None:
    """Copy and fold the members' arrays."""
    into = load(run, at.RUN_SCRATCH) or out
    rows, firsts = load(run, at.RUN_ROWS), load(run, at.RUN_FIRST)
    for i in range(load(run, at.RUN_SOURCES)):
        first, last = load(firsts, i), load(firsts, i + 1)
        if first < last:
            table, columns = load(run, at.RUN_TABLE), load(run, at.RUN_COLUMNS)
            copy_at(load(run, at.RUN_COPY), table, columns, first, last, load(rows, i), into, 0)
    if load(run, at.RUN_FOLD):
        call(load(run, at.RUN_FOLD), load(run, at.RUN_FOLDED), load(run, at.RUN_COUNT), out)


@inner
def _relay(run: int, state: int, x: int, out: int, patient: bool) -> int:
    """Run the relay that the members have met for; CUT if a wait was given up."""
    store(state, at.RELAYS, load(state, at.RELAYS) + 1)
    store(state, at.LATCH, 0 if patient else load(run, at.RUN_LATCH))
    code = call(load(run, at.RUN_RELAY_COURSE), load(run, at.RUN_RELAY), x, out)
    store(state, at.LATCH, 0)
    return at.FINE if code == at.FINE else at.CUT


@inner
def _run_by_ways(run: int, state: int, x: int, out: int, patient: bool, ways: int, program: int) -> int:
    """Relay, or run the fetch's ``program``, as ``ways`` say, and note the time: FINE or CUT; or OTHERS, uncounted.

    ``ways``: 0 if arrays are read, and nothing is noted.
    """
    clock, way, began = ways + 8 * at.WAYS_CLOCK, 1, 0
    if ways:
        way = load(ways, at.WAYS_WAY)
        read_clock(clock)
        began = nanoseconds(clock)
    if way:
        if program == load(run, at.RUN_READ):
            store(state, at.RELAYS, load(state, at.RELAYS) + 1)  # as one that members have considered
        latch = 0 if patient else load(run, at.RUN_LATCH)
        store(state, at.LATCH, latch)
        code = call(load(run, at.RUN_FETCH_COURSE), program, out, latch)
        store(state, at.LATCH, 0)
        if code == at.UNREAD:  # Python finds the reason
            store(program, at.FETCH_DONE, 0)
            return at.OTHERS
        code = at.FINE if code == at.FINE else at.CUT
    else:
        code = _relay(run, state, x, out, patient)
    if code == at.FINE and ways:
        read_clock(clock)
        store(ways, at.WAYS_LEAST + way, min(load(ways, at.WAYS_LEAST + way), nanoseconds(clock) - began))
        store(ways, at.WAYS_RUNS, load(ways, at.WAYS_RUNS) + 1)
    return code


@inner
def _go_ahead(run: int, program: int, x: int, out: int, patient: bool) -> int:
    """Go on to the end of a run without a meeting that has begun; see `go_ahead`."""
    number = load(load(program, ahead_at.STATE), at.EPOCH)
    if load(program, ahead_at.WORKED) != number:
        code = go_ahead(run, program, x, load(run, at.RUN_SCRATCH) or out, patient)
        if code != at.FINE:
            return code
        _work(run, out)
        store(program, ahead_at.WORKED, number)
    return end_ahead(program, patient)


@inner
def _run_ahead(run: int, x: int, out: int, patient: bool) -> int:
    """Run without a meeting."""
    if not load(load(run, at.RUN_TOKENS), 0):
        return at.BY_PYTHON
    program = load(run, at.RUN_AHEAD)
    store(load(run, at.RUN_ROWS), load(load(run, at.RUN_MEETING), at.MEMBER), x)
    code = begin_ahead(run, program, x, patient)
    if code == at.OTHERS or code == at.ANOTHER_RUN:
        return at.BY_PYTHON
    if code == at.FINE:
        code = _go_ahead(run, program, x, out, patient)
    return at.OTHERS if code == at.ANOTHER_RUN else code


@on_integers
def run_ahead(run: int, x: int, out: int, begins: int) -> int:
    """As `run_once` of a run that does not meet, whatever tokens say; or, unless it ``begins``, the rest of it.

    FINE, ENDED, CUT or ANOTHER_RUN; BUSY where a compiled loop uses the meeting.  Needs no GIL.
    """
    program, code = load(run, at.RUN_AHEAD), at.FINE
    store(load(run, at.RUN_ROWS), load(load(run, at.RUN_MEETING), at.MEMBER), x)
    if begins:
        if load(load(run, at.RUN_MEETING), at.IN_USE):
            return at.BUSY
        code = begin_ahead(run, program, x, True)
    return _go_ahead(run, program, x, out, True) if code == at.FINE else code


@inner
def run_once(run: int, x: int, out: int, patient: bool) -> int:
    """Run the operation from the array at ``x`` to the one at ``out``: FINE, BY_PYTHON, OTHERS, ENDED or CUT.

    After OTHERS, ENDED and CUT the meeting remains IN_USE.
    """
    if load(load(run, at.RUN_BARRED), 0) or load(run, at.RUN_THREAD) != this_thread():
        return at.BY_PYTHON
    state = load(run, at.RUN_MEETING)
    if not state:
        if not load(load(run, at.RUN_TOKENS), 0):
            return at.BY_PYTHON
        store(load(run, at.RUN_ROWS), 0, x + load(run, at.RUN_SHIFT))
        _work(run, out)
        return at.FINE
    if claim(state + 8 * at.IN_USE):
        return at.BY_PYTHON
    if load(run, at.RUN_AHEAD):
        code = _run_ahead(run, x, out, patient)
    else:
        code = _meet(run, state, x, patient)
    if code == at.BY_WAYS:
        code = _run_by_ways(run, state, x, out, patient, load(run, at.RUN_WAYS), load(run, at.RUN_FETCH))
    elif code == at.BY_READING:
        code = _run_by_ways(run, state, x, out, patient, _read_ways(run, state), load(run, at.RUN_READ))
    elif code == at.FINE and not load(run, at.RUN_AHEAD):
        if load(run, at.RUN_RELAY):
            code = _relay(run, state, x, out, patient)
        else:
            _work(run, out)
    if code == at.FINE or code == at.BY_PYTHON:
        store_release(state + 8 * at.IN_USE, 0)
    return code


@by_address("int64(int64, int64, int64)")
def loop_run(run: int, x: int, out: int) -> int:
    return run_once(run, x, out, True)
