"""Other libraries whose arrays compute: heat and torch's DTensor on the ranks, dask in a process of its own.

Each is asked first whether it gets small blocks of a row right; a library that does not, or has no such function, is
skipped in that row, and the reason printed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from spmd_grid.bench.arrays.cases import CHECKED_SIDE, OPS, RANDOM, ArraysCase, block_of, problem, raised
from spmd_grid.bench.common.contenders import Contender
from spmd_grid.bench.libraries.library import DeclinedError, PeerLibrary
from spmd_grid.bench.libraries.own_process import LibraryInOwnProcess
from spmd_grid.bench.reshard.libraries.dtensor import DTensor
from spmd_grid.bench.reshard.libraries.heat import Heat
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["ARRAY_LIBRARY_TYPES"]

_COPIES_OF_BLOCKS = 8
Call = Callable[[], Any]


class _OnRanks(PeerLibrary):
    """A library whose arrays lie on the ranks of the MPI job."""

    def __init__(self, comm: Intracomm) -> None:
        super().__init__(comm)
        self.copies = _COPIES_OF_BLOCKS * comm.size * (comm.size if self.name == "DTensor" else 1)

    @abstractmethod
    def array(self, block: np.ndarray, layout: Layout) -> Any:
        """The library's array around this rank's block.  Collective."""

    @abstractmethod
    def expression(self, case: ArraysCase, a: Any, b: Any) -> Call:
        """The call that evaluates a row's expression, and leaves its cells on the ranks."""

    @abstractmethod
    def whole(self, result: Any) -> np.ndarray:
        """The global array or number.  Collective."""

    @contextmanager
    def contenders(self, case: Any, source: np.ndarray, target: np.ndarray) -> Iterator[dict[str, Contender]]:
        self._check(ArraysCase(case.op, CHECKED_SIDE))
        arrays = [self.array(block, layout) for block, layout in zip((source, target), self._layouts(case))]
        yield {f"{self.name} {case.op}": Contender(self.expression(case, *arrays), source)}

    def _layouts(self, case: ArraysCase) -> tuple[Layout, Layout]:
        return case.layouts(Grid((self.comm.size,)))

    def _check(self, case: ArraysCase) -> None:
        """Raise `DeclinedError`, on all ranks alike, unless the library gets the row right."""
        try:
            arrays = [
                self.array(block_of(layout.core_box((self.comm.rank,)), n), layout)
                for n, layout in enumerate(self._layouts(case))
            ]
            reason = problem(case, self.comm.size, np.asarray(self.whole(self.expression(case, *arrays)())))
        except Exception as error:
            reason = raised(error)
        first_reason = next(filter(None, self.comm.allgather(reason)), None)
        if first_reason is not None:
            raise DeclinedError(first_reason)


class _Heat(_OnRanks, Heat):
    def array(self, block: np.ndarray, layout: Layout) -> Any:
        return self.heat.array(self.torch.from_numpy(block), is_split=layout.sharding.sharded_dims[0], copy=False)

    def expression(self, case: ArraysCase, a: Any, b: Any) -> Call:
        heat, op = self.heat, OPS[case.op]
        if case.op == RANDOM:
            return lambda: heat.random.randn(*a.shape, dtype=heat.float64, split=0)
        if op.ndim == 1:
            return lambda: heat.sort(a, axis=0)[0]
        if op.is_view:
            return lambda: self._in_order(op.call(heat, a, b))
        return lambda: op.call(heat, a, b)

    def _in_order(self, view: Any) -> Any:
        """A copy with rows one after the other, as all others make it; that of heat.copy keeps the view's strides."""
        own = view.larray.clone(memory_format=self.torch.contiguous_format)
        return self.heat.DNDarray(own, view.shape, view.dtype, view.split, view.device, view.comm, view.balanced)

    def whole(self, result: Any) -> np.ndarray:
        return result.numpy()


class _DTensor(_OnRanks, DTensor):
    def array(self, block: np.ndarray, layout: Layout) -> Any:
        return self.tensor.DTensor.from_local(
            self.torch.from_numpy(block),
            self.mesh,
            [self.tensor.Shard(layout.sharding.sharded_dims[0])],
            run_check=False,
            shape=self.torch.Size(layout.global_shape),
            stride=self.torch.empty(layout.global_shape, device="meta").stride(),
        )

    def expression(self, case: ArraysCase, a: Any, b: Any) -> Call:
        torch, op, tensor = self.torch, OPS[case.op], self.tensor
        if case.op == RANDOM:
            rows = [tensor.Shard(0)]
            return lambda: tensor.randn(*a.shape, dtype=torch.float64, device_mesh=self.mesh, placements=rows)
        if op.ndim == 1:
            return lambda: torch.sort(a)[0]
        if case.op.startswith("a.sum"):
            everywhere = [tensor.Replicate()]  # else the sum would be left undone
            return lambda: op.call(torch, a, b).redistribute(placements=everywhere)
        if op.is_view:
            return lambda: op.call(torch, a, b).clone(memory_format=torch.contiguous_format)
        return lambda: op.call(torch, a, b)

    def whole(self, result: Any) -> np.ndarray:
        return result.full_tensor().numpy()


class _Dask(LibraryInOwnProcess):
    """A chunk for each rank, on as many threads of one process."""

    name = package = distribution = "dask"
    copies = _COPIES_OF_BLOCKS
    module = "spmd_grid.bench.arrays.dask_process"

    def question(self, case: ArraysCase) -> dict[str, Any]:
        return {"op": case.op, "side": case.side, "ranks": self.comm.size}


ARRAY_LIBRARY_TYPES: list[type[PeerLibrary]] = [_Heat, _DTensor, _Dask]  # in the order of `rows.ARRAY_LIBRARIES`
