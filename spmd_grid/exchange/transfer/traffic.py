"""The bytes that transfers send to each process, for traces: counted in boxes, on any path."""

from __future__ import annotations

from collections.abc import Mapping

from spmd_grid.exchange.transfer.transfer import Transfer
from spmd_grid.transport.communicator import Communicator
from spmd_grid.watch.traffic import Traffic, group_name

__all__ = ["traffic_of"]


def traffic_of(
    comm: Communicator, itemsize: int, way: str, *transfers: Transfer, crossing: Mapping[int, int] | None = None
) -> Traffic:
    """The record of one operation's transfers, with elements of ``itemsize`` bytes, on the path ``way``.  Local.

    ``crossing``: the bytes to each member of another node in place of what the transfers send there.
    """
    processes = comm.processes
    sent = {processes[member]: n_bytes for member, n_bytes in (crossing or {}).items()}
    for transfer in transfers:
        for send in transfer.sends:
            if send.peer != transfer.rank and (crossing is None or send.peer in comm.near):
                peer = processes[send.peer]
                sent[peer] = sent.get(peer, 0) + send.box.size * itemsize
    return Traffic(sent, way, group_name(processes))
