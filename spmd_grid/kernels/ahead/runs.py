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
from spmd_grid.kernels.ahead import slots as ahead_at
from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.copy.boxes import move
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.sleeping import wake
from spmd_grid.kernels.protocol.waits import look_around, wait_a_while, wait_for

__all__ = ["begin_ahead", "end_ahead", "go_ahead"]

_LAG = ahead_at.LINES // 2  # a line is written again once all have posted in the run _LAG after it, and so have read it
_DIGEST_FACTOR = 6364136223846793005


@inner
def _line(state: int, member: int, number: int) -> int:
    return load(state, ahead_at.BLOCKS + member) + number % ahead_at.LINES * load(state, at.LINE_BYTES)


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
    if other == number and key == load(state, ahead_at.KEYS + number % ahead_at.LINES):
        return at.FINE
    store(state, ahead_at.OTHER, other)
    store(state, ahead_at.OTHER + 1, key)
    store(state, ahead_at.OTHER + 2, who)
    return at.ANOTHER_RUN


@inner
def _catch_up(state: int, last: int, patient: bool) -> int:
    """Compare the lines of all members of the node up to the run ``last``."""
    while load(state, ahead_at.SEEN) < last:
        number = load(state, ahead_at.SEEN) + 1
        for i in range(load(state, at.MEMBERS)):
            if i != load(state, at.MEMBER):
                code = _wait(state, i, number, patient)
                if code != at.FINE:
                    return code
        store(state, ahead_at.SEEN, number)
    return at.FINE


@inner
def _post(run: int, program: int, state: int, x: int, out: int, number: int) -> None:
    """Post this member's line, with its array or the one that it has received for its node."""
    line, source, n_bytes = _line(state, load(state, at.MEMBER), number), x, load(program, ahead_at.POST_BYTES)
    posts, is_large = load(program, ahead_at.POSTS), load(program, ahead_at.LARGE)
    if posts == ahead_at.RECEIVED:
        source = out if is_large else load(load(program, ahead_at.RECEIVE_ROWS), ahead_at.BUFFER) + ahead_at.CELLS
    if posts != ahead_at.NO_ARRAY and not is_large:
        move(source, line + ahead_at.LINE_ARRAY, n_bytes)
    elif posts != ahead_at.NO_ARRAY:
        offset = source - load(state, ahead_at.SEGMENT)
        if offset < 0 or offset + n_bytes > load(state, ahead_at.SEGMENT_BYTES):
            move(source, load(program, ahead_at.STAGING), n_bytes)
            offset = load(program, ahead_at.STAGING) - load(state, ahead_at.SEGMENT)
        store(line, 2, offset)
    store(line, 1, load(program, ahead_at.KEY))
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
            load(program, ahead_at.DATATYPE),
            load(row, ahead_at.PEER),
            load(program, ahead_at.TAG),
            load(program, ahead_at.COMMUNICATOR),
            request,
        )
        == 0
    )


@inner
def _begin(program: int, function: int, rows: int, count: int, requests: int) -> bool:
    """Begin messages, or the heads of messages with large arrays; whether MPI has taken them."""
    for i in range(count):
        row = rows + 8 * ahead_at.MESSAGE_WORDS * i
        request = requests + i * load(program, ahead_at.HANDLE_BYTES)
        if not _begin_message(program, function, row, load(row, ahead_at.BUFFER), load(row, ahead_at.BYTES), request):
            return False
    return True


@inner
def _begin_bodies(program: int, function: int, rows: int, count: int, array: int, requests: int) -> bool:
    """Begin the messages of large arrays, which lie in ``array`` unless they have been packed; as `_begin`."""
    for i in range(count):
        row = rows + 8 * ahead_at.MESSAGE_WORDS * i
        request, body = requests + i * load(program, ahead_at.HANDLE_BYTES), load(row, ahead_at.BODY)
        if not body:
            body = array + load(row, ahead_at.BODY_AT)
        if not _begin_message(program, function, row, body, load(row, ahead_at.BODY_BYTES), request):
            return False
    return True


@inner
def _requests(program: int, kind: int) -> int:
    """The address of handles: of receives, of receives of large arrays, of sends, and of sends of large arrays."""
    before = 0
    if kind >= 1:
        before = load(program, ahead_at.RECEIVES) * (1 if kind == 1 else 2)
    if kind == 3:
        before += load(program, ahead_at.SENDS)
    return load(program, ahead_at.HANDLES) + before * load(program, ahead_at.HANDLE_BYTES)


@inner
def _send(run: int, program: int, x: int, number: int) -> bool:
    """Begin to send all messages of a run; whether MPI has taken them."""
    table, columns = load(program, ahead_at.TABLE), load(program, ahead_at.COLUMNS)
    for i in range(load(program, ahead_at.PACKS)):
        row = load(program, ahead_at.PACK_ROWS) + 8 * ahead_at.PACK_WORDS * i
        first, last = load(row, ahead_at.PACK_FIRST), load(row, ahead_at.PACK_LAST)
        cells = load(row, ahead_at.PACK_CELLS)
        source = load(load(run, at.RUN_ROWS), load(row, ahead_at.PACK_SOURCE))
        copy_at(load(run, at.RUN_COPY), table, columns, first, last, source, cells, 0)
    rows, count, isend = load(program, ahead_at.SEND_ROWS), load(program, ahead_at.SENDS), load(program, ahead_at.ISEND)
    for i in range(count):
        message = load(rows + 8 * ahead_at.MESSAGE_WORDS * i, ahead_at.BUFFER)
        store(message, 0, number)
        store(message, 1, load(program, ahead_at.KEY))
    if not _begin(program, isend, rows, count, _requests(program, 2)):
        return False
    if not load(program, ahead_at.LARGE):
        return True
    return _begin_bodies(program, isend, rows, count, x, _requests(program, 3))


@inner
def _need(run: int, state: int, rows: int, count: int, number: int, is_large: int, patient: bool) -> int:
    """Wait for lines of this run, and note where their arrays lie; as `_wait`."""
    for i in range(count):
        row = rows + 8 * ahead_at.NEED_WORDS * i
        code = _wait(state, load(row, ahead_at.NEED_MEMBER), number, patient)
        if code != at.FINE:
            return code
        array = _line(state, load(row, ahead_at.NEED_MEMBER), number) + ahead_at.LINE_ARRAY
        if is_large:
            array = load(row, ahead_at.NEED_SEGMENT) + load(array - ahead_at.LINE_ARRAY, 2)
        store(load(run, at.RUN_ROWS), load(row, ahead_at.NEED_SOURCE), array)
    return at.FINE


@inner
def _finish_messages(state: int, handles: int, count: int, outgoing: int, patient: bool) -> int:
    """Wait for messages: FINE, OTHERS, ENDED or CUT."""
    flag = load(state, at.FLAG)
    while True:
        for i in range(load(state, ahead_at.TESTS)):
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
    for i in range(load(program, ahead_at.RECEIVES)):
        row = load(program, ahead_at.RECEIVE_ROWS) + 8 * ahead_at.MESSAGE_WORDS * i
        message = load(row, ahead_at.BUFFER)
        code = _compare(state, number, load(message, 0), load(message, 1), load(row, ahead_at.PEER))
        if code != at.FINE:
            return code
        cells = load(row, ahead_at.BODY) if load(program, ahead_at.LARGE) else message + ahead_at.CELLS
        for j in range(load(row, ahead_at.SOURCES)):
            source = load(load(row, ahead_at.SOURCE_ROWS), j)
            store(load(run, at.RUN_ROWS), source, cells)
    return at.FINE


@inner
def begin_ahead(run: int, program: int, x: int, out: int, patient: bool) -> int:
    """Begin a run, once this member is not too far ahead of others of its node: FINE, ENDED, CUT or ANOTHER_RUN.

    OTHERS, and nothing has begun, if a run that is not ``patient`` would wait for long.
    """
    state, meeting = load(program, ahead_at.STATE), load(program, ahead_at.MEETING)
    number, key = load(state, at.EPOCH) + 1, load(program, ahead_at.KEY)
    code = _catch_up(state, number - _LAG, patient)
    if code != at.FINE:
        return code
    store(state, at.EPOCH, number)
    store(state, ahead_at.PROGRAM, program)
    store(state, ahead_at.KEYS + number % ahead_at.LINES, key)
    store(meeting, at.RAN_AHEAD, load(meeting, at.RAN_AHEAD) * _DIGEST_FACTOR + key)
    rows, count = load(program, ahead_at.RECEIVE_ROWS), load(program, ahead_at.RECEIVES)
    if not _begin(program, load(program, ahead_at.IRECV), rows, count, _requests(program, 0)):
        return at.CUT
    if load(program, ahead_at.POSTS) != ahead_at.RECEIVED:
        _post(run, program, state, x, out, number)
    return at.FINE


@inner
def go_ahead(run: int, program: int, x: int, out: int, patient: bool) -> int:
    """Go on with a run that has begun, until all has come that this member copies.

    FINE, ENDED, CUT or ANOTHER_RUN; OTHERS if a run that is not ``patient`` would wait for long: it is called again.
    """
    state, is_large = load(program, ahead_at.STATE), load(program, ahead_at.LARGE)
    number, rows = load(state, at.EPOCH), load(program, ahead_at.RECEIVE_ROWS)
    receives, code = load(program, ahead_at.RECEIVES), at.FINE
    if load(program, ahead_at.SENDS) and load(program, ahead_at.SENT) != number:
        carries = load(program, ahead_at.CARRIES)
        code = _need(run, state, load(program, ahead_at.CARRY_ROWS), carries, number, is_large, patient)
        if code != at.FINE:
            return code
        if not _send(run, program, x, number):
            return at.CUT
        store(program, ahead_at.SENT, number)
    if receives and load(program, ahead_at.ARRIVED) != number:
        code = _finish_messages(state, _requests(program, 0), receives, 0, patient)
        if code == at.FINE:
            code = _take_messages(run, program, state, number)
        if code != at.FINE:
            return code
        irecv = load(program, ahead_at.IRECV)
        if is_large and not _begin_bodies(program, irecv, rows, receives, out, _requests(program, 1)):
            return at.CUT
        store(program, ahead_at.ARRIVED, number)
    if receives and is_large and not load(program, ahead_at.DIRECT):
        code = _finish_messages(state, _requests(program, 1), receives, 0, patient)
        if code != at.FINE:
            return code
    if load_acquire(_line(state, load(state, at.MEMBER), number)) != number:
        _post(run, program, state, x, out, number)
    needs = load(program, ahead_at.NEEDS)
    return _need(run, state, load(program, ahead_at.NEED_ROWS), needs, number, is_large, patient)


@inner
def _done(state: int, member: int) -> int:
    """The address of the word in which a member says up to which run it has read all large arrays."""
    return load(state, ahead_at.BLOCKS + member) + ahead_at.LINES * load(state, at.LINE_BYTES)


@inner
def end_ahead(program: int, patient: bool) -> int:
    """End a run after its copies: wait until messages have come and gone, and others have read large arrays."""
    state, code = load(program, ahead_at.STATE), at.FINE
    number, is_large, rank = load(state, at.EPOCH), load(program, ahead_at.LARGE), load(state, at.MEMBER)
    if is_large:
        if load_acquire(_done(state, rank)) != number:
            store_release(_done(state, rank), number)  # after the loads of what others have posted
            wake(state, _done(state, rank))
        if load(program, ahead_at.RECEIVES) and load(program, ahead_at.DIRECT):
            code = _finish_messages(state, _requests(program, 1), load(program, ahead_at.RECEIVES), 0, patient)
            if code != at.FINE:
                return code
        for i in range(load(state, at.MEMBERS)):
            if load(program, ahead_at.POSTS) != ahead_at.NO_ARRAY and i != rank:
                code = _wait(state, i, number, patient)
                if code != at.FINE:
                    return code
                if patient:
                    if wait_for(state, _done(state, i), number, i) != at.FINE:
                        return at.ENDED
                elif not wait_a_while(state, _done(state, i), number):
                    return at.OTHERS
    sends = load(program, ahead_at.SENDS)
    if sends:
        code = _finish_messages(state, _requests(program, 2), sends * (2 if is_large else 1), 1, patient)
    return code
