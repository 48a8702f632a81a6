"""The process that handles each block of an array, and the rounds in which processes bring blocks together.

A block whose cells all lie in one device's core needs no message: that device's process writes or reads it.  All other
blocks are *shared*.  They are dealt out in rounds, each a stretch of the array that fits into the staging memory of all
processes.  In a round every process handles some blocks that follow one another, and a resharding between the array's
layout and a layout by blocks moves the cells.  A stretch may have gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import prod

import numpy as np

from spmd_grid.errors import ShapeError
from spmd_grid.grid.box import Box, multi_index
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.storage.ranges.blocks import Blocks
from spmd_grid.typing import MultiIndex, Shape

__all__ = [
    "Deal",
    "Round",
    "block_bounds",
    "cut_by_devices",
    "cut_by_processes",
    "deal",
    "deal_without_rounds",
    "take_lead",
    "take_rows",
]

Interval = tuple[int, int]
Cuts = tuple[int, ...]


@dataclass(frozen=True)
class Round:
    """Shared blocks that are brought together at once, those with the same indices before the dimension they cut.

    Plans only; coordinates are those of the region.  ``rows``: the part of each block along the dimension that blocks
    cut.  ``firsts``: for each process the position of its first block, and the end.
    """

    lead: MultiIndex
    blocks: tuple[int, ...]
    rows: tuple[Interval, ...]
    firsts: tuple[int, ...]

    @property
    def dim(self) -> int:
        """The dimension that blocks cut."""
        return len(self.lead)

    def shape(self, extents: Shape) -> Shape:
        """The shape of the stretch, of a region of ``extents``."""
        n_rows = sum(stop - start for start, stop in self.rows)
        return (*[1] * self.dim, n_rows, *extents[self.dim + 1 :])

    def stretch_sharding(self, layout: Layout) -> Sharding:
        """The array's ``layout``, without halos, cut down to the stretch."""
        sharding, offsets = layout.sharding, []
        for dim in sharding.sharded_dims:
            cuts = block_bounds(layout, dim)
            if dim < self.dim:
                cuts = tuple([min(max(cut - self.lead[dim], 0), 1) for cut in cuts])
            elif dim == self.dim:
                cuts = tuple([sum(min(max(cut - start, 0), stop - start) for start, stop in self.rows) for cut in cuts])
            offsets.append(cuts)
        return cut_by_devices(sharding, sharding.split_axes, tuple(offsets))

    def most_cells(self, layout: Layout) -> int:
        """The most cells of the stretch that a device holds in ``layout``, cut down to the stretch."""
        sharding, shape = self.stretch_sharding(layout), self.shape(layout.global_shape)
        lengths = list(shape)
        for dim in sharding.sharded_dims:
            cuts = block_bounds(Layout(sharding, shape), dim)
            lengths[dim] = max([stop - start for start, stop in zip(cuts, cuts[1:])])
        return prod(lengths)

    def block_sharding(self, grid: Grid) -> Sharding:
        """The stretch cut by blocks among the processes of ``grid``, which has one dimension."""
        ends = np.cumsum([0, *[stop - start for start, stop in self.rows]])
        return cut_by_processes(grid, self.dim, tuple([int(ends[first]) for first in self.firsts]))

    def pieces(self, rank: int) -> Iterator[tuple[int, slice]]:
        """The blocks of a process, and where each lies in that process's part of the stretch."""
        start = 0
        for i in range(self.firsts[rank], self.firsts[rank + 1]):
            n = self.rows[i][1] - self.rows[i][0]
            yield self.blocks[i], slice(start, start + n)
            start += n


@dataclass(frozen=True)
class Deal:
    """The blocks that this process handles by itself, and the rounds for the shared ones.  Plans only."""

    own: list[int]
    rounds: list[Round]

    def handled(self, rank: int) -> list[int]:
        """All blocks that the process handles, in the order in which it does."""
        return self.own + [block for each in self.rounds for block in each.blocks[slice(*each.firsts[rank : rank + 2])]]


def deal(
    blocks: Blocks, region: Box, layout: Layout, processes: Sequence[int], rank: int, stage_bytes: int, spread: bool
) -> Deal:
    """Deal out the blocks that touch ``region``, of whose cells ``layout`` says who holds them.

    Plans only; the same on all processes, but for ``own``, which is that of process ``processes[rank]``.
    ``stage_bytes``: the most bytes of blocks that a process handles in a round, if a block is not larger.  ``spread``:
    a block that several devices hold is handled by one of them, for writing; else it is shared, for reading.
    """
    own, shared = _own_and_shared(blocks, region, layout, processes[rank], spread)
    per_process = max(1, stage_bytes // max(blocks.rows * blocks.row_bytes, 1))
    rounds: list[Round] = []
    for lead, pieces in groupby(shared, lambda each: each[1].starts[: blocks.dim]):
        pending = [(block, (piece.starts[blocks.dim], piece.stops[blocks.dim])) for block, piece in pieces]
        rounds += _rounds(lead, pending, len(processes), per_process, layout, blocks, spread)
    return Deal(own, rounds)


def deal_without_rounds(blocks: Blocks, region: Box, layout: Layout, processes: Sequence[int], rank: int) -> list[int]:
    """The blocks that process ``processes[rank]`` reads where it can write to the cores of all.  Plans only.

    Every process has an equal part of the shared blocks, of blocks that follow one another.
    """
    own, shared = _own_and_shared(blocks, region, layout, processes[rank], spread=False)
    n, size = len(shared), len(processes)
    return own + [block for block, _ in shared[n * rank // size : n * (rank + 1) // size]]


def _own_and_shared(
    blocks: Blocks, region: Box, layout: Layout, process: int, spread: bool
) -> tuple[list[int], list[tuple[int, Box]]]:
    """The blocks that the process handles by itself, and those that no process does, with their cells in the region."""
    me = layout.grid.coords_of_process(process)
    sharding, own, shared = layout.sharding, [], []
    axes = sharding.replicated_axes
    sizes = [layout.grid.shape[axis] for axis in axes]
    replicas = prod(sizes)
    alone = not sharding.partial_axes and (spread or replicas == 1)
    count = 0
    for block, piece in touched(blocks, region):
        holder = _holder(layout, piece) if alone else None
        if holder is None:
            shared.append((block, piece))
            continue
        if me is not None:
            for axis, digit in zip(axes, multi_index(count % replicas, sizes)):
                holder[axis] = digit
            if all(mine == digit for mine, digit in zip(me, holder, strict=True)):
                own.append(block)
        count += 1
    return own, shared


def _rounds(
    lead: MultiIndex,
    pending: Sequence[tuple[int, Interval]],
    size: int,
    per_process: int,
    layout: Layout,
    blocks: Blocks,
    spread: bool,
) -> list[Round]:
    """The rounds of shared blocks with the same indices ``lead``; each of ``size`` processes handles ``per_process``.

    For writing (``spread``), a round is one stretch without gaps, so that its cells lie in one part of each core.  For
    reading, every process handles blocks that follow one another from round to round, since files are read fastest so;
    unless that gave a process cells of many blocks, as where all processes hold all cells.
    """

    def gathered(parts: Sequence[Sequence[tuple[int, Interval]]]) -> Round:
        firsts = np.cumsum([0, *map(len, parts)]).tolist()
        chosen = [each for part in parts for each in part]
        return Round(lead, tuple([b for b, _ in chosen]), tuple([rows for _, rows in chosen]), tuple(firsts))

    n = len(pending)
    if not spread:
        length = -(-n // size)  # equal ones move at once: see `even`
        sections = [pending[length * i : length * (i + 1)] for i in range(size)]
        starts = range(0, max(map(len, sections)), per_process)
        found = [gathered([section[start : start + per_process] for section in sections]) for start in starts]
        most = 5 * per_process * blocks.rows * blocks.row_bytes // 4
        if len(found) < 2 or all(each.most_cells(layout) * blocks.itemsize <= most for each in (found[0], found[-1])):
            return found
    found = []
    for start in range(0, n, size * per_process):
        part = pending[start : start + size * per_process]
        found.append(gathered([part[len(part) * i // size : len(part) * (i + 1) // size] for i in range(size)]))
    return found


def touched(blocks: Blocks, region: Box) -> Iterator[tuple[int, Box]]:
    """The blocks that have cells in ``region``, in order, and these cells in coordinates of the region."""
    if not blocks.n_bytes or region.is_empty:
        return
    if not Box.from_shape(blocks.extents).contains(region):
        raise ShapeError(f"the region {region} is not in an array of shape {blocks.shape}")
    dim = blocks.dim
    for lead in np.ndindex(*region.shape[:dim]):
        before = tuple([start + i for start, i in zip(region.starts, lead)])
        zeros = (0,) * (len(blocks.extents) - dim - 1)
        first = blocks.block_at((*before, region.starts[dim], *zeros))
        last = blocks.block_at((*before, region.stops[dim] - 1, *zeros))
        for block in range(first, last + 1):
            yield block, blocks.box(block).intersect(region).relative_to(region.starts)


def take_rows(box: Box, each: Round) -> list[tuple[slice, tuple[slice, ...]]]:
    """The parts of a process's core in a round's stretch: (rows within its part of the stretch, index in the core).

    ``box``: the core's cells in the region.  Blocks that follow one another are one part.
    """
    before = take_lead(box, each)
    low, high = box.starts[each.dim], box.stops[each.dim]
    joined: list[Interval] = []
    for start, stop in each.rows:
        start, stop = max(start, low), min(stop, high)
        if start < stop and joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], stop
        elif start < stop:
            joined.append((start, stop))
    parts, done = [], 0
    for start, stop in joined:
        parts.append((slice(done, done + stop - start), (*before, slice(start - low, stop - low))))
        done += stop - start
    return parts


def take_lead(box: Box, each: Round) -> tuple[slice, ...]:
    """The index in a process's core of a round's stretch, in the dimensions before the one that blocks cut."""
    before = []
    for dim, i in enumerate(each.lead):
        inside = box.starts[dim] <= i < box.stops[dim]
        start = i - box.starts[dim] if inside else 0
        before.append(slice(start, start + inside))
    return tuple(before)


def _holder(layout: Layout, piece: Box) -> list[int] | None:
    """The coordinates of the device whose core holds all cells, 0 on axes that split nothing; None if there is none."""
    coords = [0] * layout.grid.ndim
    for dim in layout.sharding.sharded_dims:
        extent = layout.global_shape[dim]
        position = layout.sharding.position(dim, extent, piece.starts[dim])
        sizes = layout.sharding.sizes_of(dim)
        digits = multi_index(position, sizes)
        if piece.stops[dim] > layout.sharding.block(dim, extent, digits)[1]:
            return None
        for axis, digit in zip(layout.sharding.axes_of(dim), digits):
            coords[axis] = digit
    return coords


@lru_cache(16)
def block_bounds(layout: Layout, dim: int) -> Cuts:
    """The first cell of every block of a dimension, and the end.  Plans only."""
    sharding, extent = layout.sharding, layout.global_shape[dim]
    sizes = sharding.sizes_of(dim)
    starts = [sharding.block(dim, extent, multi_index(position, sizes))[0] for position in range(prod(sizes))]
    return (*starts, extent)


@lru_cache(16)  # rounds repeat
def cut_by_devices(sharding: Sharding, split_axes: tuple[tuple[int, ...], ...], offsets: tuple[Cuts, ...]) -> Sharding:
    """``sharding`` of another shape, without halos: ``split_axes`` cut it at ``offsets``.  Plans only."""
    return Sharding(
        sharding.grid,
        split_axes,
        sharded_dims_offsets=offsets or None,
        partial_axes=sharding.partial_axes,
        partial_kind=sharding.partial_kind,
    )


@lru_cache(16)
def cut_by_processes(grid: Grid, dim: int, offsets: Cuts) -> Sharding:
    """A dimension cut at ``offsets`` among the processes of ``grid``, which has one dimension.  Plans only."""
    return Sharding(grid, [*[[]] * dim, [0]], sharded_dims_offsets=[offsets])
