"""The block rule: which cells of an extent belong to which block.  It is written here and nowhere else.

One axis of ``size`` parts cuts an extent into consecutive intervals; several axes nest, each cutting the block that
the axis before it left.  A block's *position* is the row-major index of its coordinates, so that blocks lie in the
order of their positions.  7 cells over (2, 3):

    policy      first cut     nested cut
    ceil        |0123|456|    |01|23||4|5|6|     extents 2, 2, 0, 1, 1, 1
    balanced    |0123|456|    |01|2|3|4|5|6|     extents 2, 1, 1, 1, 1, 1

Explicit offsets (the start of every position, and the end) override both.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from spmd_grid.errors import ShardingError
from spmd_grid.grid import starts as starts_module
from spmd_grid.grid.box import as_ints, row_major
from spmd_grid.grid.starts import BlockStarts, Run, Starts, compact, of_runs

__all__ = [
    "POLICIES",
    "block_extent",
    "block_interval",
    "block_position",
    "block_starts",
    "check_offsets",
    "check_policy",
    "overlapping_parts",
    "part_interval",
]

POLICIES = ("ceil", "balanced")


def block_interval(
    extent: int,
    sizes: Sequence[int],
    coords: Sequence[int],
    blocks: str = "ceil",
    offsets: Sequence[int] | None = None,
) -> tuple[int, int]:
    """``(start, stop)`` of the block at ``coords`` when axes of ``sizes``, major to minor, cut ``extent`` cells.

    Local.  Closed form: one division per entry of ``sizes``.

    >>> block_interval(7, (2, 3), (1, 0)), block_interval(7, (2, 3), (0, 2), "balanced")
    ((4, 5), (3, 4))
    """
    if offsets is not None:
        position = row_major(coords, sizes)
        return offsets[position], offsets[position + 1]
    start, stop = 0, extent
    for size, coord in zip(sizes, coords, strict=True):
        if blocks == "ceil":  # as `part_interval`, without a call
            chunk = -(-(stop - start) // size)
            start, stop = min(start + coord * chunk, stop), min(start + (coord + 1) * chunk, stop)
        else:
            low, high = part_interval(stop - start, size, coord, blocks)
            start, stop = start + low, start + high
    return start, stop


def block_extent(
    extent: int,
    sizes: Sequence[int],
    coords: Sequence[int],
    blocks: str = "ceil",
    offsets: Sequence[int] | None = None,
) -> int:
    """Number of cells of the block at ``coords``; arguments as for :func:`block_interval`.

    Local.

    >>> [block_extent(7, (2, 3), (a, b)) for a in range(2) for b in range(3)]
    [2, 2, 0, 1, 1, 1]
    """
    start, stop = block_interval(extent, sizes, coords, blocks, offsets)
    return stop - start


def block_starts(extent: int, sizes: Sequence[int], blocks: str = "ceil") -> BlockStarts:
    """The start of every block by position, then the end: the explicit offsets of the same blocks.

    Local.  Closed form where they are many.

    >>> block_starts(7, (2, 3))
    (0, 2, 4, 4, 5, 6, 7)
    """
    if math.prod(sizes) > starts_module.MOST_LISTED:
        return _many_starts(extent, sizes, blocks)
    starts = [0, extent]
    for size in sizes:
        parts = range(size)
        found: list[int] = []
        for start, stop in pairwise(starts):  # `part_interval`, of all parts at once
            if blocks == "ceil":
                chunk = -(-(stop - start) // size)
                found += [min(start + part * chunk, stop) for part in parts]
            else:
                small, larger = divmod(stop - start, size)
                found += [start + part * small + min(part, larger) for part in parts]
        starts = [*found, extent]
    return tuple(starts)


def _many_starts(extent: int, sizes: Sequence[int], blocks: str) -> BlockStarts:
    """As `block_starts`, by the runs of blocks of one extent; what cuts parts of one extent is found once."""

    def runs(cells: int, level: int) -> list[Run]:
        parts = _runs_of_parts(cells, sizes[level], blocks)
        if level + 1 == len(sizes):
            return [*parts]
        return [(count, Starts(0, runs(each, level + 1))) for count, each in parts]

    return of_runs(runs(extent, 0))


def _runs_of_parts(extent: int, parts: int, blocks: str) -> list[tuple[int, int]]:
    """(number of parts, cells of each) when a single axis cuts ``extent`` cells, in order."""
    if blocks == "balanced":
        small, larger = divmod(extent, parts)
        runs = [(larger, small + 1), (parts - larger, small)]
    else:
        chunk = -(-extent // parts)
        full, rest = divmod(extent, chunk) if chunk else (0, 0)
        runs = [(full, chunk), (int(rest > 0), rest), (parts - full - (rest > 0), 0)]
    return [run for run in runs if run[0]]


def block_position(
    extent: int, sizes: Sequence[int], cell: int, blocks: str = "ceil", offsets: Sequence[int] | None = None
) -> int:
    """The position of the block that holds ``cell``, with ``0 <= cell < extent``; the inverse of the block rule.

    Local.  The blocks that overlap cells ``[a, b)`` lie from the position of a to that of ``b - 1``; some between them
    may be empty.

    >>> [block_position(7, (2, 3), cell) for cell in range(7)]
    [0, 0, 1, 1, 3, 4, 5]
    """
    assert 0 <= cell < extent, (cell, extent)
    if offsets is not None:
        return bisect_right(offsets, cell) - 1
    position = 0
    for size in sizes:
        part = _part_of(extent, size, cell, blocks)
        start, stop = part_interval(extent, size, part, blocks)
        extent, cell, position = stop - start, cell - start, position * size + part
    return position


def check_policy(blocks: object) -> str:
    """``blocks`` itself, if it names a policy.  Local.  Raises ShardingError."""
    if not isinstance(blocks, str) or blocks not in POLICIES:
        raise ShardingError(f"blocks is {blocks!r}; it must be one of {', '.join(map(repr, POLICIES))}")
    return blocks


def check_offsets(offsets: object, sizes: Sequence[int], what: str = "sharded_dims_offsets") -> BlockStarts:
    """``offsets`` as a tuple, if they can be the starts and the end of the blocks of axes of ``sizes``.

    Local.  Many of them are held as runs.  Raises ShardingError.  It does not check that they end at the extent, which
    is not known here.

    >>> check_offsets([0, 2, 2, 5], (3,))
    (0, 2, 2, 5)
    """
    count = math.prod(sizes)
    checked = offsets if isinstance(offsets, Starts) else as_ints(offsets)
    if checked is None:
        raise ShardingError(f"{what} is {offsets!r}; it must be a list of integers")
    if len(checked) != count + 1:
        raise ShardingError(
            f"{what} has {len(checked)} entries; it must have {count + 1}: the start of {count} shards, and the end"
        )
    if checked[0] != 0:
        raise ShardingError(f"{what} begins with {checked[0]}; the first shard must start at 0")
    found = compact(checked)
    if isinstance(found, Starts) and min(found.extents()) >= 0:
        return found
    for position, (start, stop) in enumerate(pairwise(found)):
        if stop < start:
            raise ShardingError(
                f"{what} decreases from {start} to {stop} at entry {position + 1}; it must not decrease"
            )
    return found


def overlapping_parts(extent: int, parts: int, low: int, high: int, blocks: str = "ceil") -> range:
    """The parts that overlap cells ``[low, high)`` when a single axis cuts ``extent`` cells; none of them is empty.

    Local.  Closed form.  ``0 <= low < high <= extent``.

    >>> overlapping_parts(7, 3, 2, 5), overlapping_parts(7, 3, 2, 5, "balanced")
    (range(0, 2), range(0, 2))
    """
    return range(_part_of(extent, parts, low, blocks), _part_of(extent, parts, high - 1, blocks) + 1)


def part_interval(extent: int, parts: int, part: int, blocks: str = "ceil") -> tuple[int, int]:
    """``(start, stop)`` of one part when a single axis cuts ``extent`` cells.

    Local.

    >>> [part_interval(7, 3, part) for part in range(3)]
    [(0, 3), (3, 6), (6, 7)]
    """
    if blocks == "ceil":
        chunk = -(-extent // parts)
        return min(part * chunk, extent), min((part + 1) * chunk, extent)
    assert blocks == "balanced", blocks
    small, larger = divmod(extent, parts)
    start = part * small + min(part, larger)
    return start, start + small + (part < larger)


def _part_of(extent: int, parts: int, cell: int, blocks: str) -> int:
    """The part that holds ``cell`` when a single axis cuts ``extent`` cells."""
    if blocks == "ceil":
        return cell // -(-extent // parts)
    small, larger = divmod(extent, parts)
    edge = larger * (small + 1)
    return cell // (small + 1) if cell < edge else larger + (cell - edge) // small
