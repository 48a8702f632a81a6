"""Buffers as MPI takes them: in pieces that it can count, divided by counts, and scattered in memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from spmd_grid.transport.communicator import LARGEST_MESSAGE
from spmd_grid.transport.mpi.library import MPI
from spmd_grid.transport.wire import Straight

__all__ = ["all_equal", "by_counts", "pieces", "send_straight"]


def pieces(buffer: np.ndarray) -> list[np.ndarray]:
    """``buffer`` cut into pieces of at most LARGEST_MESSAGE bytes."""
    if len(buffer) <= LARGEST_MESSAGE:
        return [buffer]
    return [buffer[start : start + LARGEST_MESSAGE] for start in range(0, len(buffer), LARGEST_MESSAGE)]


def all_equal(counts: Sequence[int]) -> bool:
    return counts.count(counts[0]) == len(counts)


def by_counts(buffer: np.ndarray | None, counts: Sequence[int]) -> list[Any]:
    """The specification of ``buffer``, cut by ``counts``, for MPI's collectives."""
    return [buffer, (counts, [0, *accumulate(counts)][:-1]), MPI.BYTE]


def send_straight(comm: MPI.Intracomm, message: Straight, tag: int) -> MPI.Prequest:
    """A persistent send of a header and of cells where they lie in memory, by a derived datatype."""
    addresses, types = [message.head.ctypes.data], [MPI.BYTE.Create_contiguous(len(message.head))]
    for address, shape, strides, itemsize in message.cells:
        run, loops = itemsize, list(zip(shape, strides, strict=True))
        while loops and loops[-1][1] == run:  # contiguous: long runs are copied faster than many items
            run *= loops.pop()[0]
        datatype = MPI.BYTE.Create_contiguous(run)
        for extent, stride in reversed(loops):
            whole = datatype.Create_hvector(extent, 1, stride)
            datatype.Free()
            datatype = whole
        addresses.append(address)
        types.append(datatype)
    whole = MPI.Datatype.Create_struct([1] * len(types), addresses, types)
    whole.Commit()
    request = comm.Send_init([MPI.BOTTOM, 1, whole], message.member, tag)
    for datatype in [*types, whole]:
        datatype.Free()  # MPI keeps them for the request
    return request
