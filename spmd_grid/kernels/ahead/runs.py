"""Runs of plans that do not meet: members send what others need of them, and go on.

What members pass, shapes and dtypes, was compared when the plan was made, so a run has nothing to agree on but that it
is the same one everywhere.  Its *key* says that, and travels with whatever moves:

- between nodes in the tags of messages, with the number of the run (``messages.py``);
- within a node in lines, as in meetings, of which each member has several.  A member posts a line in every run.  It
  reads those that it needs now, and compares all others some runs later, before it posts again where it had posted
  in that run: so no member of a node is further ahead of another one.

All keys so far make a digest, which the next meeting of the group compares (``meeting.py``).  The state is that of the
members of one node; it has the words of a meeting that waits need.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import copy_at, load, load_acquire, store, store_release
from spmd_grid.kernels.ahead import slots as ahead_at
from spmd_grid.kernels.ahead.blocks import copy_of, done_word, line_of
from spmd_grid.kernels.ahead.messages import (
    begin_messages,
    compare,
    finish_messages,
    requests,
    set_tag,
    take_messages,
)
from spmd_grid.kernels.ahead.pieces import finish_sends, go_by_pieces, say_done
from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.copy.boxes import move
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.kernels.protocol.sleeping import wake
from spmd_grid.kernels.protocol.waits import wait_a_while, wait_for

__all__ = ["begin_ahead", "end_ahead", "go_ahead"]

_LAG = ahead_at.LINES // 2  # a line is written again once all have posted in the run _LAG after it, and so have read it
_DIGEST_FACTOR = 6364136223846793005


@inner
def _await_word(state: int, word: int, number: int, member: int, patient: bool) -> int:
    """Wait until a word of a member reaches ``number``: FINE, OTHERS or ENDED."""
    if patient:
        return at.FINE if wait_for(state, word, number, member) == at.FINE else at.ENDED
    return at.FINE if wait_a_while(state, word, number) else at.OTHERS


@inner
def _wait(state: int, member: int, word: int, number: int, patient: bool) -> int:
    """Wait for a word of the line of a member in a run, and compare its key: FINE, OTHERS, ENDED or ANOTHER_RUN."""
    line = line_of(state, member, number)
    code = _await_word(state, line + word, number, member, patient)
    return compare(state, number, number, load(line, 1), -1 - member) if code == at.FINE else code


@inner
def _catch_up(state: int, next_run: int, patient: bool) -> int:
    """Compare the lines of all members of the node up to the run _LAG before ``next_run``.

    Where they share a core, a member that has to wait sleeps until the others have come to the run before
    ``next_run``: it would wake up in each run otherwise, and make one.
    """
    while load(state, ahead_at.SEEN) < next_run - _LAG:
        number = load(state, ahead_at.SEEN) + 1
        for i in range(load(state, at.MEMBERS)):
            if i != load(state, at.MEMBER):
                if load(state, at.SLEEPS) and load_acquire(line_of(state, i, number)) < number:
                    wait_a_while(state, line_of(state, i, next_run - 1), next_run - 1)
                code = _wait(state, i, 0, number, patient)
                if code != at.FINE:
                    return code
        store(state, ahead_at.SEEN, number)
    return at.FINE


@inner
def _until_read(state: int, next_run: int, patient: bool) -> int:
    """Wait until others of the node have read the copy that ``next_run`` overwrites; as `_await_word`."""
    number, code = load(state, ahead_at.COPY_RUNS + next_run % ahead_at.COPY_SLOTS), at.FINE
    for i in range(load(state, at.MEMBERS)):
        if code == at.FINE and i != load(state, at.MEMBER):
            code = _await_word(state, done_word(state, i), number, i, patient)
    return code


@inner
def _offset(run: int, program: int, state: int, x: int) -> int:
    """The offset at which the others of the node read this member's large array, or a copy of it in its memory."""
    n_bytes, pieces = load(program, ahead_at.POST_BYTES), load(program, ahead_at.PIECES)
    memory, offset = load(pieces, ahead_at.MEMORY), x - load(state, ahead_at.SEGMENT)
    if load(pieces, ahead_at.COPIED):
        number = load(state, at.EPOCH)
        table, columns = load(pieces, ahead_at.PIECE_TABLE), load(pieces, ahead_at.PIECE_COLUMNS)
        copy_at(load(run, at.RUN_COPY), table, columns, 0, load(pieces, ahead_at.COPIED), x, copy_of(state, number), 0)
        store(state, ahead_at.COPY_RUNS + number % ahead_at.COPY_SLOTS, number)
        return copy_of(state, number) - load(state, ahead_at.SEGMENT)
    if load(pieces, ahead_at.PREPARED):
        table, columns = load(pieces, ahead_at.PIECE_TABLE), load(pieces, ahead_at.PIECE_COLUMNS)
        copy_at(load(run, at.RUN_COPY), table, columns, 0, load(pieces, ahead_at.PREPARED), x, memory, 0)
        return memory - load(state, ahead_at.SEGMENT)
    if offset < 0 or offset + n_bytes > load(state, ahead_at.SEGMENT_BYTES):
        move(x, memory, n_bytes)
        return memory - load(state, ahead_at.SEGMENT)
    return offset


@inner
def _post(run: int, program: int, state: int, x: int, number: int) -> None:
    """Post this member's line, with its array or the one that it has received for its node."""
    line, source, posts = line_of(state, load(state, at.MEMBER), number), x, load(program, ahead_at.POSTS)
    if posts == ahead_at.RECEIVED:
        source = load(load(program, ahead_at.RECEIVE_ROWS), ahead_at.BUFFER)
    if posts != ahead_at.NO_ARRAY and load(program, ahead_at.PIECES):
        store(line, 2, _offset(run, program, state, x))
    elif posts == ahead_at.OWN_ARRAY and load(program, ahead_at.POST_FIRST) < load(program, ahead_at.POST_LAST):
        first, last = load(program, ahead_at.POST_FIRST), load(program, ahead_at.POST_LAST)
        table, columns = load(program, ahead_at.TABLE), load(program, ahead_at.COLUMNS)
        copy_at(load(run, at.RUN_COPY), table, columns, first, last, source, line + ahead_at.LINE_ARRAY, 0)
    elif posts != ahead_at.NO_ARRAY:
        move(source + load(program, ahead_at.POST_FROM), line + ahead_at.LINE_ARRAY, load(program, ahead_at.POST_BYTES))
    store(line, 1, load(program, ahead_at.KEY))
    store_release(line, number)  # after the stores of the line, and the loads of the runs before this one
    wake(state, line)


@inner
def _pass_on(program: int, state: int, number: int) -> None:
    """Copy what this member has received for others of its node to its line, unless it is there."""
    line = line_of(state, load(state, at.MEMBER), number)
    if load_acquire(line + ahead_at.LINE_PASSED) == number:
        return
    for i in range(load(program, ahead_at.PASSES)):
        row = load(program, ahead_at.PASS_ROWS) + 8 * ahead_at.PASS_WORDS * i
        move(load(row, ahead_at.PASS_FROM), line + load(row, ahead_at.PASS_AT), load(row, ahead_at.PASS_BYTES))
    store_release(line + ahead_at.LINE_PASSED, number)  # after the stores of the line
    wake(state, line + ahead_at.LINE_PASSED)


@inner
def _send(run: int, program: int, number: int) -> bool:
    """Begin to send the messages of a run, if it has any; return whether MPI has taken them."""
    table, columns = load(program, ahead_at.TABLE), load(program, ahead_at.COLUMNS)
    for i in range(load(program, ahead_at.PACKS)):
        row = load(program, ahead_at.PACK_ROWS) + 8 * ahead_at.PACK_WORDS * i
        first, last = load(row, ahead_at.PACK_FIRST), load(row, ahead_at.PACK_LAST)
        cells = load(row, ahead_at.PACK_CELLS)
        source = load(load(run, at.RUN_ROWS), load(row, ahead_at.PACK_SOURCE))
        copy_at(load(run, at.RUN_COPY), table, columns, first, last, source, cells, 0)
    store(program, ahead_at.SENT, number)
    return begin_messages(program, 1)


@inner
def _need(run: int, state: int, rows: int, count: int, number: int, patient: bool) -> int:
    """Wait for lines of this run, and note where their arrays lie; as `_wait`."""
    for i in range(count):
        row = rows + 8 * ahead_at.NEED_WORDS * i
        member = load(row, ahead_at.NEED_MEMBER)
        code = _wait(state, member, load(row, ahead_at.NEED_WORD), number, patient)
        if code != at.FINE:
            return code
        array = line_of(state, member, number) + load(row, ahead_at.NEED_AT)
        store(load(run, at.RUN_ROWS), load(row, ahead_at.NEED_SOURCE), array)
    return at.FINE


@inner
def begin_ahead(run: int, program: int, x: int, patient: bool) -> int:
    """Begin a run, once this member is not too far ahead of others of its node: FINE, ENDED, CUT or ANOTHER_RUN.

    OTHERS, and nothing has begun, if a run that is not ``patient`` would wait for long.
    """
    state, meeting = load(program, ahead_at.STATE), load(program, ahead_at.MEETING)
    number, key = load(state, at.EPOCH) + 1, load(program, ahead_at.KEY)
    code, pieces = _catch_up(state, number, patient), load(program, ahead_at.PIECES)
    if code == at.FINE and pieces and load(pieces, ahead_at.COPIED):
        code = _until_read(state, number, patient)
    if code != at.FINE:
        return code
    store(state, at.EPOCH, number)
    store(state, ahead_at.PROGRAM, program)
    store(state, ahead_at.KEYS + number % ahead_at.LINES, key)
    set_tag(state, number, key)
    store(meeting, at.RAN_AHEAD, load(meeting, at.RAN_AHEAD) * _DIGEST_FACTOR + key)
    if not (load(program, ahead_at.CARRIES) or load(program, ahead_at.PIECES) or _send(run, program, number)):
        return at.CUT  # sent before the others of the node are woken, who may take the core
    if not begin_messages(program, 0):
        return at.CUT
    if load(program, ahead_at.POSTS) != ahead_at.RECEIVED:
        _post(run, program, state, x, number)
    return at.FINE


@inner
def go_ahead(run: int, program: int, x: int, out: int, patient: bool) -> int:
    """Go on with a run that has begun, until all has come that this member copies.

    FINE, ENDED, CUT or ANOTHER_RUN; OTHERS if a run that is not ``patient`` would wait for long: it is called again.
    """
    if load(program, ahead_at.PIECES):
        return go_by_pieces(run, program, x, out, patient)
    state, receives, code = load(program, ahead_at.STATE), load(program, ahead_at.RECEIVES), at.FINE
    number = load(state, at.EPOCH)
    if load(program, ahead_at.SENDS) and load(program, ahead_at.SENT) != number:
        carries = load(program, ahead_at.CARRIES)
        code = _need(run, state, load(program, ahead_at.CARRY_ROWS), carries, number, patient)
        if code != at.FINE:
            return code
        if not _send(run, program, number):
            return at.CUT
    if receives and load(program, ahead_at.ARRIVED) != number:
        code = finish_messages(program, requests(program, 0), receives, 0, patient)
        if code != at.FINE:
            return code
        take_messages(run, program)
        store(program, ahead_at.ARRIVED, number)
    if load_acquire(line_of(state, load(state, at.MEMBER), number)) != number:
        _post(run, program, state, x, number)
    if load(program, ahead_at.PASSES):
        _pass_on(program, state, number)
    return _need(run, state, load(program, ahead_at.NEED_ROWS), load(program, ahead_at.NEEDS), number, patient)


@inner
def _say_done_once(state: int, number: int) -> None:
    if load_acquire(done_word(state, load(state, at.MEMBER))) != number:
        say_done(state, number)


@inner
def end_ahead(program: int, patient: bool) -> int:
    """End a run after its copies: wait until messages have gone, and others have read large arrays and pieces."""
    state, pieces = load(program, ahead_at.STATE), load(program, ahead_at.PIECES)
    number, rank, code = load(state, at.EPOCH), load(state, at.MEMBER), at.FINE
    if pieces and load(pieces, ahead_at.LAST_READ) <= load(pieces, ahead_at.TAKES) + 1:
        _say_done_once(state, number)
    if load(program, ahead_at.SENDS):
        code = finish_messages(program, requests(program, 1), load(program, ahead_at.SENDS), 1, patient)
    if not pieces or code != at.FINE:
        return code
    code = finish_sends(program, patient)
    if code == at.FINE:
        _say_done_once(state, number)
    for i in range(load(state, at.MEMBERS)):
        if code == at.FINE and load(pieces, ahead_at.LENT) and i != rank:
            code = _wait(state, i, 0, number, patient)
            if code == at.FINE:
                code = _await_word(state, done_word(state, i), number, i, patient)
    return code
