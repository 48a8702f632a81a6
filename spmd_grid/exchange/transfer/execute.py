"""The execution of a `Transfer` by messages, or by copies from arrays that this process can read.

By messages, boxes become flat bytes, one native collective (`run_message`) or a few messages (`send_and_receive`) carry
them, and they become boxes again; either side skips its pass where memory is contiguous already.  Operations copy from
the memory that processes share by tables that they keep (`DirectCopies`), and plans by a `Channel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from spmd_grid.exchange.requests import Steps, drive
from spmd_grid.exchange.transfer.flat_bytes import buffer_pool_of, copy_views, pack, receive_buffer, view_of
from spmd_grid.exchange.transfer.transfer import Transfer, run_of
from spmd_grid.grid.box import Box
from spmd_grid.transport.communicator import Communicator, tag_of

__all__ = ["FEW_MEMBERS", "copy_from", "next_tag", "run_message", "send_and_receive"]

# Some MPI libraries count the bytes of collectives in 32-bit integers; larger messages are sent in pieces.
_NATIVE_LIMIT = (1 << 31) - 1

# In groups of at most this size single messages beat MPI_Alltoallv: they do not stage what stays on its member.
FEW_MEMBERS = 8


def next_tag(comm: Communicator) -> int:
    """The tag of the next started movement; members start them in the same order.  Local."""
    comm.started += 1
    return tag_of("started movements", comm.started)


def copy_from(transfer: Transfer, sources: Sequence[np.ndarray | None], target: np.ndarray | None) -> None:
    """Copies the receives straight from those of the members' arrays that are there.  Local.

    They must not change meanwhile.
    """
    if target is not None:
        pairs = [(sources[receive.peer], receive) for receive in transfer.receives]
        copy_views([(view_of(x, r.source_box), view_of(target, r.box)) for x, r in pairs if x is not None])


def run_message(comm: Communicator, transfer: Transfer, source: np.ndarray | None, target: np.ndarray | None) -> None:
    """Runs a transfer on the message path.  Collective."""
    array = target if source is None else source
    itemsize = 0 if array is None else array.itemsize
    few = transfer.pattern == "all_to_all" and transfer.size <= FEW_MEMBERS
    if transfer.pattern == "pairwise" or few or transfer.volume * itemsize > _NATIVE_LIMIT:
        drive(comm, send_and_receive(comm, transfer, source, target, tag_of("blocking movements")))
        return
    root = -1 if transfer.root is None else transfer.root
    # A pattern needs those that it uses: the transfer has been checked.
    outgoing: Any = None
    incoming: Any = None
    finish = None
    pool = buffer_pool_of(comm.process)
    taken: list[np.ndarray] = []
    if source is not None:
        boxes = [send.box for send in transfer.sends]
        same = transfer.pattern in ("all_gather", "broadcast", "gather")
        outgoing = pack(source, boxes[:1] if same else boxes, transfer.send_run, pool, taken)
    if target is not None:
        incoming, finish = receive_buffer(
            target, [receive.box for receive in transfer.receives], transfer.receive_run, pool, taken
        )
    sent = [n * itemsize for n in transfer.send_counts]
    received = [n * itemsize for n in transfer.receive_counts]
    if transfer.pattern == "all_gather":
        comm.all_gather(outgoing, incoming, received)
    elif transfer.pattern == "all_to_all":
        comm.all_to_all(outgoing, sent, incoming, received)
    elif transfer.pattern == "gather":
        comm.gather(outgoing, incoming, received, root)
    elif transfer.pattern == "scatter":
        comm.scatter(outgoing, incoming, sent, root)
    elif transfer.pattern == "broadcast":
        comm.broadcast(outgoing if transfer.rank == root else incoming, root)
        if transfer.rank == root and outgoing is not None and incoming is not None:
            copy_views([(outgoing, incoming)])
    if finish is not None:
        finish()
    pool.give_back(taken)


def send_and_receive(
    comm: Communicator,
    transfer: Transfer,
    source: np.ndarray | None,
    target: np.ndarray | None,
    tag: int,
) -> Steps:
    """Sends the messages of a transfer one by one: yields the requests to wait for, then unpacks.

    Receives are posted first; cells that stay on this member are copied while messages travel.
    """
    requests: list[Any] = []
    finishes: list[Callable[[], None]] = []
    own: list[tuple[np.ndarray, np.ndarray]] = []
    pool = buffer_pool_of(comm.process)
    taken: list[np.ndarray] = []
    given, taking = cast(np.ndarray, source), cast(np.ndarray, target)  # None only where nothing is sent or received
    for receive in transfer.receives:
        if receive.peer == transfer.rank:
            own.append((view_of(given, receive.source_box), view_of(taking, receive.box)))
            continue
        incoming, finish = receive_buffer(taking, [receive.box], run_of(taking.shape, [receive.box]), pool, taken)
        requests += comm.irecv(incoming, receive.peer, tag)
        if finish is not None:
            finishes.append(finish)
    packed: tuple[Box, np.ndarray] | None = None
    for send in transfer.sends:
        if send.peer != transfer.rank:
            if packed is None or packed[0] != send.box:  # the same box often goes to several members
                packed = send.box, pack(given, [send.box], run_of(given.shape, [send.box]), pool, taken)
            requests += comm.isend(packed[1], send.peer, tag)
    copy_views(own)
    yield requests
    for finish in finishes:
        finish()
    pool.give_back(taken)
