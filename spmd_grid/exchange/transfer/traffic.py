"""The bytes that transfers send to each process, for traces: counted in boxes, on any path."""

from __future__ import annotations

from spmd_grid.exchange.transfer.transfer import Transfer
from spmd_grid.transport.communicator import Communicator
from spmd_grid.watch.traffic import Traffic, group_name

__all__ = ["TransferTraffic"]


class TransferTraffic:
    """The transfers of one operation, with elements of ``itemsize`` bytes, on the path ``way``.  Local."""

    __slots__ = ("_comm", "_itemsize", "_transfers", "_way")

    def __init__(self, comm: Communicator, itemsize: int, way: str, *transfers: Transfer):
        self._comm, self._itemsize, self._way, self._transfers = comm, itemsize, way, transfers

    def traffic(self) -> Traffic:
        """Its record in a trace."""
        processes = self._comm.processes
        sent: dict[int, int] = {}
        for transfer in self._transfers:
            for send in transfer.sends:
                if send.peer != transfer.rank:
                    peer = processes[send.peer]
                    sent[peer] = sent.get(peer, 0) + send.box.size * self._itemsize
        return Traffic(sent, self._way, group_name(processes))
