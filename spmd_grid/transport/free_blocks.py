"""Which parts of a stretch of memory are free: first fit, and free neighbours become one block.

A free block is [start, dirty, stop): its front, up to ``dirty``, has been used before; the rest is as fresh as the
operating system gave it, all zeros and not touched yet.  First fit keeps the used parts in front:

    0                                                  size
    |#########|~~~~~~|####|~~~~~~~~~.........................|      # taken   ~ free, used before   . fresh
"""

from __future__ import annotations

from bisect import bisect_left

__all__ = ["FreeBlocks"]


class FreeBlocks:
    """The free blocks of ``[0, size)``, in order.  Not for several threads at once.

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
        """The start of ``n`` cells, a multiple of ``alignment``, and how many of them, in front, have been used
        before; None where no free block is large enough."""
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
        """Gives ``[start, stop)`` back; the free block that it is part of now."""
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
        """How many free cells may have been used before."""
        return sum([dirty - start for start, dirty, _ in self.blocks])
