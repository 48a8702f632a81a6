"""Reads that bypass the system's page cache (``O_DIRECT``): the disk writes into memory of the program.

A read of a large file through the page cache allocates a page for every 4 KiB, copies it, and evicts pages of other
files.  Reads without it cost next to no processor time: see open(2).  Offsets, lengths and addresses are multiples
of the disk's sectors, hence a window of the file that is copied from.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from pathlib import Path

import numpy as np

from spmd_grid.storage.system import System

__all__ = ["Uncached"]

_WINDOW_BYTES = (4 << 20) + mmap.PAGESIZE  # a block of a checkpoint, wherever it begins in its first page


class Uncached:
    """A file that is read without the page cache, except for what the cache already holds.

    Local.  Raises OSError where the file system refuses such reads.
    """

    def __init__(self, system: System, path: Path):
        self._system = system
        self._descriptor = system.open(path, os.O_RDONLY | os.O_DIRECT)
        self._size = os.fstat(self._descriptor).st_size
        self._window = memoryview(mmap.mmap(-1, _WINDOW_BYTES))
        self._start = self._stop = 0  # of the window in the file
        self._cached = range(0)  # bytes of the file that are read through the page cache

    def read(self, data: memoryview, offset: int) -> int:
        """Fill the beginning of ``data`` with bytes of the file from ``offset``, and return how many there are.

        0 where the page cache holds them, and at the end of the file.  Raises OSError.
        """
        if offset in self._cached:
            return 0
        if not self._start <= offset < self._stop:
            self._move_window(offset - offset % mmap.PAGESIZE)
        n = max(min(len(data), self._stop - offset), 0)
        data[:n] = self._window[offset - self._start : offset - self._start + n]
        return n

    def close(self) -> None:
        """End the use of the file.  Local."""
        self._system.close(self._descriptor)

    def _move_window(self, start: int) -> None:
        """Fill the window with bytes of the file from ``start``, unless these are read through the page cache."""
        self._start = self._stop = start
        if self._is_in_cache(start):
            self._cached = range(start, start + len(self._window))
            return
        try:
            self._stop += self._system.pread(self._descriptor, self._window, start)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self._cached = range(self._size)  # some file systems open such files, and then refuse to read

    def _is_in_cache(self, start: int) -> bool:
        """Whether the page cache holds at least half of the window that begins at ``start``."""
        n_bytes = min(len(self._window), self._size - start)
        if n_bytes <= 0:
            return False
        with mmap.mmap(self._descriptor, n_bytes, prot=mmap.PROT_READ, offset=start) as pages:
            held = np.zeros(-(-n_bytes // mmap.PAGESIZE), np.uint8)
            first = np.frombuffer(pages, np.uint8)
            failed = _mincore(first.ctypes.data, n_bytes, held.ctypes.data)
            del first  # the mapping cannot be ended while an array is a view of it
        return not failed and bool(2 * np.count_nonzero(held & 1) >= len(held))


_mincore = ctypes.CDLL(None).mincore
_mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
