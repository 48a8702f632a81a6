"""Messages of runs without a meeting: begun, waited for, and compared before anything that they bring is used.

A message's tag says which run it belongs to: as much of its number, and of its key, as tags have space for.  No other
messages have the communicator, so they are received with any tag, in the order in which they were sent.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import complete_messages, give_way, load, load_int, post_message, store
from spmd_grid.kernels.ahead import slots as ahead_at
from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.waits import look_around

__all__ = [
    "begin_message",
    "begin_messages",
    "compare",
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
    function, tag = load(program, ahead_at.IRECV), load(program, ahead_at.ANY_TAG)
    if outgoing:
        function, tag = load(program, ahead_at.ISEND), load(load(program, ahead_at.STATE), ahead_at.TAG)
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
def finish_messages(state: int, handles: int, count: int, outgoing: int, patient: bool) -> int:
    """Wait for messages: FINE, OTHERS, ENDED or CUT."""
    while True:
        for i in range(load(state, ahead_at.TESTS)):
            code = have_come(state, handles, count)
            if code != at.OTHERS:
                return code
            if i >= load(state, at.POLLS):
                give_way()
        if not patient:
            return at.OTHERS
        if not look_around(state, 0, 0, outgoing):
            return at.ENDED


@inner
def take_messages(run: int, program: int, state: int) -> int:
    """Compare the tags of the messages that have just arrived, and note where their cells lie."""
    for i in range(load(program, ahead_at.RECEIVES)):
        row = load(program, ahead_at.RECEIVE_ROWS) + 8 * ahead_at.MESSAGE_WORDS * i
        status = load(state, at.STATUSES) + i * load(state, ahead_at.STATUS_BYTES)
        tag = load_int(status + load(state, ahead_at.STATUS_TAG))
        if tag == load(program, ahead_at.ANY_TAG):
            return at.ANOTHER_RUN  # Python goes on with a run that compiled code gave up: found there, and still kept
        if tag != load(state, ahead_at.TAG):
            return _found(state, tag, 0, load(row, ahead_at.PEER))
        for j in range(load(row, ahead_at.SOURCES)):
            source = load(load(row, ahead_at.SOURCE_ROWS), j)
            store(load(run, at.RUN_ROWS), source, load(row, ahead_at.BUFFER))
    return at.FINE
