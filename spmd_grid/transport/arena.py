"""Memory that all processes of a node can address, in which arrays should be allocated.

Every process owns one segment of a mapping that all processes of its node share, and allocates from its own segment
only.  The mapping is sparse: pages exist once they are touched, so a segment may be as large as this process's share of
all memory.

    node     | segment of process 0 | segment of process 1 | segment of process 2 |    one mapping per process,
             base_of(0)             base_of(1)             base_of(2)                  at its own address

The mapping is of an anonymous file (``memfd_create``), which the first process of the node makes and the others open
through ``/proc``.  It has no name, so nothing is left behind however the job ends; it lies in no file system of limited
size, so writing to it fails only where ordinary memory would fail; and it lasts as long as any array in it.
``MPI.Win.Allocate_shared`` guarantees none of this: it uses /dev/shm, which containers keep small.  There MPICH's
processes die of a bus error once it is full, and Open MPI's print an error of UCX even in successful runs.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from spmd_grid.transport.kept_arrays import KeptArrays
from spmd_grid.transport.segment import LARGE, PAGE, Segment, extent_of

__all__ = ["Arena", "NodeArena", "OneProcessArena", "share_memory"]


class Arena:
    """The arena of a process that shares no memory: nothing can be allocated in it."""

    __slots__ = ("__weakref__",)

    def allocate(self, nbytes: int, zeroed: bool = False) -> np.ndarray | None:
        """A flat uint8 array in this process's segment, or None if there is no space.

        Local; any thread may call it.  It begins on a cache line, from 64 KiB on a page.  Fresh memory is zeros and has
        not been touched; ``zeroed`` clears used memory too.  The memory returns to the segment when the array and all
        views of it are gone.
        """
        return None

    def offset_of(self, address: int, nbytes: int) -> int:
        """Offset of the bytes at ``address`` in this process's segment; -1 unless all of them lie in it.  Local."""
        return -1

    def base_of(self, process: int) -> int | None:
        """The address at which this process sees the segment of a process of the world; None if it does not.  Local."""
        return None

    def own_segment(self) -> tuple[int, int]:
        """Address and size of this process's segment; the addresses in it have an offset.  Local."""
        return 0, 0


class OneProcessArena(Arena):
    """The arena of simulated ranks, which share one address space: the segment of each is all memory."""

    __slots__ = ()

    def allocate(self, nbytes: int, zeroed: bool = False) -> np.ndarray:
        _, alignment = extent_of(nbytes)
        memory = (np.zeros if zeroed else np.empty)(nbytes + alignment, np.uint8)
        start = -memory.ctypes.data % alignment
        return memory[start : start + nbytes]

    def offset_of(self, address: int, nbytes: int) -> int:
        return address

    def base_of(self, process: int) -> int:
        return 0

    def own_segment(self) -> tuple[int, int]:
        return 0, sys.maxsize


class NodeArena(Arena):
    """This process's segment and its view of those of the node, in one mapping.

    ``segments``: the index of each process's segment in the mapping, by process of the world.
    """

    __slots__ = ("_address", "_bases", "_kept", "_segment", "_size")

    def __init__(self, mapping: mmap.mmap, size: int, segments: Mapping[int, int], process: int):
        self._segment = segment = Segment(mapping, segments[process] * size, size)
        self._address = own = segment.address
        self._bases = {other: own + (index - segments[process]) * size for other, index in segments.items()}
        self._size = size
        self._kept = KeptArrays()  # refer to the segment, which does not refer to them

    def allocate(self, nbytes: int, zeroed: bool = False) -> np.ndarray | None:
        array = self._kept.idle(nbytes)
        if array is not None:
            if zeroed:
                array[:] = 0
            return array
        array = self._segment.allocate(nbytes, zeroed)
        if array is None:
            self._kept.clear()
            array = self._segment.allocate(nbytes, zeroed)
        elif nbytes < LARGE:
            self._kept.keep(array)
        return array

    def offset_of(self, address: int, nbytes: int) -> int:
        offset = address - self._address
        return offset if 0 <= offset and offset + nbytes <= self._size else -1

    def base_of(self, process: int) -> int | None:
        return self._bases.get(process)

    def own_segment(self) -> tuple[int, int]:
        return self._address, self._size


# -- making an arena -------------------------------------------------------------------------------------------


class _NodeCommunicator(Protocol):
    """The part of an mpi4py communicator that is needed here; mpi4py itself is imported by `transport.mpi` only."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def bcast(self, obj: Any) -> Any: ...

    def allgather(self, sendobj: Any) -> list[Any]: ...


def share_memory(node: _NodeCommunicator, members: Sequence[int], size: int) -> Arena:
    """The arena of this process: segments of ``size`` bytes, in the order of ``members``, processes of the world.

    Collective over ``node``, an mpi4py communicator of just these processes, on one machine, with equal arguments.
    If any of them cannot share memory, all get an arena without memory.
    """
    size = -(-size // PAGE) * PAGE
    if size == 0 or node.size == 1:
        return Arena()
    with _shared_file(size * node.size if node.rank == 0 else None) as link:
        mapping = _map(node.bcast(link), size * node.size)
        agreed = all(node.allgather(mapping is not None))  # after it, no process opens the link any more
    if mapping is None or not agreed:
        return Arena()
    return NodeArena(mapping, size, {process: i for i, process in enumerate(members)}, members[node.rank])


@contextmanager
def _shared_file(nbytes: int | None) -> Iterator[tuple[str, str] | None]:
    """An anonymous file of ``nbytes``: a link by which others can open it within the ``with``, and the target of the
    link.  None if ``nbytes`` is None, or the file cannot be made."""
    file = None
    try:
        name = f"spmd_grid-{os.urandom(8).hex()}"
        with suppress(OSError, OverflowError, AttributeError):  # AttributeError: not Linux
            if nbytes is not None and _grants_memory_late():
                file = os.memfd_create(name)
                os.ftruncate(file, nbytes)
        yield None if file is None else (f"/proc/{os.getpid()}/fd/{file}", f"/memfd:{name} (deleted)")
    finally:
        if file is not None:
            os.close(file)


def _map(link: tuple[str, str] | None, nbytes: int) -> mmap.mmap | None:
    if link is None:
        return None
    path, target = link
    with suppress(OSError, ValueError, OverflowError):  # hidden, of another container, no address space left
        if os.readlink(path) != target:
            return None
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            mapping = mmap.mmap(file, nbytes)
        finally:
            os.close(file)
        with suppress(OSError):  # few systems use huge pages for shared memory, fewer without a request
            mapping.madvise(mmap.MADV_HUGEPAGE)
        return mapping
    return None


def _grants_memory_late() -> bool:
    """Whether the system lets processes reserve memory that they may never use.  With strict accounting, it would end
    the process that touches one page too many."""
    with suppress(OSError):
        return Path("/proc/sys/vm/overcommit_memory").read_text().strip() != "2"
    return False
