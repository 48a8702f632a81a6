"""mpi4py-fft: ``Pencil.transfer``, which is Alltoallw with subarray types made beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from spmd_grid.bench.common.contenders import Contender
from spmd_grid.bench.libraries.library import DeclinedError, PeerLibrary
from spmd_grid.bench.reshard.cases import ReshardCase

__all__ = ["Mpi4pyFft"]


class Mpi4pyFft(PeerLibrary):
    """Pencils cut along one dimension, from and to the arrays of the hand-written contenders."""

    name = "mpi4py-fft"
    package = "mpi4py_fft"
    distribution = "mpi4py-fft"
    extra = "bench-fft"
    copies = 1

    def load(self) -> None:
        from mpi4py_fft import pencil

        self.pencil = pencil

    @contextmanager
    def contenders(self, case: ReshardCase, source: np.ndarray, target: np.ndarray) -> Iterator[dict[str, Contender]]:
        whole = [int(dim != case.before) for dim in range(len(case.shape))]  # 0: this dimension is cut
        group = self.pencil.Subcomm(self.comm, whole)
        before = self.pencil.Pencil(group, case.shape, axis=case.after)
        after = before.pencil(case.before)
        fits = (tuple(before.subshape), tuple(after.subshape)) == (source.shape, target.shape)
        try:
            if not all(self.comm.allgather(fits)):
                raise DeclinedError("it cuts this shape into different blocks")
            transfer = before.transfer(after, "d")
            try:
                yield {
                    f"{self.name} Pencil.transfer": Contender(lambda: transfer.forward(source, target), source, target)
                }
            finally:
                transfer.destroy()
        finally:
            group.destroy()
