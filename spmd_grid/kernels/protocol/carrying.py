"""The lines of a meeting that cross between nodes, carried by one member of each node while it waits.

Members of a node post their lines in its memory (``meeting.py``).  For each other node one of them, the *carrier*,
waits until all have come, and sends their lines in a message.  It receives those of the other node, and writes them to
blocks that *mirror* the blocks of its members, in memory that all members of this node see.  So every member waits for
lines alone, wherever their owners are, and a line that has crossed looks like any other.

Mirrors have one writer.  It writes a line once all members of its node have posted in the same meeting, which they do
after they have read the line of the meeting before the last, which lay there: as with lines, two by turns are enough.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import (
    complete_messages,
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

__all__ = ["carry"]

_HEAD_BYTES = 8 * at.HEAD_WORDS


@inner
def _aligned(n_bytes: int) -> int:
    return (n_bytes + at.BODY_ALIGNED - 1) // at.BODY_ALIGNED * at.BODY_ALIGNED


@inner
def _pack(carrier: int, turn: int) -> int:
    """Pack the lines of this node's members into the message; its size."""
    near, blocks, message = load(carrier, at.NEAR), load(carrier, at.NEAR_BLOCKS), load(carrier, at.OUTGOING)
    end = message + near * _HEAD_BYTES
    for i in range(near):
        line, head = load(blocks, i) + turn, message + i * _HEAD_BYTES
        flags = load(line + at.LINE_LOCATION, at.LOCATION_FLAGS)
        store(head, at.HEAD_KEY, load(line, at.LINE_KEY))
        store(head, at.HEAD_OFFSET, load(line + at.LINE_LOCATION, at.LOCATION_OFFSET))
        store(head, at.HEAD_FLAGS, flags)
        store(head, at.HEAD_RAN_AHEAD, load(line + at.LINE_RAN_AHEAD, 0))
        move(line + at.LINE_FRAME, head + 8 * at.HEAD_FRAME, 8 * at.FRAME_WORDS)
        n_bytes = flags // at.BODY_BYTES
        if n_bytes:
            move(line + at.LINE_ARRAY, end, n_bytes)
            end += _aligned(n_bytes)
    return end - message


@inner
def _unpack(state: int, row: int, turn: int, epoch: int) -> None:
    """Write the lines in a message that has come to the mirrors of their owners."""
    members, mirrors, message = load(row, at.NODE_MEMBERS), load(row, at.NODE_MIRRORS), load(row, at.NODE_INBOX)
    end = message + members * _HEAD_BYTES
    for i in range(members):
        line, head = load(mirrors, i) + turn, message + i * _HEAD_BYTES
        key, flags = load(head, at.HEAD_KEY), load(head, at.HEAD_FLAGS)
        n_bytes, offset = flags // at.BODY_BYTES, load(head, at.HEAD_OFFSET)
        if n_bytes:
            offset = turn + at.LINE_ARRAY  # in the mirror
            move(end, line + at.LINE_ARRAY, n_bytes)
            end += _aligned(n_bytes)
        store(line, at.LINE_KEY, key - (key & at.SHORT))
        store(line + at.LINE_LOCATION, at.LOCATION_OFFSET, offset)
        store(line + at.LINE_LOCATION, at.LOCATION_FLAGS, flags)
        store(line + at.LINE_RAN_AHEAD, 0, load(head, at.HEAD_RAN_AHEAD))
        move(head + 8 * at.HEAD_FRAME, line + at.LINE_FRAME, 8 * at.FRAME_WORDS)
        store_release(line, epoch)  # after the stores of the line
        wake(state, line)


@inner
def _send(carrier: int, turn: int) -> bool:
    """Begin all messages of a meeting; False where MPI fails."""
    n_bytes, nodes, rows = _pack(carrier, turn), load(carrier, at.NODES), load(carrier, at.NODE_ROWS)
    datatype, tag, comm = load(carrier, at.DATATYPE), load(carrier, at.TAG), load(carrier, at.COMMUNICATOR)
    request, width = load(carrier, at.HANDLES), load(carrier, at.HANDLE_BYTES)
    for i in range(nodes):
        row = rows + 8 * at.NODE_WORDS * i
        inbox, most, peer = load(row, at.NODE_INBOX), load(row, at.NODE_INBOX_BYTES), load(row, at.NODE_PEER)
        if post_message(load(carrier, at.IRECV), inbox, most, datatype, peer, tag, comm, request) != 0:
            return False
        request += width
    for i in range(nodes):
        peer = load(rows + 8 * at.NODE_WORDS * i, at.NODE_PEER)
        if post_message(
            load(carrier, at.ISEND), load(carrier, at.OUTGOING), n_bytes, datatype, peer, tag, comm, request
        ):
            return False
        request += width
    return True


@inner
def carry(state: int, carrier: int) -> bool:
    """Do what can be done now to carry the lines of the meeting under way; whether nothing is left to do.

    Nothing is left either where MPI has failed.
    """
    epoch = load(state, at.EPOCH)
    if load(carrier, at.CARRIED) == epoch or load(carrier, at.FAILED):
        return True
    turn, nodes = (epoch & 1) * load(state, at.LINE_BYTES), load(carrier, at.NODES)
    if load(carrier, at.SENT) != epoch:
        blocks = load(carrier, at.NEAR_BLOCKS)
        for i in range(load(carrier, at.NEAR)):
            line = load(blocks, i) + turn
            if load_acquire(line) < epoch:
                store(carrier, at.AWAITED, line)
                return False
        store(carrier, at.AWAITED, 0)
        store(carrier, at.SPUN, 0)
        store(carrier, at.SENT, epoch)
        if not _send(carrier, turn):
            store(carrier, at.FAILED, 1)
            return True
    flag = load(state, at.FLAG)
    code = complete_messages(
        load(state, at.TEST_MESSAGES), 2 * nodes, load(carrier, at.HANDLES), flag, load(state, at.STATUSES)
    )
    if code != 0:
        store(carrier, at.FAILED, 1)
        return True
    if not load(flag, 0):
        return False
    for i in range(nodes):
        _unpack(state, load(carrier, at.NODE_ROWS) + 8 * at.NODE_WORDS * i, turn, epoch)
    store(carrier, at.CARRIED, epoch)
    return True
