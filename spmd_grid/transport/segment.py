"""A process's segment of shared memory: arrays are allocated in it, and give their memory back when they are gone."""

from __future__ import annotations

import mmap
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from spmd_grid.transport.free_blocks import FreeBlocks

__all__ = ["LARGE", "PAGE", "Segment", "extent_of"]

# Arrays begin on cache lines of their own, large ones on pages of their own.
_LINE = 64
PAGE = mmap.PAGESIZE
LARGE = 1 << 16

# Freed memory stays in its segment, since touching fresh pages costs far more than the bytes that pass through them;
# at most this part of the segment stays.
_KEPT_PART = 1 / 4

# Blocks wait for the next array of their size, which then need not look for one, and finds the one used last, which the
# caches still hold: temporaries come and go thousands of times.  The most blocks of a size, their most bytes, and the
# most sizes.
_MOST_WAITING, _MOST_WAITING_BYTES, _MOST_SIZES = 8, 1 << 24, 32


class Segment:
    """The ``size`` bytes of ``mapping`` from byte ``first``, of which the calling process allocates arrays."""

    __slots__ = (
        "_first",
        "_free",
        "_is_changing",
        "_lock",
        "_mapping",
        "_memory",
        "_most_waiting_bytes",
        "_owner",
        "_returned",
        "_size",
        "_waiting",
        "address",
    )

    def __init__(self, mapping: mmap.mmap, first: int, size: int):
        self._mapping = mapping  # lasts as long as the segment, which lasts as long as any array in it
        self._memory = np.frombuffer(mapping, np.uint8)
        self.address = self._memory.ctypes.data + first
        self._first = first
        self._size = size
        self._free = FreeBlocks(size)
        self._lock = threading.RLock()  # reentrant: an exception may have cut off a thread that holds it
        self._is_changing = False  # whether the free blocks are being changed
        self._returned: deque[tuple[int, int]] = deque()
        self._waiting: dict[int, list[int]] = {}  # by extent, the starts of free blocks
        self._most_waiting_bytes = min(_MOST_WAITING_BYTES, int(size * _KEPT_PART) // _MOST_SIZES)
        self._owner = os.getpid()

    def allocate(self, nbytes: int, zeroed: bool) -> np.ndarray | None:
        """A flat uint8 array as `Arena.allocate` gives it, or None if there is no space."""
        if os.getpid() != self._owner:  # a forked child: its parent allocates from the same segment
            return None
        extent, alignment = extent_of(nbytes)
        waiting = self._waiting.get(extent)
        if waiting:
            with suppress(IndexError):  # another thread was faster
                return self._array(waiting.pop(), extent, nbytes, nbytes if zeroed else 0)
        with self._lock:
            self._put_back()
            found = self._take(extent, alignment)
            if found is None:
                self._end_waiting()
                found = self._take(extent, alignment)
            if waiting is None and extent <= self._most_waiting_bytes and len(self._waiting) < _MOST_SIZES:
                self._waiting[extent] = []
        if found is None:
            return None
        start, n_dirty = found
        return self._array(start, extent, nbytes, n_dirty if zeroed else 0)

    def _take(self, extent: int, alignment: int) -> tuple[int, int] | None:
        """A free block, as `FreeBlocks.take`; the lock is held."""
        try:
            self._is_changing = True
            return self._free.take(extent, alignment)
        finally:
            self._is_changing = False

    def _array(self, start: int, extent: int, nbytes: int, n_cleared: int) -> np.ndarray:
        array = np.asarray(_Block(self, start, extent, nbytes))
        if n_cleared:
            array[:n_cleared] = 0
        return array

    def release(self, start: int, stop: int) -> None:
        """Takes back the block of an array that is gone; called by the garbage collector, in the middle of anything."""
        extent = stop - start
        waiting = self._waiting.get(extent)
        if waiting is not None and len(waiting) < min(_MOST_WAITING, self._most_waiting_bytes // extent):
            waiting.append(start)
            return
        self._returned.append((start, stop))
        if not self._is_changing and self._lock.acquire(blocking=False):
            try:
                self._put_back()
            finally:
                self._lock.release()
        # Else a thread, perhaps this one, is allocating: the next allocation puts the block back.

    def _end_waiting(self) -> None:
        """Returns the blocks that wait for arrays of their size, so that any may have them; the lock is held."""
        for extent, waiting in list(self._waiting.items()):
            while waiting:
                self._returned.append((start := waiting.pop(), start + extent))
        self._put_back()

    def _put_back(self) -> None:
        """Frees the blocks that have been returned; the lock is held."""
        if os.getpid() != self._owner:
            return
        try:
            self._is_changing = True
            while self._returned:
                block = self._free.put(*self._returned.popleft())
                if self._free.n_dirty() > self._size * _KEPT_PART:
                    self._give_back(block)
        finally:
            self._is_changing = False

    def _give_back(self, block: list[int]) -> None:
        """Returns the pages of a free block to the system, which makes them fresh again."""
        start, dirty, _ = block
        first, last = -(-start // PAGE) * PAGE, dirty // PAGE * PAGE
        if last - first < LARGE:
            return
        here = self._first
        with suppress(OSError):  # not supported: they stay as they are
            self._mapping.madvise(mmap.MADV_REMOVE, here + first, last - first)
            self._memory[here + start : here + first] = 0
            self._memory[here + last : here + dirty] = 0
            block[1] = start


class _Block:
    """The owner of one array's memory; numpy keeps it as long as the array or a view of it exists."""

    __slots__ = ("__array_interface__", "_segment", "_start", "_stop")

    def __init__(self, segment: Segment, start: int, extent: int, nbytes: int):
        self.__array_interface__ = {
            "data": (segment.address + start, False), "shape": (nbytes,), "typestr": "|u1", "version": 3,
        }  # fmt: skip
        self._segment = segment
        self._start = start
        self._stop = start + extent

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():  # the end of the program frees all memory
            self._segment.release(self._start, self._stop)


def extent_of(nbytes: int) -> tuple[int, int]:
    """Number of bytes to take for an array of ``nbytes``, and their alignment.  Empty arrays have an address too."""
    alignment = PAGE if nbytes >= LARGE else _LINE
    return max(1, -(-nbytes // alignment)) * alignment, alignment
