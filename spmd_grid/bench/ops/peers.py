"""Operations written by hand with mpi4py, as an expert would: the contenders of ``bench ops``.

Message specifications, types and buffers are made beforehand.  Where the layout requires it, arrays are packed by
numpy or described by types; every collective has its persistent form beside it where the library has one (MPI 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np

from spmd_grid.bench.common.mpi import mpi, once_and_persistent
from spmd_grid.bench.ops.cases import cut, one_cut
from spmd_grid.bench.reshard.peers import hand_written as reshard_by_hand

__all__ = ["hand_written"]

Update = Callable[[], object]
Ways = dict[str, Update]


class _Arrays:
    """The own array and the one to fill; what is made is freed through ``made``."""

    def __init__(self, comm, x: np.ndarray, out: np.ndarray | None, made: ExitStack):
        self.comm, self.x, self.out, self.made = comm, x, out, made
        self.sent = _doubles(x)
        self.received = None if out is None else _doubles(out)

    def collective(self, name: str, *arguments) -> Ways:
        return once_and_persistent(self.made, self.comm, name, *arguments)


def _doubles(array: np.ndarray) -> list:
    """A message specification that mpi4py need not work out."""
    return [array, mpi().DOUBLE]


@contextmanager
def hand_written(comm, op: str, x: np.ndarray, out: np.ndarray | None) -> Iterator[Ways]:
    """The contenders by name: each, called on all ranks, does what ``op`` does, from ``x`` to ``out``.

    Collective.  ``op``: as `ops_cases.OPS` calls it; ``x``, ``out``: C-contiguous arrays of doubles; no ``out`` where
    this rank gets nothing.  What MPI made is freed at the end of the ``with``.
    """
    with ExitStack() as made:
        yield _WRITTEN[op](_Arrays(comm, x, out, made))


# -- whole arrays ----------------------------------------------------------------------------------------------


def _all_gather_rows(arrays: _Arrays) -> Ways:
    return arrays.collective("Allgather", arrays.sent, arrays.received)


def _gather(arrays: _Arrays) -> Ways:
    return arrays.collective("Gather", arrays.sent, arrays.received, 0)


def _scatter(arrays: _Arrays) -> Ways:
    return arrays.collective("Scatter", arrays.sent if arrays.comm.rank == 0 else None, arrays.received, 0)


def _all_reduce(arrays: _Arrays) -> Ways:
    return arrays.collective("Allreduce", arrays.sent, arrays.received, mpi().SUM)


def _reduce_scatter(arrays: _Arrays) -> Ways:
    """`Reduce_scatter_block` where all get equally much."""
    comm, x = arrays.comm, arrays.x
    counts = [cut(x, 0, comm.size, rank).size for rank in range(comm.size)]
    ways = arrays.collective("Reduce_scatter", arrays.sent, arrays.received, counts, mpi().SUM)
    if len(set(counts)) == 1:
        ways |= arrays.collective("Reduce_scatter_block", arrays.sent, arrays.received, mpi().SUM)
    return ways


def _broadcast(arrays: _Arrays) -> Ways:
    """Into an array of its own on the root, too, as ours."""
    ways = arrays.collective("Bcast", arrays.received, 0)
    return ways if arrays.comm.rank else _around(ways, before=partial(np.copyto, arrays.out, arrays.x))


def _shift(arrays: _Arrays) -> Ways:
    comm, sent, received = arrays.comm, arrays.sent, arrays.received
    above, below = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    sendrecv, irecv, isend, wait_all = comm.Sendrecv, comm.Irecv, comm.Isend, mpi().Request.Waitall
    requests = [comm.Recv_init(received, below), comm.Send_init(sent, above)]
    for request in requests:
        arrays.made.callback(request.Free)
    start_all = mpi().Prequest.Startall

    def persistent():
        start_all(requests)
        wait_all(requests)

    return {
        "Sendrecv": lambda: sendrecv(sent, above, 0, received, below, 0),
        "Isend/Irecv": lambda: wait_all([irecv(received, below), isend(sent, above)]),
        "Send_init/Recv_init": persistent,
    }


# -- parts of arrays -------------------------------------------------------------------------------------------


def _all_gather_columns(arrays: _Arrays) -> Ways:
    """Unpacked by numpy; or received as columns, by a type of which the next begins where the columns end."""
    x, out, made = arrays.x, arrays.out, arrays.made
    staging, placed = _side_by_side(out, arrays.comm.size)
    ways = arrays.collective("Allgather", arrays.sent, _doubles(staging))
    ways = _around(ways, "numpy unpack, ", after=partial(np.copyto, placed, staging))
    columns = mpi().DOUBLE.Create_subarray(out.shape, x.shape, (0, 0))
    made.callback(columns.Free)
    one = columns.Create_resized(0, x.shape[1] * x.itemsize).Commit()
    made.callback(one.Free)
    typed = arrays.collective("Allgather", arrays.sent, [out, 1, one])
    return ways | {f"{name}, subarray types": way for name, way in typed.items()}


def _all_to_all(split: int, concat: int) -> Callable[[_Arrays], Ways]:
    """A resharding of the global array that all arrays make, one after the other along ``concat``."""

    def written(arrays: _Arrays) -> Ways:
        comm, x, out = arrays.comm, arrays.x, arrays.out
        shape = [n * comm.size if dim == concat else n for dim, n in enumerate(x.shape)]
        before, after = one_cut(comm.size, shape, concat), one_cut(comm.size, shape, split)
        ways = dict(arrays.made.enter_context(reshard_by_hand(comm, x, out, before, after)))
        if x.shape[split] % comm.size:
            return ways
        if split == 0:  # pieces leave as they lie, and are put side by side
            staging, placed = _side_by_side(out, comm.size)
            equal = arrays.collective("Alltoall", arrays.sent, _doubles(staging))
            return ways | _around(equal, "numpy unpack, ", after=partial(np.copyto, placed, staging))
        staging, taken = _side_by_side(x, comm.size)
        equal = arrays.collective("Alltoall", _doubles(staging), arrays.received)
        return ways | _around(equal, "numpy pack, ", before=partial(np.copyto, staging, taken))

    return written


def _side_by_side(array: np.ndarray, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """A buffer that has the columns of one rank after those of another, and a view of ``array`` in that order."""
    rows, columns = array.shape
    view = array.reshape(rows, ranks, columns // ranks).swapaxes(0, 1)
    return np.empty(view.shape), view


def _around(ways: Ways, label: str = "", before: Update | None = None, after: Update | None = None) -> Ways:
    """Each with a copy before or after it."""

    def with_copy(way: Update) -> Update:
        def update():
            if before is not None:
                before()
            way()
            if after is not None:
                after()

        return update

    return {f"{label}{name}": with_copy(way) for name, way in ways.items()}


_WRITTEN: dict[str, Callable[[_Arrays], Ways]] = {
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
