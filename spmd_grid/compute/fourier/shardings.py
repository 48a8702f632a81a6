"""The shardings between two transforms: the axes that cut dimensions that are to be whole are moved to others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import prod

from spmd_grid.compute.splits import block_starts
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.volume.totals import most_local
from spmd_grid.typing import Shape

__all__ = ["cut_dims", "devices_of", "most_cells", "moved", "regular", "with_offsets"]

# Up to this many axes, each may move to another dimension.
_MOST_APART = 3


def cut_dims(sharding: Sharding) -> list[int]:
    """The dimensions that more than one device share.  Local."""
    return [d for d in sharding.sharded_dims if prod(sharding.sizes_of(d)) > 1]


def devices_of(sharding: Sharding) -> int:
    """The number of different blocks.  Local."""
    return prod(n for d in sharding.sharded_dims for n in sharding.sizes_of(d))


def most_cells(sharding: Sharding, shape: Shape) -> int:
    """The most cells that a device holds.  Local."""
    return most_local(Layout(sharding, shape))


def moved(sharding: Sharding, shape: Shape, freed: Sequence[int]) -> Iterator[tuple[Sharding, bool]]:
    """The shardings in which one or more dimensions of ``freed`` are whole.

    Each comes with whether it leaves the axes that cut those dimensions unused, so that they replicate.  Otherwise
    these axes cut other dimensions, after the axes that cut them already: an all_to_all where there is one axis.
    Plans only.  ``sharding``: without halos and partial axes.
    """
    ndim = len(shape)
    for count in range(1, len(freed) + 1):
        for dims in combinations(freed, count):
            axes = [axis for d in dims for axis in sharding.axes_of(d)]
            kept = [() if d in dims else sharding.axes_of(d) for d in range(ndim)]
            targets = [d for d in range(ndim) if d not in dims]
            for order in dict.fromkeys([tuple(axes), tuple(axes[::-1])]):
                for targets_of_axes in _choices(len(axes), targets):
                    cuts = list(kept)
                    for axis, d in zip(order, targets_of_axes):
                        cuts[d] = (*cuts[d], axis)
                    yield _cut(sharding, shape, cuts), False
            yield _cut(sharding, shape, kept), True


def _choices(count: int, targets: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Per way, the dimension that each of ``count`` axes moves to; of many axes, one for all of them."""
    if count > _MOST_APART:
        return iter([(d,) * count for d in targets])
    return product(targets, repeat=count)


def _cut(sharding: Sharding, shape: Shape, cuts: Sequence[tuple[int, ...]]) -> Sharding:
    """The sharding by ``cuts``; dimensions that are cut as before keep their blocks."""
    if not sharding.sharded_dims_offsets:
        return Sharding(sharding.grid, cuts, blocks=sharding.blocks)
    starts = []
    for d, axes in enumerate(cuts):
        if axes and axes == sharding.axes_of(d):
            starts.append(block_starts(sharding, d, shape[d]))
        elif axes:
            starts.append(block_starts(Sharding(sharding.grid, [axes]), 0, shape[d]))
    return Sharding(sharding.grid, cuts, sharded_dims_offsets=starts or None)


def regular(sharding: Sharding, like: Sharding, shape: Shape) -> Sharding:
    """``sharding`` by the block rule of ``like``; as it is where ``like`` has offsets of its own.  Local."""
    if like.sharded_dims_offsets or not sharding.sharded_dims_offsets:
        return sharding
    return Sharding(sharding.grid, [sharding.axes_of(d) for d in range(len(shape))], blocks=like.blocks)


def with_offsets(grid: Grid, cuts: Sequence[tuple[int, ...]], starts: Sequence[Sequence[int] | None]) -> Sharding:
    """The sharding by ``cuts`` with the block starts of every dimension that is cut.  Local."""
    given = [each for each, axes in zip(starts, cuts) if axes and each is not None]
    return Sharding(grid, cuts, sharded_dims_offsets=given or None)
