"""Reshardings written by hand with mpi4py, as an expert would: the contenders of ``bench reshard``.

The box that one rank sends to another is described by a subarray type on either side, or packed into and unpacked from
contiguous buffers by numpy.  Types, buffers, requests and argument lists are made beforehand.  Boxes that are
contiguous in their arrays are sent and received in place, without a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from spmd_grid.bench.common.mpi import mpi, once_and_persistent
from spmd_grid.grid.box import Box
from spmd_grid.grid.layout import Layout

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Datatype, Intracomm

__all__ = ["ALLTOALLW", "hand_written"]

_TYPES = "subarray types"
ALLTOALLW = f"Alltoallw, {_TYPES}"

Update = Callable[[], object]
Part = tuple[np.ndarray, np.ndarray]  # of a buffer, and the view of the array that it is packed from or unpacked to


class _Side:
    """The source or the target, and its boxes that are sent to, or received from, every rank."""

    def __init__(self, array: np.ndarray, own: Box, boxes: list[Box], stack: ExitStack) -> None:
        self.array, self.stack = array, stack
        self.boxes = [box.relative_to(own.starts) for box in boxes]
        self.counts = [box.size for box in self.boxes]

    def view(self, rank: int) -> np.ndarray:
        return self.array[self.boxes[rank].slices()]

    def types(self) -> list[Datatype]:
        """A subarray type for every rank; for an empty box, of which MPI makes no type, a double."""
        double = mpi().DOUBLE
        types = []
        for box in self.boxes:
            if box.is_empty:
                types.append(double)
                continue
            types.append(double.Create_subarray(self.array.shape, box.shape, box.starts).Commit())
            self.stack.callback(types[-1].Free)
        return types

    def in_types(self, types: list[Datatype]) -> list[Any]:
        """The argument for Alltoallw."""
        counts = [int(count > 0) for count in self.counts]
        return [self.array, counts, [0] * len(counts), types]

    def in_doubles(self, but: int) -> tuple[list[Any], list[Part]]:
        """The argument for Alltoallv for all ranks ``but`` one, and the parts to pack or unpack.

        There are no parts if every box is contiguous in the array.
        """
        double = mpi().DOUBLE
        counts = [0 if rank == but else count for rank, count in enumerate(self.counts)]
        views = {rank: self.view(rank) for rank, count in enumerate(counts) if count}
        if all(view.flags.c_contiguous for view in views.values()):
            address = mpi().Get_address
            starts = [(address(views[r]) - address(self.array)) // 8 if r in views else 0 for r in range(len(counts))]
            return [self.array, counts, starts, double], []
        starts = [sum(counts[:rank]) for rank in range(len(counts))]
        buffer = np.empty(sum(counts))
        parts = {rank: buffer[starts[rank] : starts[rank] + counts[rank]] for rank in views}
        return [buffer, counts, starts, double], [
            (parts[rank].reshape(view.shape), view) for rank, view in views.items()
        ]


@contextmanager
def hand_written(
    comm: Intracomm, source: np.ndarray, target: np.ndarray, before: Layout, after: Layout
) -> Iterator[dict[str, Update]]:
    """Contenders by name: functions that, called on all ranks, move the cells of ``source`` into ``target``.

    Collective.  ``source``, ``target``: this rank's blocks of doubles in the layouts ``before`` and ``after`` on a grid
    of all ranks, C-contiguous.  MPI objects are freed at the end of the ``with``.
    """
    rank, ranks = comm.rank, range(comm.size)
    grid = before.grid
    sources, targets = ([layout.core_box(grid.multi_index(each)) for each in ranks] for layout in (before, after))
    with ExitStack() as stack:
        sent = _Side(source, sources[rank], [sources[rank].intersect(box) for box in targets], stack)
        received = _Side(target, targets[rank], [box.intersect(targets[rank]) for box in sources], stack)
        yield {**_by_types(comm, sent, received), **_by_packing(comm, sent, received)}


def _by_types(comm: Intracomm, sent: _Side, received: _Side) -> dict[str, Update]:
    stack, sent_types, received_types = sent.stack, sent.types(), received.types()
    both = sent.in_types(sent_types), received.in_types(received_types)
    updates = once_and_persistent(stack, comm, "Alltoallw", *both)
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    receives = [([received.array, 1, received_types[r]], r) for r in others if received.counts[r]]
    sends = [([sent.array, 1, sent_types[r]], r) for r in others if sent.counts[r]]
    irecv, isend, wait_all = comm.Irecv, comm.Isend, mpi().Request.Waitall
    copy, own = np.copyto, (received.view(comm.rank), sent.view(comm.rank))

    def nonblocking() -> None:
        requests = [irecv(buffer, rank) for buffer, rank in receives]
        requests += [isend(buffer, rank) for buffer, rank in sends]
        copy(*own)
        wait_all(requests)

    started = [comm.Recv_init(buffer, rank) for buffer, rank in receives]
    started += [comm.Send_init(buffer, rank) for buffer, rank in sends]
    for request in started:
        stack.callback(request.Free)
    start_all = mpi().Prequest.Startall

    def persistent() -> None:
        start_all(started)
        copy(*own)
        wait_all(started)

    updates |= {"Isend/Irecv": nonblocking, "Send_init/Recv_init": persistent}
    return {f"{name}, {_TYPES}": update for name, update in updates.items()}


def _by_packing(comm: Intracomm, sent: _Side, received: _Side) -> dict[str, Update]:
    outgoing, packed = sent.in_doubles(comm.rank)
    incoming, unpacked = received.in_doubles(comm.rank)
    copy, own = np.copyto, (received.view(comm.rank), sent.view(comm.rank))

    def around(all_to_all: Update) -> Update:
        def update() -> None:
            for part, view in packed:
                copy(part, view)
            all_to_all()
            copy(*own)
            for part, view in unpacked:
                copy(view, part)

        return update

    updates = once_and_persistent(sent.stack, comm, "Alltoallv", outgoing, incoming)
    return {f"numpy pack, {name}": around(all_to_all) for name, all_to_all in updates.items()}
