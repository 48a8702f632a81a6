"""The bytes that transfers send to each process, for traces: counted in boxes, on any path."""

from __future__ import annotations

from spmd_grid.exchange.transfer.transfer import Transfer
from spmd_grid.transport.communicator import Communicator
from spmd_grid.watch.traffic import Traffic, group_name

__all__ = ["traffic_of"]


def traffic_of(comm: Communicator, itemsize: int, way: str, *transfers: Transfer) -> Traffic:
    """The record of one operation's transfers, with elements of ``itemsize`` bytes, on the path ``way``.  Local."""
    processes = comm.processes
    sent: dict[int, int] = {}
    for transfer in transfers:
        for send in transfer.sends:
            if send.peer != transfer.rank:
                peer = processes[send.peer]
                sent[peer] = sent.get(peer, 0) + send.box.size * itemsize
    return Traffic(sent, way, group_name(processes))
