"""The one executor: runs a `Transfer` between arrays over any path.

*direct*: members can read one another's arrays; each copies what it receives straight from its owner, and nobody
leaves before all have finished reading.  *message*: boxes become flat bytes, one native collective or a few messages
carry them, and they become boxes again; either side skips its pass where memory is contiguous already.  Paths over
memory shared between processes join here as another source of readable arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from spmd_grid.exchange.requests import drive
from spmd_grid.exchange.transfer.flat_bytes import buffer_pool_of, copy_views, pack, receive_buffer, view_of
from spmd_grid.exchange.transfer.transfer import Transfer, run_of
from spmd_grid.transport.communicator import Communicator, tag_of

__all__ = ["FEW_MEMBERS", "copy_from", "next_tag", "run_direct", "run_message", "send_and_receive"]

# Native collectives count bytes in 32-bit integers in some MPI libraries; beyond that, messages go in pieces.
_NATIVE_LIMIT = (1 << 31) - 1

# In groups of up to this many, messages one by one beat MPI_Alltoallv: nothing is staged that stays on its member.
FEW_MEMBERS = 8


def next_tag(comm: Communicator) -> int:
    """The tag of the next started movement; members start them in the same order.  Local."""
    comm.started += 1
    return tag_of("started movements", comm.started)


def copy_from(transfer: Transfer, sources: Sequence[np.ndarray | None], target: np.ndarray | None) -> None:
    """Copies all receives straight from the members' arrays.  Local; the arrays must hold still meanwhile."""
    if target is not None:
        copy_views([(view_of(sources[r.peer], r.source_box), view_of(target, r.box)) for r in transfer.receives])


def run_direct(
    comm: Communicator,
    transfer: Transfer,
    sources: Sequence[np.ndarray | None],
    target: np.ndarray | None,
) -> None:
    """Runs on the direct path, the members' arrays being ``sources``.  Collective."""
    copy_from(transfer, sources, target)
    comm.barrier()


def run_message(comm: Communicator, transfer: Transfer, source: np.ndarray | None, target: np.ndarray | None) -> None:
    """Runs on the message path.  Collective."""
    array = target if source is None else source
    itemsize = 0 if array is None else array.itemsize
    few = transfer.pattern == "all_to_all" and transfer.size <= FEW_MEMBERS
    if transfer.pattern == "pairwise" or few or transfer.volume * itemsize > _NATIVE_LIMIT:
        drive(comm, send_and_receive(comm, transfer, source, target, tag_of("blocking movements")))
        return
    is_root = transfer.rank == transfer.root
    outgoing, incoming, finish = None, None, None
    rooms, taken = buffer_pool_of(comm.process), []
    if source is not None:
        boxes = [send.box for send in transfer.sends]
        same = transfer.pattern in ("all_gather", "broadcast", "gather")
        outgoing = pack(source, boxes[:1] if same else boxes, transfer.send_run, rooms, taken)
    if target is not None:
        incoming, finish = receive_buffer(
            target, [receive.box for receive in transfer.receives], transfer.receive_run, rooms, taken
        )
    sent = [n * itemsize for n in transfer.send_counts]
    received = [n * itemsize for n in transfer.receive_counts]
    if transfer.pattern == "all_gather":
        comm.all_gather(outgoing, incoming, received)
    elif transfer.pattern == "all_to_all":
        comm.all_to_all(outgoing, sent, incoming, received)
    elif transfer.pattern == "gather":
        comm.gather(outgoing, incoming, received, transfer.root)
    elif transfer.pattern == "scatter":
        comm.scatter(outgoing, incoming, sent, transfer.root)
    elif transfer.pattern == "broadcast":
        comm.broadcast(outgoing if is_root else incoming, transfer.root)
        if is_root:
            copy_views([(outgoing, incoming)])
    if finish is not None:
        finish()
    rooms.give_back(taken)


def send_and_receive(
    comm: Communicator,
    transfer: Transfer,
    source: np.ndarray | None,
    target: np.ndarray | None,
    tag: int,
) -> Iterator[list]:
    """The messages of a transfer one by one: yields the requests to wait for, then finishes.

    Receives are posted first; what stays on this member is copied while messages fly.
    """
    requests, finishes, own = [], [], []
    rooms, taken = buffer_pool_of(comm.process), []
    for receive in transfer.receives:
        if receive.peer == transfer.rank:
            own.append((view_of(source, receive.source_box), view_of(target, receive.box)))
            continue
        incoming, finish = receive_buffer(target, [receive.box], run_of(target.shape, [receive.box]), rooms, taken)
        requests += comm.irecv(incoming, receive.peer, tag)
        if finish is not None:
            finishes.append(finish)
    packed = None
    for send in transfer.sends:
        if send.peer != transfer.rank:
            if packed is None or packed[0] != send.box:  # the same box often goes to several members
                packed = send.box, pack(source, [send.box], run_of(source.shape, [send.box]), rooms, taken)
            requests += comm.isend(packed[1], send.peer, tag)
    copy_views(own)
    yield requests
    for finish in finishes:
        finish()
    rooms.give_back(taken)
