"""heat: ``resplit``, which sends tiles of torch tensors by mpi4py and returns a new array."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from spmd_grid.bench.common.contenders import Contender
from spmd_grid.bench.libraries.library import DeclinedError, PeerLibrary
from spmd_grid.bench.reshard.cases import ReshardCase

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["Heat", "share_cores"]


def share_cores(comm: Intracomm) -> None:
    """Give the threads of torch on each rank an equal share of the cores.  Local."""
    import torch

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // comm.size))


class Heat(PeerLibrary):
    """Its array wraps the memory of the source; every call makes a new array."""

    name = distribution = package = "heat"
    copies = 3

    def load(self) -> None:
        import heat
        import torch

        share_cores(self.comm)
        self.heat, self.torch = heat, torch

    @contextmanager
    def contenders(self, case: ReshardCase, source: np.ndarray, target: np.ndarray) -> Iterator[dict[str, Contender]]:
        array = self.heat.array(self.torch.from_numpy(source), is_split=case.before, copy=False)
        resplit, after = self.heat.resplit, case.after
        fits = tuple(resplit(array, after).larray.shape) == target.shape
        if not all(self.comm.allgather(fits)):
            raise DeclinedError("it cuts this shape into different blocks")
        yield {f"{self.name} resplit": Contender(lambda: resplit(array, after).larray, source)}
