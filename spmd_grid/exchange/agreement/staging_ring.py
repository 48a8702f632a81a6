"""Shared memory into which a process copies arrays that others read, used in turns.

Lines of cache that a neighbour has just read are slow to write to, until they have left both caches.  So copies take
turns in more memory than the caches next to a processor hold.  And a line that one processor has written is slow to
read from another one with which it shares no cache: 43 ns were measured, 10 times as long as from memory, from where
lines are fetched ahead.  Copies for such readers are *streamed*: written to memory, past the caches.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.channel.copy_table import c_strides
from spmd_grid.transport.arena import Arena

__all__ = ["MOST_STAGED", "RING_HELD_BYTES", "StagingRing"]

# Bytes of a copy, and of all memory that a ring may hold: first a little, for small copies, then more for large ones.
MOST_STAGED = 1 << 19
_LITTLE, _MORE = 1 << 17, 2 * MOST_STAGED
RING_HELD_BYTES = _LITTLE + _MORE
_MOST_PARTS = 8  # of one size: what is kept by the locations of arrays is kept for few of them
_MOST_TABLES = 64


class StagingRing:
    """The copies of one process for the readers of one group."""

    def __init__(self, arena: Arena):
        self._arena = arena
        self._memory: np.ndarray | None = None
        self._little: np.ndarray | None = None  # kept: the last small copy may still be read
        self._tables: dict[Hashable, tuple[np.ndarray, int, int]] = {}
        self._last = 0, 0  # first byte and end of the last copy

    def copy(self, x: np.ndarray, turn: int, streams: bool) -> int:
        """The offset in this process's segment of a copy of ``x``, C-contiguous; -1 if there is no space for any.

        Local.  ``turn``: the number of the meeting in which it is read; all copies but the last one have been read.
        ``x`` has at most `MOST_STAGED` bytes.
        """
        size = 1 << max(x.nbytes - 1, 127).bit_length()
        if self._memory is None or self._memory.nbytes < 2 * size:
            memory = self._arena.allocate(_LITTLE if 2 * size <= _LITTLE else _MORE)
            if memory is None:
                return -1
            self._little, self._memory, self._last = self._memory, memory, (0, 0)
        ring_bytes = self._memory.nbytes
        start = turn % min(ring_bytes // size, _MOST_PARTS) * size
        if start < self._last[1] and self._last[0] < start + size:
            start = (start + ring_bytes // 2) % ring_bytes  # in the other half: a copy lies in one of them
        self._last = start, start + size
        address = kernels.address_of(self._memory) + start
        table, columns = self._table(x)
        kernels.copy_table(table, columns, 1, kernels.address_of(x), address, streams)
        return self._arena.offset_of(address, x.nbytes)

    def _table(self, x: np.ndarray) -> tuple[int, int]:
        """The address of a table that copies arrays of the form of ``x``, and its words per row."""
        key = x.shape, x.strides, x.itemsize
        found = self._tables.get(key)
        if found is None:
            if len(self._tables) >= _MOST_TABLES:
                self._tables.clear()
            row = kernels.box_row(x.shape, x.itemsize, x.strides, 0, c_strides(x.shape, x.itemsize), 0)
            table = kernels.build_table([row])
            found = self._tables[key] = table, kernels.address_of(table), table.shape[1]
        return found[1:]
