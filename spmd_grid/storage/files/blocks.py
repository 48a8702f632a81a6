"""Arrays brought to blocks that one process each holds, without partial values, as files of blocks need them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.grid.box import Box, multi_index
from spmd_grid.grid.sharding import Sharding
from spmd_grid.typing import Shape

__all__ = ["aligned_sharding", "chunks_in", "cut_alike", "edges_of", "fitting_chunks", "own_box"]

_CHUNK_BYTES = 1 << 26  # at most, where chunks can be parts of blocks


def own_box(a: ShardedArray) -> Box | None:
    """The cells that this process writes: its core, if it holds the first copy of it.  Local."""
    coords = a.grid.own_coords
    box = a.layout.core_box(coords)
    return box if a.layout.is_owner(coords) and not box.is_empty else None


def edges_of(sharding: Sharding, dim: int, extent: int) -> list[int]:
    """The edges of the blocks of a dimension of ``extent`` cells: 0, those between blocks, and the extent.  Local.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> edges_of(Sharding(Grid((3,)), [[0]]), 0, 7)
    [0, 3, 6, 7]
    """
    sizes = sharding.sizes_of(dim)
    return [0, *[sharding.block(dim, extent, multi_index(position, sizes))[1] for position in range(prod(sizes))]]


def aligned_sharding(sharding: Sharding, shape: Shape, chunks: Sequence[int]) -> Sharding:
    """The same cuts, each moved to the next multiple of the chunk's extent; no halos and no partial values.  Local.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> print(aligned_sharding(Sharding(Grid((3,)), [[0]], blocks="balanced"), (10,), (4,)))
    [[0]] on 3, offsets [[0, 4, 8, 10]]
    """
    offsets = []
    for dim in sharding.sharded_dims:
        extent, chunk = shape[dim], chunks[dim]
        inner = [min((edge + chunk // 2) // chunk * chunk, extent) for edge in edges_of(sharding, dim, extent)[1:-1]]
        offsets.append([0, *inner, extent])
    return Sharding(sharding.grid, sharding.split_axes, sharded_dims_offsets=offsets)


def fitting_chunks(sharding: Sharding, shape: Shape, itemsize: int) -> tuple[int, ...]:
    """The extents of chunks for which nothing moves where the blocks are regular: a block, or an equal part of it.

    Local.  Where the blocks are irregular: as for regular ones.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> fitting_chunks(Sharding(Grid((2, 3)), [[0], [1]]), (8, 7), 8)
    (4, 3)
    """
    chunks = []
    for dim, extent in enumerate(shape):
        edges = edges_of(sharding, dim, extent)
        first = edges[1]
        is_regular = first > 0 and all(edge % first == 0 or edge == extent for edge in edges)
        chunks.append(max(first if is_regular else -(-extent // (len(edges) - 1)), 1))
    for dim, extent in enumerate(chunks):
        too_large = -(-prod(chunks) * itemsize // _CHUNK_BYTES)
        if too_large > 1:
            parts = next((n for n in range(min(too_large, extent), extent) if extent % n == 0), extent)
            chunks[dim] = extent // parts
    return tuple(chunks)


def cut_alike(a: ShardedArray, target: Sharding) -> bool:
    """Whether ``a`` has the cuts of ``target``, and all its values are whole.  Local."""
    if a.sharding.partial_axes or a.sharding.split_axes != target.split_axes:
        return False
    return all(edges_of(a.sharding, dim, n) == edges_of(target, dim, n) for dim, n in enumerate(a.shape))


def chunks_in(box: Box, chunks: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The numbers of the chunks that have cells in ``box``.  Local.

    >>> list(chunks_in(Box((4, 0), (9, 2)), (4, 4)))
    [(1, 0), (2, 0)]
    """
    ranges = [range(a // c, -(-b // c)) for a, b, c in zip(box.starts, box.stops, chunks)]
    counts = () if box.is_empty else tuple(map(len, ranges))
    for number in range(0 if box.is_empty else prod(counts)):
        yield tuple([each[i] for each, i in zip(ranges, multi_index(number, counts))])
