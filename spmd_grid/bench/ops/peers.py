"""Operations written by hand with mpi4py, as an expert would: the contenders of ``bench ops``.

Message specifications, types and buffers are made beforehand.  Where the layout requires it, arrays are packed by
numpy or described by types; every collective is also measured in its persistent form if the library has one (MPI 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from spmd_grid.bench.common.mpi import mpi, once_and_persistent
from spmd_grid.bench.ops.cases import cut, one_cut
from spmd_grid.bench.reshard.peers import hand_written as reshard_by_hand

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["hand_written"]

Update = Callable[[], object]
Updates = dict[str, Update]


class _Arrays:
    """This rank's array and the array for its result; ``stack`` frees MPI objects."""

    def __init__(self, comm: Intracomm, x: np.ndarray, out: np.ndarray | None, stack: ExitStack) -> None:
        self.comm, self.x, self._out, self.stack = comm, x, out, stack
        self.sent = _doubles(x)
        self.received = None if out is None else _doubles(out)

    @property
    def out(self) -> np.ndarray:
        """The array for the result, on ranks that get one."""
        if self._out is None:
            raise ValueError("this rank gets no result")
        return self._out

    def collective(self, name: str, *arguments: Any) -> Updates:
        return once_and_persistent(self.stack, self.comm, name, *arguments)


def _doubles(array: np.ndarray) -> list[Any]:
    """A complete message specification, which mpi4py need not derive."""
    return [array, mpi().DOUBLE]


@contextmanager
def hand_written(comm: Intracomm, op: str, x: np.ndarray, out: np.ndarray | None) -> Iterator[Updates]:
    """Contenders by name: functions that, called on all ranks, do the operation ``op`` from ``x`` to ``out``.

    Collective.  ``op``: a key of `cases.OPS`; ``x``, ``out``: C-contiguous arrays of doubles; no ``out`` on ranks that
    get no result.  MPI objects are freed at the end of the ``with``.
    """
    with ExitStack() as stack:
        yield _WRITTEN[op](_Arrays(comm, x, out, stack))


# -- whole arrays ----------------------------------------------------------------------------------------------


def _all_gather_rows(arrays: _Arrays) -> Updates:
    return arrays.collective("Allgather", arrays.sent, arrays.received)


def _gather(arrays: _Arrays) -> Updates:
    return arrays.collective("Gather", arrays.sent, arrays.received, 0)


def _scatter(arrays: _Arrays) -> Updates:
    return arrays.collective("Scatter", arrays.sent if arrays.comm.rank == 0 else None, arrays.received, 0)


def _all_reduce(arrays: _Arrays) -> Updates:
    return arrays.collective("Allreduce", arrays.sent, arrays.received, mpi().SUM)


def _reduce_scatter(arrays: _Arrays) -> Updates:
    """Also `Reduce_scatter_block` if all blocks are equal."""
    comm, x = arrays.comm, arrays.x
    counts = [cut(x, 0, comm.size, rank).size for rank in range(comm.size)]
    updates = arrays.collective("Reduce_scatter", arrays.sent, arrays.received, counts, mpi().SUM)
    if len(set(counts)) == 1:
        updates |= arrays.collective("Reduce_scatter_block", arrays.sent, arrays.received, mpi().SUM)
    return updates


def _broadcast(arrays: _Arrays) -> Updates:
    """On the root, too, into a separate array, as ours does."""
    updates = arrays.collective("Bcast", arrays.received, 0)
    return updates if arrays.comm.rank else _around(updates, before=partial(np.copyto, arrays.out, arrays.x))


def _shift(arrays: _Arrays) -> Updates:
    comm, sent, received = arrays.comm, arrays.sent, arrays.received
    above, below = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    sendrecv, irecv, isend, wait_all = comm.Sendrecv, comm.Irecv, comm.Isend, mpi().Request.Waitall
    requests = [comm.Recv_init(received, below), comm.Send_init(sent, above)]
    for request in requests:
        arrays.stack.callback(request.Free)
    start_all = mpi().Prequest.Startall

    def persistent() -> None:
        start_all(requests)
        wait_all(requests)

    return {
        "Sendrecv": lambda: sendrecv(sent, above, 0, received, below, 0),
        "Isend/Irecv": lambda: wait_all([irecv(received, below), isend(sent, above)]),
        "Send_init/Recv_init": persistent,
    }


# -- parts of arrays -------------------------------------------------------------------------------------------


def _all_gather_columns(arrays: _Arrays) -> Updates:
    """Unpacked by numpy; or received as columns, by a type whose extent is one row of a rank's columns."""
    x, out, stack = arrays.x, arrays.out, arrays.stack
    staging, placed = _side_by_side(out, arrays.comm.size)
    updates = arrays.collective("Allgather", arrays.sent, _doubles(staging))
    updates = _around(updates, "numpy unpack, ", after=partial(np.copyto, placed, staging))
    columns = mpi().DOUBLE.Create_subarray(out.shape, x.shape, (0, 0))
    stack.callback(columns.Free)
    one = columns.Create_resized(0, x.shape[1] * x.itemsize).Commit()
    stack.callback(one.Free)
    typed = arrays.collective("Allgather", arrays.sent, [out, 1, one])
    return updates | {f"{name}, subarray types": update for name, update in typed.items()}


def _all_to_all(split: int, concat: int) -> Callable[[_Arrays], Updates]:
    """A resharding of the global array that the arrays of all ranks make up, in order along ``concat``."""

    def written(arrays: _Arrays) -> Updates:
        comm, x, out = arrays.comm, arrays.x, arrays.out
        shape = [n * comm.size if dim == concat else n for dim, n in enumerate(x.shape)]
        before, after = one_cut(comm.size, shape, concat), one_cut(comm.size, shape, split)
        updates = dict(arrays.stack.enter_context(reshard_by_hand(comm, x, out, before, after)))
        if x.shape[split] % comm.size:
            return updates
        if split == 0:  # pieces are sent from where they lie, and unpacked side by side
            staging, placed = _side_by_side(out, comm.size)
            equal = arrays.collective("Alltoall", arrays.sent, _doubles(staging))
            return updates | _around(equal, "numpy unpack, ", after=partial(np.copyto, placed, staging))
        staging, taken = _side_by_side(x, comm.size)
        equal = arrays.collective("Alltoall", _doubles(staging), arrays.received)
        return updates | _around(equal, "numpy pack, ", before=partial(np.copyto, staging, taken))

    return written


def _side_by_side(array: np.ndarray, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """A buffer for the columns of one rank after those of another, and a view of ``array`` in that order."""
    rows, columns = array.shape
    view = array.reshape(rows, ranks, columns // ranks).swapaxes(0, 1)
    return np.empty(view.shape), view


def _around(updates: Updates, label: str = "", before: Update | None = None, after: Update | None = None) -> Updates:
    """``updates``, each with a copy before or after it."""

    def with_copy(move: Update) -> Update:
        def update() -> None:
            if before is not None:
                before()
            move()
            if after is not None:
                after()

        return update

    return {f"{label}{name}": with_copy(move) for name, move in updates.items()}


_WRITTEN: dict[str, Callable[[_Arrays], Updates]] = {
    "all_gather axis 0": _all_gather_rows,
    "all_gather last axis": _all_gather_columns,
    "broadcast": _broadcast,
    "all_to_all 0 to 1": _all_to_all(0, 1),
    "all_to_all 1 to 0": _all_to_all(1, 0),
    "shift": _shift,
    "gather": _gather,
    "scatter": _scatter,
    "reduce_scatter": _reduce_scatter,
    "all_reduce": _all_reduce,
}
