"""The free blocks of a range of memory: allocation by first fit, and merging of free neighbours.

A free block is [start, dirty, stop): its front, up to ``dirty``, has been used before; the rest is fresh from the
operating system, all zeros and not touched yet.  First fit keeps the used parts in front:

    0                                                  size
    |#########|~~~~~~|####|~~~~~~~~~.........................|      # taken   ~ free, used before   . fresh
"""

from __future__ import annotations

from bisect import bisect_left

__all__ = ["FreeBlocks"]


class FreeBlocks:
    """The free blocks of ``[0, size)``, in order.  Not thread-safe.

    >>> free = FreeBlocks(100)
    >>> free.take(10, 1), free.take(20, 16)
    ((0, 0), (16, 0))
    >>> free.put(0, 10)
    [0, 10, 16]
    >>> free.take(16, 1)
    (0, 10)
    """

    __slots__ = ("blocks",)

    def __init__(self, size: int):
        self.blocks: list[list[int]] = [[0, 0, size]] if size else []

    def take(self, n: int, alignment: int) -> tuple[int, int] | None:
        """Takes ``n`` cells: their start, a multiple of ``alignment``, and the number of them, in front, that have been
        used before; None if no free block is large enough."""
        for i, (start, dirty, stop) in enumerate(self.blocks):
            first = -(-start // alignment) * alignment
            last = first + n
            if last <= stop:
                before = [[start, min(dirty, first), first]] if start < first else []
                after = [[last, max(dirty, last), stop]] if last < stop else []
                self.blocks[i : i + 1] = before + after
                return first, max(0, min(dirty, last) - first)
        return None

    def put(self, start: int, stop: int) -> list[int]:
        """Returns ``[start, stop)``; the free block that contains it now."""
        blocks, dirty = self.blocks, stop
        i = bisect_left(blocks, [start])
        if i < len(blocks) and blocks[i][0] == stop:
            after = blocks.pop(i)
            dirty, stop = max(dirty, after[1]), after[2]
        if i and blocks[i - 1][2] == start:
            i -= 1
            start = blocks.pop(i)[0]
        merged = [start, dirty, stop]
        blocks.insert(i, merged)
        return merged

    def n_dirty(self) -> int:
        """Number of free cells that may have been used before."""
        return sum([dirty - start for start, dirty, _ in self.blocks])
