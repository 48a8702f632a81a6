"""Messages of runs without a meeting: begun, waited for, and compared before anything that they bring is used.

A message's tag says which run it belongs to: as much of its number, and of its key, as tags have space for.  Only such
messages are received as have the tag of the run.  No others have the communicator, and they come in the order in which
they were sent: where one of another run comes first, its sender runs something else.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import (
    complete_messages,
    give_way,
    load,
    load_int,
    post_message,
    probe_message,
    store,
)
from spmd_grid.kernels.ahead import slots as ahead_at
from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.waits import look_around

__all__ = [
    "begin_message",
    "begin_messages",
    "compare",
    "find_others",
    "finish_messages",
    "have_come",
    "requests",
    "set_tag",
    "take_messages",
]


@inner
def _found(state: int, other: int, key: int, who: int) -> int:
    """Keep what tells of another run, for the error."""
    store(state, ahead_at.OTHER, other)
    store(state, ahead_at.OTHER + 1, key)
    store(state, ahead_at.OTHER + 2, who)
    return at.ANOTHER_RUN


@inner
def compare(state: int, number: int, other: int, key: int, who: int) -> int:
    """Compare the number and the key of a run of ``who`` with those of this process: FINE or ANOTHER_RUN."""
    if other == number and key == load(state, ahead_at.KEYS + number % ahead_at.LINES):
        return at.FINE
    return _found(state, other, key, who)


@inner
def set_tag(state: int, number: int, key: int) -> None:
    """Set the tag of the messages of a run."""
    numbers = load(state, ahead_at.NUMBERS)
    store(state, ahead_at.TAG, (key * numbers + (number & (numbers - 1))) & (load(state, ahead_at.TAGS) - 1))


@inner
def requests(program: int, outgoing: int) -> int:
    """The address of the handles of receives, or of sends."""
    before = load(program, ahead_at.RECEIVES) if outgoing else 0
    return load(program, ahead_at.HANDLES) + before * load(program, ahead_at.HANDLE_BYTES)


@inner
def begin_message(program: int, outgoing: int, peer: int, buffer: int, n_bytes: int, request: int) -> bool:
    """Begin to send or to receive a message; whether MPI has taken it."""
    function = load(program, ahead_at.ISEND) if outgoing else load(program, ahead_at.IRECV)
    tag = load(load(program, ahead_at.STATE), ahead_at.TAG)
    datatype, comm = load(program, ahead_at.DATATYPE), load(program, ahead_at.COMMUNICATOR)
    return post_message(function, buffer, n_bytes, datatype, peer, tag, comm, request) == 0


@inner
def begin_messages(program: int, outgoing: int) -> bool:
    """Begin to receive the messages of a run, or to send them; whether MPI has taken them."""
    rows, count = load(program, ahead_at.RECEIVE_ROWS), load(program, ahead_at.RECEIVES)
    if outgoing:
        rows, count = load(program, ahead_at.SEND_ROWS), load(program, ahead_at.SENDS)
    handles = requests(program, outgoing)
    for i in range(count):
        row = rows + 8 * ahead_at.MESSAGE_WORDS * i
        handle = handles + i * load(program, ahead_at.HANDLE_BYTES)
        peer, buffer, n_bytes = (
            load(row, ahead_at.PEER),
            load(row, ahead_at.BUFFER),
            load(row, ahead_at.BYTES),
        )
        if not begin_message(program, outgoing, peer, buffer, n_bytes, handle):
            return False
    return True


@inner
def have_come(state: int, handles: int, count: int) -> int:
    """Test messages: FINE, OTHERS if not all are complete, or CUT."""
    flag = load(state, at.FLAG)
    if complete_messages(load(state, at.TEST_MESSAGES), count, handles, flag, load(state, at.STATUSES)) != 0:
        return at.CUT
    return at.FINE if load(flag, 0) else at.OTHERS


@inner
def _find_message(program: int, peer: int) -> int:
    """Look for a message of a member that nothing has received: FINE, OTHERS if none is there, ANOTHER_RUN or CUT."""
    state, comm = load(program, ahead_at.STATE), load(program, ahead_at.COMMUNICATOR)
    flag, status = load(state, at.FLAG), load(state, at.STATUSES)
    if probe_message(load(program, ahead_at.IPROBE), peer, load(program, ahead_at.ANY_TAG), comm, flag, status) != 0:
        return at.CUT
    if not load(flag, 0):
        return at.OTHERS
    tag = load_int(status + load(state, ahead_at.STATUS_TAG))
    return at.FINE if tag == load(state, ahead_at.TAG) else _found(state, tag, 0, peer)


@inner
def _comes_soon(state: int, handle: int) -> bool:
    for _ in range(load(state, ahead_at.TESTS)):
        if have_come(state, handle, 1) != at.OTHERS:
            return True
    return False


@inner
def find_others(program: int) -> int:
    """Look for messages of other runs where those of this one have not come: OTHERS if none is there, or an error."""
    state = load(program, ahead_at.STATE)
    for i in range(load(program, ahead_at.RECEIVES)):
        handle = requests(program, 0) + i * load(program, ahead_at.HANDLE_BYTES)
        peer = load(load(program, ahead_at.RECEIVE_ROWS) + 8 * ahead_at.MESSAGE_WORDS * i, ahead_at.PEER)
        code = have_come(state, handle, 1)
        if code == at.OTHERS:
            code = _find_message(program, peer)
            if code == at.ANOTHER_RUN and _comes_soon(state, handle):  # this run's came just before it
                code = at.FINE
        if code == at.CUT or code == at.ANOTHER_RUN:
            return code
    return at.OTHERS


@inner
def finish_messages(program: int, handles: int, count: int, outgoing: int, patient: bool) -> int:
    """Wait for messages: FINE, OTHERS, ENDED or CUT, and ANOTHER_RUN of those to be received."""
    state = load(program, ahead_at.STATE)
    while True:
        for i in range(load(state, ahead_at.TESTS)):
            code = have_come(state, handles, count)
            if code != at.OTHERS:
                return code
            if i >= load(state, at.POLLS):
                give_way()
        code = at.OTHERS if outgoing else find_others(program)
        if code != at.OTHERS:
            return code
        if not patient:
            return at.OTHERS
        if not look_around(state, 0, 0, outgoing):
            return at.ENDED


@inner
def take_messages(run: int, program: int) -> None:
    """Note where the cells of messages lie."""
    for i in range(load(program, ahead_at.RECEIVES)):
        row = load(program, ahead_at.RECEIVE_ROWS) + 8 * ahead_at.MESSAGE_WORDS * i
        for j in range(load(row, ahead_at.SOURCES)):
            source = load(load(row, ahead_at.SOURCE_ROWS), j)
            store(load(run, at.RUN_ROWS), source, load(row, ahead_at.BUFFER))
