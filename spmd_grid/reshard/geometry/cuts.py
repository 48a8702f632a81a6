"""One tensor dimension as one layout cuts it, searched axis by axis, major to minor.

Whatever the rule, the parts below a common prefix of coordinates are consecutive.  So the parts that meet an interval
are found by descending from axis to axis, each step a division, without visiting the parts in between.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from spmd_grid.grid.blocks import block_interval, overlapping_parts, part_interval
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.starts import BlockStarts

__all__ = ["CutDimension", "Part", "cuts_of"]


class Part(NamedTuple):
    """A part of a dimension: its coordinates on the axes that cut it, and its cells."""

    digits: tuple[int, ...]
    start: int
    stop: int


class CutDimension:
    """``extent`` cells cut by ``axes`` of ``sizes``, each part with a halo of ``low`` and ``high`` cells."""

    __slots__ = ("axes", "blocks", "extent", "high", "low", "offsets", "rests", "sizes")

    def __init__(
        self,
        extent: int,
        axes: Sequence[int],
        sizes: Sequence[int],
        blocks: str = "ceil",
        offsets: BlockStarts | None = None,
        halo: tuple[int, int] = (0, 0),
    ):
        self.extent, self.blocks, self.offsets = extent, blocks, offsets
        self.axes, self.sizes = tuple(axes), tuple(sizes)
        self.low, self.high = halo
        # By level, the number of parts below one part.
        self.rests = tuple([prod(self.sizes[level + 1 :]) for level in range(len(self.sizes))])

    def interval(self, digits: Sequence[int]) -> tuple[int, int]:
        """The cells of the part at ``digits``, without halos.  Local."""
        return block_interval(self.extent, self.sizes, digits, self.blocks, self.offsets)

    def window(self, digits: Sequence[int]) -> tuple[int, int]:
        """The cells of the part at ``digits``, its halos within the domain included.  Local."""
        start, stop = self.interval(digits)
        return max(start - self.low, 0), min(stop + self.high, self.extent)

    def child(self, level: int, first: int, start: int, stop: int, part: int) -> tuple[int, int]:
        """The cells of ``part`` of a prefix that has ``[start, stop)``, and its first position ``first``.  Local."""
        if self.offsets is not None:
            rest = self.rests[level]
            return self.offsets[first + part * rest], self.offsets[first + (part + 1) * rest]
        if self.blocks == "ceil":  # as `part_interval`, without a call
            chunk = -(-(stop - start) // self.sizes[level])
            return min(start + part * chunk, stop), min(start + (part + 1) * chunk, stop)
        low, high = part_interval(stop - start, self.sizes[level], part, self.blocks)
        return start + low, start + high

    def children(self, level: int, first: int, start: int, stop: int, low: int, high: int) -> range:
        """The parts of a prefix with a cell in ``[low, high)``, halos included.

        Local.  Arguments as for `child`.  Empty parts are included where their halos reach.
        """
        size = self.sizes[level]
        low, high = low - self.high, high + self.low  # the cells that the part itself must meet
        if not (self.low or self.high):
            low, high = max(low, start), min(high, stop)
            if low >= high:
                return range(0)
        elif start >= high or stop <= low:
            return range(0)
        if self.offsets is not None:
            rest = self.rests[level]
            ends = range(first + rest, first + (size + 1) * rest, rest)
            starts = range(first, first + size * rest, rest)
            return range(
                bisect_right(ends, low, key=self.offsets.__getitem__),
                bisect_left(starts, high, key=self.offsets.__getitem__),
            )
        if start == stop:
            return range(size)
        begin, end = max(low, start) - start, min(high, stop) - start
        if self.blocks == "ceil":  # as `overlapping_parts`, without calls
            chunk = -(-(stop - start) // size)
            parts = range(begin // chunk, (end - 1) // chunk + 1)
        else:
            parts = overlapping_parts(stop - start, size, begin, end, self.blocks)
        # Empty parts lie at the end of what they cut; their halos reach further.
        return range(parts.start, size) if high > stop else parts

    def meeting(self, low: int, high: int) -> Iterator[Part]:
        """The parts that meet ``[low, high)`` with their cells there, in order.  Local; for cuts without halos."""
        if low < high:
            yield from self._below(0, 0, 0, self.extent, (), low, high)

    def _below(
        self, level: int, first: int, start: int, stop: int, digits: tuple[int, ...], low: int, high: int
    ) -> Iterator[Part]:
        if level == len(self.sizes):
            yield Part(digits, max(start, low), min(stop, high))
            return
        for part in self.children(level, first, start, stop, low, high):
            a, b = self.child(level, first, start, stop, part)
            if a < b:
                yield from self._below(level + 1, first + part * self.rests[level], a, b, (*digits, part), low, high)


def cuts_of(
    layout: Layout, hidden: int | None = None, hidden_axes: Sequence[int] = (), halos: bool = False
) -> tuple[CutDimension, ...]:
    """A layout's dimensions as cuts.

    Local.  ``hidden``: the extent of a leading dimension that ``hidden_axes`` cut, or None for none; ``halos``: whether
    parts have their halos.
    """
    sharding = layout.sharding
    grid = sharding.grid
    cuts = [
        CutDimension(
            extent,
            sharding.axes_of(dim),
            sharding.sizes_of(dim),
            sharding.blocks,
            sharding.offsets_of(dim),
            sharding.halo_of(dim) if halos else (0, 0),
        )
        for dim, extent in enumerate(layout.global_shape)
    ]
    if hidden is not None:
        cuts.insert(0, CutDimension(hidden, hidden_axes, [grid.shape[axis] for axis in hidden_axes]))
    return tuple(cuts)
