"""Runs of plans that do not meet: members send what others need of them, and go on.

What members pass, shapes and dtypes, was compared when the plan was made, so a run has nothing to agree on but that it
is the same one everywhere.  Its *key* says that, and travels with whatever moves:

- between nodes in messages, each with the number of the run and its key before the cells;
- within a node in lines, as in meetings, of which each member has several.  A member posts a line in every run.  It
  reads those that it needs now, and compares all others some runs later, before it posts again where it had posted
  in that run: so no member of a node is further ahead of another one.

All keys so far make a digest, which the next meeting of the group compares (``meeting.py``).  The state is that of the
members of one node; it has the words of a meeting that waits need.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import (
    complete_messages,
    copy_at,
    give_way,
    load,
    load_acquire,
    post_message,
    store,
    store_release,
)
from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.copy.boxes import move
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.sleeping import wake
from spmd_grid.kernels.protocol.waits import look_around, wait_a_while, wait_for

__all__ = ["begin_ahead", "end_ahead", "go_ahead"]

_LAG = at.AHEAD_LINES // 2  # a line is written again once all have posted in the run _LAG after it, and so have read it
_DIGEST_FACTOR = 6364136223846793005


@inner
def _line(state: int, member: int, number: int) -> int:
    return load(state, at.AHEAD_BLOCKS + member) + number % at.AHEAD_LINES * load(state, at.LINE_BYTES)


@inner
def _wait(state: int, member: int, number: int, patient: bool) -> int:
    """Wait for the line of a member in a run, and compare its key: FINE, OTHERS, ENDED or ANOTHER_RUN."""
    line = _line(state, member, number)
    if patient:
        if wait_for(state, line, number, member) != at.FINE:
            return at.ENDED
    elif not wait_a_while(state, line, number):
        return at.OTHERS
    return _compare(state, number, number, load(line, 1), -1 - member)


@inner
def _compare(state: int, number: int, other: int, key: int, who: int) -> int:
    """Compare the number and the key of a run of ``who`` with those of this process."""
    if other == number and key == load(state, at.AHEAD_KEYS + number % at.AHEAD_LINES):
        return at.FINE
    store(state, at.AHEAD_OTHER, other)
    store(state, at.AHEAD_OTHER + 1, key)
    store(state, at.AHEAD_OTHER + 2, who)
    return at.ANOTHER_RUN


@inner
def _catch_up(state: int, last: int, patient: bool) -> int:
    """Compare the lines of all members of the node up to the run ``last``."""
    while load(state, at.AHEAD_SEEN) < last:
        number = load(state, at.AHEAD_SEEN) + 1
        for i in range(load(state, at.MEMBERS)):
            if i != load(state, at.MEMBER):
                code = _wait(state, i, number, patient)
                if code != at.FINE:
                    return code
        store(state, at.AHEAD_SEEN, number)
    return at.FINE


@inner
def _post(run: int, program: int, state: int, x: int, out: int, number: int) -> None:
    """Post this member's line, with its array or the one that it has received for its node."""
    line, source, n_bytes = _line(state, load(state, at.MEMBER), number), x, load(program, at.AHEAD_POST_BYTES)
    posts, is_large = load(program, at.AHEAD_POSTS), load(program, at.AHEAD_LARGE)
    if posts == at.RECEIVED:
        source = out if is_large else load(load(program, at.AHEAD_RECEIVE_ROWS), at.AHEAD_BUFFER) + at.AHEAD_CELLS
    if posts != at.NO_ARRAY and not is_large:
        move(source, line + at.AHEAD_LINE_ARRAY, n_bytes)
    elif posts != at.NO_ARRAY:
        offset = source - load(state, at.AHEAD_SEGMENT)
        if offset < 0 or offset + n_bytes > load(state, at.AHEAD_SEGMENT_BYTES):
            move(source, load(program, at.AHEAD_STAGING), n_bytes)
            offset = load(program, at.AHEAD_STAGING) - load(state, at.AHEAD_SEGMENT)
        store(line, 2, offset)
    store(line, 1, load(program, at.AHEAD_KEY))
    store_release(line, number)  # after the stores of the line, and the loads of the runs before this one
    wake(state, line)


@inner
def _begin_message(program: int, function: int, row: int, buffer: int, n_bytes: int, request: int) -> bool:
    """Begin to send or to receive a message; whether MPI has taken it."""
    return (
        post_message(
            function,
            buffer,
            n_bytes,
            load(program, at.AHEAD_DATATYPE),
            load(row, at.AHEAD_PEER),
            load(program, at.AHEAD_TAG),
            load(program, at.AHEAD_COMMUNICATOR),
            request,
        )
        == 0
    )


@inner
def _begin(program: int, function: int, rows: int, count: int, requests: int) -> bool:
    """Begin messages, of large arrays what stands before them; whether MPI has taken them."""
    for i in range(count):
        row = rows + 8 * at.AHEAD_MESSAGE_WORDS * i
        request = requests + i * load(program, at.AHEAD_HANDLE_BYTES)
        if not _begin_message(program, function, row, load(row, at.AHEAD_BUFFER), load(row, at.AHEAD_BYTES), request):
            return False
    return True


@inner
def _begin_bodies(program: int, function: int, rows: int, count: int, array: int, requests: int) -> bool:
    """Begin the messages of large arrays, which lie in ``array`` unless they have been packed; as `_begin`."""
    for i in range(count):
        row = rows + 8 * at.AHEAD_MESSAGE_WORDS * i
        request, body = requests + i * load(program, at.AHEAD_HANDLE_BYTES), load(row, at.AHEAD_BODY)
        if not body:
            body = array + load(row, at.AHEAD_BODY_AT)
        if not _begin_message(program, function, row, body, load(row, at.AHEAD_BODY_BYTES), request):
            return False
    return True


@inner
def _requests(program: int, kind: int) -> int:
    """The address of handles: of receives, of receives of large arrays, of sends, and of sends of large arrays."""
    before = 0
    if kind >= 1:
        before = load(program, at.AHEAD_RECEIVES) * (1 if kind == 1 else 2)
    if kind == 3:
        before += load(program, at.AHEAD_SENDS)
    return load(program, at.AHEAD_HANDLES) + before * load(program, at.AHEAD_HANDLE_BYTES)


@inner
def _send(run: int, program: int, x: int, number: int) -> bool:
    """Begin to send all messages of a run; whether MPI has taken them."""
    table, columns = load(program, at.AHEAD_TABLE), load(program, at.AHEAD_COLUMNS)
    for i in range(load(program, at.AHEAD_PACKS)):
        row = load(program, at.AHEAD_PACK_ROWS) + 8 * at.PACK_WORDS * i
        first, last, cells = load(row, at.PACK_FIRST), load(row, at.PACK_LAST), load(row, at.PACK_CELLS)
        source = load(load(run, at.RUN_ROWS), load(row, at.PACK_SOURCE))
        copy_at(load(run, at.RUN_COPY), table, columns, first, last, source, cells, 0)
    rows, count, isend = load(program, at.AHEAD_SEND_ROWS), load(program, at.AHEAD_SENDS), load(program, at.AHEAD_ISEND)
    for i in range(count):
        message = load(rows + 8 * at.AHEAD_MESSAGE_WORDS * i, at.AHEAD_BUFFER)
        store(message, 0, number)
        store(message, 1, load(program, at.AHEAD_KEY))
    if not _begin(program, isend, rows, count, _requests(program, 2)):
        return False
    if not load(program, at.AHEAD_LARGE):
        return True
    return _begin_bodies(program, isend, rows, count, x, _requests(program, 3))


@inner
def _need(run: int, state: int, rows: int, count: int, number: int, is_large: int, patient: bool) -> int:
    """Wait for lines of this run, and note where their arrays lie; as `_wait`."""
    for i in range(count):
        row = rows + 8 * at.NEED_WORDS * i
        code = _wait(state, load(row, at.NEED_MEMBER), number, patient)
        if code != at.FINE:
            return code
        array = _line(state, load(row, at.NEED_MEMBER), number) + at.AHEAD_LINE_ARRAY
        if is_large:
            array = load(row, at.NEED_SEGMENT) + load(array - at.AHEAD_LINE_ARRAY, 2)
        store(load(run, at.RUN_ROWS), load(row, at.NEED_SOURCE), array)
    return at.FINE


@inner
def _finish_messages(state: int, handles: int, count: int, outgoing: int, patient: bool) -> int:
    """Wait for messages: FINE, OTHERS, ENDED or CUT."""
    flag = load(state, at.FLAG)
    while True:
        for i in range(load(state, at.AHEAD_TESTS)):
            code = complete_messages(load(state, at.TEST_MESSAGES), count, handles, flag, load(state, at.STATUSES))
            if code != 0:
                return at.CUT
            if load(flag, 0):
                return at.FINE
            if i >= load(state, at.POLLS):
                give_way()
        if not patient:
            return at.OTHERS
        if not look_around(state, 0, 0, outgoing):
            return at.ENDED


@inner
def _take_messages(run: int, program: int, state: int, number: int) -> int:
    """Compare what stands before the cells of the messages that have arrived, and note where these lie."""
    for i in range(load(program, at.AHEAD_RECEIVES)):
        row = load(program, at.AHEAD_RECEIVE_ROWS) + 8 * at.AHEAD_MESSAGE_WORDS * i
        message = load(row, at.AHEAD_BUFFER)
        code = _compare(state, number, load(message, 0), load(message, 1), load(row, at.AHEAD_PEER))
        if code != at.FINE:
            return code
        cells = load(row, at.AHEAD_BODY) if load(program, at.AHEAD_LARGE) else message + at.AHEAD_CELLS
        for j in range(load(row, at.AHEAD_SOURCES)):
            source = load(load(row, at.AHEAD_SOURCE_ROWS), j)
            store(load(run, at.RUN_ROWS), source, cells)
    return at.FINE


@inner
def begin_ahead(run: int, program: int, x: int, out: int, patient: bool) -> int:
    """Begin a run, once this member is not too far ahead of others of its node: FINE, ENDED, CUT or ANOTHER_RUN.

    OTHERS, and nothing has begun, if a run that is not ``patient`` would wait for long.
    """
    state, meeting = load(program, at.AHEAD_STATE), load(program, at.AHEAD_MEETING)
    number, key = load(state, at.EPOCH) + 1, load(program, at.AHEAD_KEY)
    code = _catch_up(state, number - _LAG, patient)
    if code != at.FINE:
        return code
    store(state, at.EPOCH, number)
    store(state, at.AHEAD_PROGRAM, program)
    store(state, at.AHEAD_KEYS + number % at.AHEAD_LINES, key)
    store(meeting, at.RAN_AHEAD, load(meeting, at.RAN_AHEAD) * _DIGEST_FACTOR + key)
    rows, count = load(program, at.AHEAD_RECEIVE_ROWS), load(program, at.AHEAD_RECEIVES)
    if not _begin(program, load(program, at.AHEAD_IRECV), rows, count, _requests(program, 0)):
        return at.CUT
    if load(program, at.AHEAD_POSTS) != at.RECEIVED:
        _post(run, program, state, x, out, number)
    return at.FINE


@inner
def go_ahead(run: int, program: int, x: int, out: int, patient: bool) -> int:
    """Go on with a run that has begun, until all has come that this member copies.

    FINE, ENDED, CUT or ANOTHER_RUN; OTHERS if a run that is not ``patient`` would wait for long: it is called again.
    """
    state, is_large = load(program, at.AHEAD_STATE), load(program, at.AHEAD_LARGE)
    number, rows = load(state, at.EPOCH), load(program, at.AHEAD_RECEIVE_ROWS)
    receives, code = load(program, at.AHEAD_RECEIVES), at.FINE
    if load(program, at.AHEAD_SENDS) and load(program, at.AHEAD_SENT) != number:
        carries = load(program, at.AHEAD_CARRIES)
        code = _need(run, state, load(program, at.AHEAD_CARRY_ROWS), carries, number, is_large, patient)
        if code != at.FINE:
            return code
        if not _send(run, program, x, number):
            return at.CUT
        store(program, at.AHEAD_SENT, number)
    if receives and load(program, at.AHEAD_ARRIVED) != number:
        code = _finish_messages(state, _requests(program, 0), receives, 0, patient)
        if code == at.FINE:
            code = _take_messages(run, program, state, number)
        if code != at.FINE:
            return code
        irecv = load(program, at.AHEAD_IRECV)
        if is_large and not _begin_bodies(program, irecv, rows, receives, out, _requests(program, 1)):
            return at.CUT
        store(program, at.AHEAD_ARRIVED, number)
    if receives and is_large and not load(program, at.AHEAD_DIRECT):
        code = _finish_messages(state, _requests(program, 1), receives, 0, patient)
        if code != at.FINE:
            return code
    if load_acquire(_line(state, load(state, at.MEMBER), number)) != number:
        _post(run, program, state, x, out, number)
    needs = load(program, at.AHEAD_NEEDS)
    return _need(run, state, load(program, at.AHEAD_NEED_ROWS), needs, number, is_large, patient)


@inner
def _done(state: int, member: int) -> int:
    """The address of the word in which a member says up to which run it has read all large arrays."""
    return load(state, at.AHEAD_BLOCKS + member) + at.AHEAD_LINES * load(state, at.LINE_BYTES)


@inner
def end_ahead(program: int, patient: bool) -> int:
    """End a run after its copies: wait until messages have come and gone, and others have read large arrays."""
    state, code = load(program, at.AHEAD_STATE), at.FINE
    number, is_large, rank = load(state, at.EPOCH), load(program, at.AHEAD_LARGE), load(state, at.MEMBER)
    if is_large:
        if load_acquire(_done(state, rank)) != number:
            store_release(_done(state, rank), number)  # after the loads of what others have posted
            wake(state, _done(state, rank))
        if load(program, at.AHEAD_RECEIVES) and load(program, at.AHEAD_DIRECT):
            code = _finish_messages(state, _requests(program, 1), load(program, at.AHEAD_RECEIVES), 0, patient)
            if code != at.FINE:
                return code
        for i in range(load(state, at.MEMBERS)):
            if load(program, at.AHEAD_POSTS) != at.NO_ARRAY and i != rank:
                code = _wait(state, i, number, patient)
                if code != at.FINE:
                    return code
                if patient:
                    if wait_for(state, _done(state, i), number, i) != at.FINE:
                        return at.ENDED
                elif not wait_a_while(state, _done(state, i), number):
                    return at.OTHERS
    sends = load(program, at.AHEAD_SENDS)
    if sends:
        code = _finish_messages(state, _requests(program, 2), sends * (2 if is_large else 1), 1, patient)
    return code
