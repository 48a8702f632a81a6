"""Blocks of a global array that are contiguous in a file of it, in row-major order.

Each block is a box of cells, and its bytes follow one another in the file.  Blocks depend on the array's shape, the
size of its elements and the size of blocks alone, so they are the same for every number of processes.  For blocks of
at most 8 elements:

    shape (5, 3): two rows each        shape (2, 10): eight cells of a row, then two

    0 0 0                              0 0 0 0 0 0 0 0 1 1
    0 0 0                              2 2 2 2 2 2 2 2 3 3
    1 1 1
    1 1 1
    2 2 2
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from spmd_grid.grid.box import Box, multi_index
from spmd_grid.typing import Shape

__all__ = ["BLOCK_BYTES", "MOST_BLOCK_BYTES", "Blocks"]

BLOCK_BYTES = 4 << 20  # of a block, unless told otherwise
MOST_BLOCK_BYTES = 1 << 36  # a block is read whole, so a file that claims larger ones is refused


@dataclass(frozen=True)
class Blocks:
    """The blocks of an array of ``shape`` with elements of ``itemsize`` bytes; a block has at most ``most_bytes``.

    Plans only.  A block has one element where that alone exceeds ``most_bytes``.  An array without dimensions is
    treated as one of extent 1 (``extents``); one without bytes has no blocks.

    >>> blocks = Blocks((2, 10), itemsize=1, most_bytes=8)
    >>> len(blocks), [str(blocks.box(i)) for i in range(4)], [blocks.offset(i) for i in range(4)]
    (4, ['[0:1, 0:8]', '[0:1, 8:10]', '[1:2, 0:8]', '[1:2, 8:10]'], [0, 8, 10, 18])
    """

    shape: Shape
    itemsize: int
    most_bytes: int

    @cached_property
    def extents(self) -> Shape:
        """The shape, with one dimension at least."""
        return self.shape or (1,)

    @cached_property
    def n_bytes(self) -> int:
        """Number of bytes of the array."""
        return prod(self.shape) * self.itemsize

    @cached_property
    def dim(self) -> int:
        """The dimension that blocks cut: they have one index of each dimension before it, and all after it."""
        last = len(self.extents) - 1
        return next((dim for dim in range(last) if self._row_bytes(dim) <= self.most_bytes), last)

    @cached_property
    def row_bytes(self) -> int:
        """Number of bytes of the cells that share their index in ``dim`` and before it."""
        return self._row_bytes(self.dim)

    @cached_property
    def rows(self) -> int:
        """The extent of a block along ``dim``; the last block before a change of the indices before it is shorter."""
        return max(1, min(self.most_bytes // max(self.row_bytes, 1), self.extents[self.dim]))

    @cached_property
    def _per_lead(self) -> int:
        return -(-self.extents[self.dim] // self.rows)

    def __len__(self) -> int:
        return prod(self.extents[: self.dim]) * self._per_lead if self.n_bytes else 0

    def box(self, block: int) -> Box:
        """The cells of a block, in coordinates of an array of ``extents``."""
        lead, number = divmod(block, self._per_lead)
        before = multi_index(lead, self.extents[: self.dim])
        start, after = number * self.rows, self.extents[self.dim + 1 :]
        stop = min(start + self.rows, self.extents[self.dim])
        return Box((*before, start, *[0] * len(after)), (*[i + 1 for i in before], stop, *after))

    def block_at(self, index: Shape) -> int:
        """The block that holds the cell ``index``."""
        lead = 0
        for i, extent in zip(index[: self.dim], self.extents):
            lead = lead * extent + i
        return lead * self._per_lead + index[self.dim] // self.rows

    def offset(self, block: int) -> int:
        """The first byte of a block in the array's file, counted from that of the array."""
        lead, number = divmod(block, self._per_lead)
        return (lead * self.extents[self.dim] + number * self.rows) * self.row_bytes

    def _row_bytes(self, dim: int) -> int:
        return prod(self.extents[dim + 1 :]) * self.itemsize
