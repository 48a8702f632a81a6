"""The cells that a stencil computes: the interior, which needs no halo, and the boundary.

Cells whose stencil stays inside the core need no halo: they are computed while bytes move, the others afterwards.
For radius 1 in a core of 5 x 8 cells of an array that is split along both dimensions (left), or along the second alone
(right; the first and last row lie closer than the radius to the end of the array, and are left out):

    h h h h h h h h h h
    h b b b b b b b b h          h . . . . . . . . h
    h b i i i i i i b h          h b i i i i i i b h          i  interior
    h b i i i i i i b h          h b i i i i i i b h          b  boundary
    h b i i i i i i b h          h b i i i i i i b h          h  halo
    h b b b b b b b b h          h . . . . . . . . h
    h h h h h h h h h h
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

from spmd_grid.errors import ShapeError
from spmd_grid.grid.box import Box, as_ints
from spmd_grid.grid.layout import Layout
from spmd_grid.ops.calls.arguments import hashable
from spmd_grid.typing import MultiIndex

__all__ = ["OverlapBoxes", "Radius", "Region", "overlap_boxes", "tiles"]

Radius: TypeAlias = int | Sequence[int | Sequence[int]]
Region: TypeAlias = slice | Sequence[slice] | None


class OverlapBoxes(NamedTuple):
    """The cells of one device that a stencil computes, as disjoint boxes of its local array.

    ``interior``: those that need no halo, perhaps none; ``boundary``: the others.
    """

    interior: Box
    boundary: tuple[Box, ...]


def overlap_boxes(layout: Layout, coords: MultiIndex, radius: Radius, region: Region = None) -> OverlapBoxes:
    """Splits the cells that a stencil computes on the device at ``coords`` by whether they need the halo.

    Plans only.  ``radius``: the reach of the stencil, one whole number or one per tensor dimension, each for both
    sides or a (low, high) pair.  ``region``: the slices of the global array to compute, by default all of it.
    Cells closer than the radius to the end of a dimension that is not sharded are left out: there is no halo.

    Raises `ShapeError` for a radius beyond the halo, and for an invalid radius or region; `DeviceError`.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.sharding import Sharding
    >>> layout = Layout(Sharding(Grid((2,)), [[0]], halo_sizes=[1, 1]), (8, 6))
    >>> interior, boundary = overlap_boxes(layout, (0,), 1)
    >>> str(interior), [str(box) for box in boundary]
    ('[2:4, 1:5]', ['[1:2, 1:5]', '[4:5, 1:5]'])
    >>> interior, boundary = overlap_boxes(layout, (0,), 1, region=(slice(1, -1), slice(3)))
    >>> str(interior), [str(box) for box in boundary]
    ('[2:4, 1:3]', ['[4:5, 1:3]'])
    """
    reach, core, sharded = _as_radius(radius, layout), layout.core_in_local(coords), layout.sharding.sharded_dims
    wanted = _as_region(region, layout).relative_to(layout.local_box(coords).starts)
    near = [(0, 0) if dim in sharded else sides for dim, sides in enumerate(reach)]
    everything = _without_ends(core, near).intersect(wanted)
    interior = everything.intersect(_without_ends(core, reach))
    return OverlapBoxes(interior, tuple(everything.subtract(interior)))


def tiles(box: Box, cells: int) -> list[Box]:
    """Cuts ``box`` into tiles of at most ``cells`` cells, along its slowest dimensions.

    Local.  The tiles are in row-major order and about equally large.  An empty box has none.

    >>> [str(tile) for tile in tiles(Box((1, 0), (6, 10)), 25)]
    ['[1:3, 0:10]', '[3:5, 0:10]', '[5:6, 0:10]']
    >>> [str(tile) for tile in tiles(Box((1, 0), (3, 10)), 9)]
    ['[1:2, 0:5]', '[1:2, 5:10]', '[2:3, 0:5]', '[2:3, 5:10]']
    """
    if box.is_empty:
        return []
    cuts = []
    for dim, extent in enumerate(box.shape):
        most = max(cells // prod(box.shape[dim + 1 :]), 1)  # indices along this dimension in one tile
        thickness = -(-extent // -(-extent // most))  # the same for all, but for the last
        start, stop = box.starts[dim], box.stops[dim]
        cuts.append([(at, min(at + thickness, stop)) for at in range(start, stop, thickness)])
    return [Box(tuple([a for a, _ in sides]), tuple([b for _, b in sides])) for sides in product(*cuts)]


def _as_radius(radius: Radius, layout: Layout) -> tuple[tuple[int, int], ...]:
    """(low, high) per tensor dimension; refuses a radius that reaches beyond the halos.  Local."""
    row = hashable(radius)
    row = row if isinstance(row, tuple) else (row,) * layout.ndim
    found_sides = [as_ints(each if isinstance(each, list | tuple) else (each, each)) for each in row]
    reach = tuple(
        [(each[0], each[1]) for each in found_sides if each is not None and len(each) == 2 and min(each) >= 0]
    )
    if not len(reach) == len(found_sides) == layout.ndim:
        raise ShapeError(
            f"radius is {radius!r}; it must be a whole number from 0, or a list of {layout.ndim}, one per tensor"
            " dimension, each for both sides or a (low, high) pair"
        )
    for dim in layout.sharding.sharded_dims:
        found, halo = reach[dim], layout.sharding.halo_of(dim)
        if found[0] > halo[0] or found[1] > halo[1]:
            raise ShapeError(
                f"radius is {radius!r}, which reaches {found} cells beyond both ends of dimension {dim}; its halo has"
                f" {halo}"
            )
    return reach


def _as_region(region: Region, layout: Layout) -> Box:
    """The cells that slices of the global array select.  Local."""
    if region is None:
        return layout.domain_box
    row = (region,) if isinstance(region, slice) else region
    if not isinstance(row, list | tuple) or len(row) > layout.ndim or not all(map(_is_plain_slice, row)):
        raise ShapeError(
            f"region is {region!r}; it must be slices of the global array with step 1, at most {layout.ndim}"
        )
    ends = [each.indices(extent)[:2] for each, extent in zip(row, layout.global_shape)]
    ends += [(0, extent) for extent in layout.global_shape[len(row) :]]
    return Box(tuple([start for start, _ in ends]), tuple([max(start, stop) for start, stop in ends]))


def _is_plain_slice(each: object) -> bool:
    if not isinstance(each, slice) or each.step not in (None, 1):
        return False
    return as_ints([end for end in (each.start, each.stop) if end is not None]) is not None


def _without_ends(box: Box, ends: Sequence[tuple[int, int]]) -> Box:
    """``box`` without its ``low`` first and ``high`` last cells of each dimension; stops may lie before starts."""
    return box.grow([-low for low, _ in ends], [-high for _, high in ends])
