"""Arrays brought to other cuts step by step, so that a process holds few cells besides its own at a time.

In a step every process gets a part of its new block, and all parts together, without the gaps between them, are a
smaller array that is resharded.  Here two processes exchange rows for columns in two steps, the first with the cells 1:

    1 1 2 | 1 1 2
    1 1 2 | 1 1 2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.grid.box import Box
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.storage.files.blocks import cut_alike, edges_of, own_box
from spmd_grid.typing import Shape

__all__ = ["in_steps", "step_extents"]

_SHARE = 4  # of the memory for cells besides the array, the part of a step's cells; as much for those that leave

Interval = tuple[int, int]
Intervals = Sequence[Interval]  # one of each block along a dimension, in order


def in_steps(
    a: ShardedArray, target: Sharding, units: Sequence[int], stage_bytes: int
) -> Iterator[tuple[Box, np.ndarray]]:
    """The cells that the cuts of ``target`` give to this process, in row-major pieces: (their box, the cells).

    Collective over the grid; to be used up by all processes.  Pieces begin at multiples of ``units`` from the start of
    the block.  They need at most ``stage_bytes`` of memory, if single units do not need more.  Nothing moves where
    ``a`` is cut so.  If several processes would have the same cells, the first one gets them.
    """
    if cut_alike(a, target):
        box = own_box(a)
        if box is not None:
            yield box, a.stored_core
        return
    if not a.size:
        return
    steps = step_extents(a, target, units, stage_bytes // _SHARE)
    edges = [edges_of(target, dim, n) for dim, n in enumerate(a.shape)]
    counts = [max(1, -(-_longest(each) // step)) for each, step in zip(edges, steps)]
    layout, coords = Layout(target, a.shape), a.grid.own_coords
    block, is_owner = layout.core_box(coords), layout.is_owner(coords)
    for numbers in product(*map(range, counts)):
        intervals = [_intervals(each, step, number) for each, step, number in zip(edges, steps, numbers)]
        cells = _bring(a, target, intervals)
        starts = [
            min(start + n * step, stop) for start, stop, n, step in zip(block.starts, block.stops, numbers, steps)
        ]
        box = Box(tuple(starts), tuple([start + n for start, n in zip(starts, cells.shape)]))
        if is_owner and not box.is_empty:
            yield box, cells


def step_extents(a: ShardedArray, target: Sharding, units: Sequence[int], most_bytes: int) -> Shape:
    """The extents of the pieces of one step: as many units as ``most_bytes`` allow.  Plans only.

    The first dimension is cut as finely as it can be before the second one is, so that pieces follow one another.
    """
    old = [edges_of(a.sharding, dim, n) for dim, n in enumerate(a.shape)]
    new = [edges_of(target, dim, n) for dim, n in enumerate(a.shape)]
    steps = [-(-max(_longest(each), 1) // unit) * unit for each, unit in zip(new, units)]

    def need() -> int:
        """The most bytes that a process gets or gives in a step."""
        got = prod([min(step, _longest(each)) for step, each in zip(steps, new)])
        given = prod([_most_given(each, step, before) for each, step, before in zip(new, steps, old)])
        return max(got, given) * a.dtype.itemsize

    while need() > most_bytes:
        dim = next((dim for dim, unit in enumerate(units) if steps[dim] > unit), None)
        if dim is None:
            break
        steps[dim] = max(-(-steps[dim] // units[dim]) // 2, 1) * units[dim]
    return tuple(steps)


def _bring(a: ShardedArray, target: Sharding, intervals: Sequence[Intervals]) -> np.ndarray:
    """This process's cells of a step.  Collective."""
    source, shape = a.sharding, tuple([sum([stop - start for start, stop in each]) for each in intervals])
    given, taken = [], []
    for dim, each in enumerate(intervals):
        if source.axes_of(dim):
            given.append([_count(each, edge) for edge in edges_of(source, dim, a.shape[dim])])
        if target.axes_of(dim):
            taken.append([0, *np.cumsum([stop - start for start, stop in each]).tolist()])
    before = Sharding(
        source.grid,
        source.split_axes,
        sharded_dims_offsets=given or None,
        partial_axes=source.partial_axes,
        partial_kind=source.partial_kind,
    )
    after = Sharding(target.grid, target.split_axes, sharded_dims_offsets=taken or None)
    local = _taken(a.stored_core, a.layout.core_box(a.grid.own_coords), intervals)
    found = reshard_local(local, before, after, a.grid, shape)
    assert isinstance(found, np.ndarray), "the processes of both layouts are the same"
    return found


def _taken(core: np.ndarray, box: Box, intervals: Sequence[Intervals]) -> np.ndarray:
    """The cells of a core that lie in the intervals: a view where they are one part."""
    for dim, each in enumerate(intervals):
        low, high = box.starts[dim], box.stops[dim]
        inside = [(max(start, low) - low, min(stop, high) - low) for start, stop in each]
        parts = [core[(*[slice(None)] * dim, slice(*part))] for part in inside if part[0] < part[1]]
        none = core[(*[slice(None)] * dim, slice(0))]
        if len(parts) > 1:
            core = np.concatenate(parts, axis=dim, dtype=core.dtype)  # else of the processor's byte order
        else:
            core = parts[0] if parts else none
    return core


def _intervals(edges: Sequence[int], step: int, number: int) -> list[Interval]:
    """Part ``number`` of every block, each of ``step`` cells but for the last ones, which may be empty."""
    return [
        (min(start + number * step, stop), min(start + (number + 1) * step, stop))
        for start, stop in zip(edges, edges[1:])
    ]


def _count(intervals: Intervals, edge: int) -> int:
    """The number of cells before ``edge`` in the intervals."""
    return sum([min(max(edge - start, 0), stop - start) for start, stop in intervals])


def _most_given(edges: Sequence[int], step: int, before: Sequence[int]) -> int:
    """The most cells along a dimension that an old block has in one step."""
    most = 0
    for number in range(max(1, -(-_longest(edges) // step))):
        counts = [_count(_intervals(edges, step, number), edge) for edge in before]
        most = max([most, *[stop - start for start, stop in zip(counts, counts[1:])]])
    return most


def _longest(edges: Sequence[int]) -> int:
    return max([stop - start for start, stop in zip(edges, edges[1:])])
