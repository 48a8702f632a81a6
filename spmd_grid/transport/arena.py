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
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from spmd_grid.transport.free_blocks import FreeBlocks

__all__ = ["Arena", "NodeArena", "OneProcessArena", "share_memory"]

# Arrays begin on cache lines of their own, large ones on pages of their own.
_LINE = 64
_PAGE = mmap.PAGESIZE
_LARGE = 1 << 16

# Freed memory stays in its segment, since touching fresh pages costs far more than the bytes that pass through them;
# at most this part of the segment stays.
_KEPT_PART = 1 / 4

# Blocks of small arrays wait for the next array of their size, which then need not look for one: temporaries come and
# go thousands of times.  The most blocks of a size, and the most sizes.
_MOST_WAITING, _MOST_SIZES = 8, 32


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
        _, alignment = _extent(nbytes)
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

    __slots__ = (
        "_address",
        "_bases",
        "_first",
        "_free",
        "_lock",
        "_mapping",
        "_memory",
        "_owner",
        "_returned",
        "_size",
        "_waiting",
    )

    def __init__(self, mapping: mmap.mmap, size: int, segments: Mapping[int, int], process: int):
        self._mapping = mapping  # lasts as long as the arena, which lasts as long as any array in it
        self._memory = np.frombuffer(mapping, np.uint8)
        start = self._memory.ctypes.data
        self._bases = {other: start + segment * size for other, segment in segments.items()}
        self._address = self._bases[process]
        self._first = segments[process] * size
        self._size = size
        self._free = FreeBlocks(size)
        self._lock = threading.RLock()  # reentrant: an exception may have cut off a thread that holds it
        self._returned: deque[tuple[int, int]] = deque()
        self._waiting: dict[int, list[int]] = {}  # by extent, the starts of free blocks
        self._owner = os.getpid()

    def allocate(self, nbytes: int, zeroed: bool = False) -> np.ndarray | None:
        if os.getpid() != self._owner:  # a forked child: its parent allocates from the same segment
            return None
        extent, alignment = _extent(nbytes)
        waiting = self._waiting.get(extent)
        if waiting:
            with suppress(IndexError):  # another thread was faster
                return self._array(waiting.pop(), extent, nbytes, nbytes if zeroed else 0)
        with self._lock:
            self._put_back()
            found = self._free.take(extent, alignment)
            if found is None and self._waiting:
                self._end_waiting()
                found = self._free.take(extent, alignment)
            if waiting is None and alignment == _LINE and len(self._waiting) < _MOST_SIZES:
                self._waiting[extent] = []
        if found is None:
            return None
        start, n_dirty = found
        return self._array(start, extent, nbytes, n_dirty if zeroed else 0)

    def _array(self, start: int, extent: int, nbytes: int, n_cleared: int) -> np.ndarray:
        array = np.asarray(_Block(self, start, extent, nbytes))
        if n_cleared:
            array[:n_cleared] = 0
        return array

    def offset_of(self, address: int, nbytes: int) -> int:
        offset = address - self._address
        return offset if 0 <= offset and offset + nbytes <= self._size else -1

    def base_of(self, process: int) -> int | None:
        return self._bases.get(process)

    def own_segment(self) -> tuple[int, int]:
        return self._address, self._size

    def release(self, start: int, stop: int) -> None:
        """Takes back the block of an array that is gone; called by the garbage collector, in the middle of anything."""
        waiting = self._waiting.get(stop - start)
        if waiting is not None and len(waiting) < _MOST_WAITING:
            waiting.append(start)
            return
        self._returned.append((start, stop))
        if self._lock.acquire(blocking=False):
            try:
                self._put_back()
            finally:
                self._lock.release()
        # Else a thread, perhaps this one, is allocating: the next allocation puts the block back.

    def _end_waiting(self) -> None:
        """Returns the blocks that wait for arrays of their size, so that any array may have them."""
        for extent, waiting in list(self._waiting.items()):
            while waiting:
                self._free.put(start := waiting.pop(), start + extent)

    def _put_back(self) -> None:
        if os.getpid() != self._owner:
            return
        while self._returned:
            block = self._free.put(*self._returned.popleft())
            if self._free.n_dirty() > self._size * _KEPT_PART:
                self._give_back(block)

    def _give_back(self, block: list[int]) -> None:
        """Returns the pages of a free block to the system, which makes them fresh again."""
        start, dirty, _ = block
        first, last = -(-start // _PAGE) * _PAGE, dirty // _PAGE * _PAGE
        if last - first < _LARGE:
            return
        here = self._first
        with suppress(OSError):  # not supported: they stay as they are
            self._mapping.madvise(mmap.MADV_REMOVE, here + first, last - first)
            self._memory[here + start : here + first] = 0
            self._memory[here + last : here + dirty] = 0
            block[1] = start


class _Block:
    """The owner of one array's memory; numpy keeps it as long as the array or a view of it exists."""

    __slots__ = ("__array_interface__", "_arena", "_start", "_stop")

    def __init__(self, arena: NodeArena, start: int, extent: int, nbytes: int):
        self.__array_interface__ = {
            "data": (arena._address + start, False), "shape": (nbytes,), "typestr": "|u1", "version": 3,
        }  # fmt: skip
        self._arena = arena
        self._start = start
        self._stop = start + extent

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():  # the end of the program frees all memory
            self._arena.release(self._start, self._stop)


def _extent(nbytes: int) -> tuple[int, int]:
    """Number of bytes to take for an array of ``nbytes``, and their alignment.  Empty arrays have an address too."""
    alignment = _PAGE if nbytes >= _LARGE else _LINE
    return max(1, -(-nbytes // alignment)) * alignment, alignment


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
    size = -(-size // _PAGE) * _PAGE
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
