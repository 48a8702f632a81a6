"""torch: ``DTensor.redistribute`` over gloo, on the ranks of the MPI job.

Gloo has no all-to-all that DTensor could use: every process gathers the whole array and keeps its part.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from spmd_grid.bench.common.contenders import Contender
from spmd_grid.bench.libraries.library import DeclinedError, PeerLibrary
from spmd_grid.bench.reshard.cases import ReshardCase
from spmd_grid.bench.reshard.libraries.heat import share_cores

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["DTensor"]


class DTensor(PeerLibrary):
    """Its tensor wraps the memory of the source; every call makes a new tensor."""

    name = "DTensor"
    package = distribution = "torch"

    def __init__(self, comm: Intracomm) -> None:
        super().__init__(comm)
        self.copies = 2 * comm.size + 2  # every process gathers the whole array

    def load(self) -> None:
        import torch
        from torch import distributed
        from torch.distributed import tensor

        share_cores(self.comm)
        self.torch, self.distributed, self.tensor = torch, distributed, tensor
        rank, size = self.comm.rank, self.comm.size
        store = None
        if rank == 0:  # listens on a free port, which the others then learn
            with suppress(RuntimeError):
                store = distributed.TCPStore("127.0.0.1", 0, size, True, wait_for_workers=False)
        port = self.comm.bcast(store.port if store else None)
        if port is None:
            raise RuntimeError("no free port at 127.0.0.1 for the rendezvous")
        store = store or distributed.TCPStore("127.0.0.1", port, size, False)
        distributed.init_process_group("gloo", store=store, rank=rank, world_size=size)
        self.mesh = tensor.DeviceMesh("cpu", list(range(size)))

    @contextmanager
    def contenders(self, case: ReshardCase, source: np.ndarray, target: np.ndarray) -> Iterator[dict[str, Contender]]:
        torch, shard = self.torch, self.tensor.Shard
        array = self.tensor.DTensor.from_local(
            torch.from_numpy(source),
            self.mesh,
            [shard(case.before)],
            run_check=False,
            shape=torch.Size(case.shape),
            stride=torch.empty(case.shape, device="meta").stride(),
        )
        after = [shard(case.after)]

        def redistribute() -> Any:
            return array.redistribute(placements=after).to_local()

        if not all(self.comm.allgather(tuple(redistribute().shape) == target.shape)):
            raise DeclinedError("it cuts this shape into different blocks")
        yield {f"{self.name} redistribute, gloo": Contender(redistribute, source)}

    def close(self) -> None:
        self.distributed.destroy_process_group()
