"""The blocks of a layout and the devices that hold them, as far as they fit into a drawing.

A block is a product of parts, one per tensor dimension, so a layout is drawn from its dimensions.  The holders of a
block are a pattern of coordinates: numbers on the axes that split, ``*`` on axes along which every device has a copy,
``+`` on axes along which each has a partial value.  No function here enumerates devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from math import prod
from typing import NamedTuple

from spmd_grid.grid.box import Box, multi_index
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.geometry.cuts import CutDimension, Part, cuts_of
from spmd_grid.reshard.volume.descent import Descent
from spmd_grid.typing import MultiIndex, Shape

__all__ = [
    "COPIES",
    "PARTIAL",
    "HeldBlock",
    "Holders",
    "axis_name",
    "blocks_of",
    "holders_of",
    "idle_devices",
    "n_blocks",
    "partial_note",
    "shown_parts",
    "window_of",
]

COPIES, PARTIAL = "*", "+"
_MOST_SEARCHED = 4096  # positions of one dimension that are searched one by one


class Holders(NamedTuple):
    """The devices whose coordinates fit ``pattern``: by axis a number, ``"*"`` (copies) or ``"+"`` (partial values).

    >>> print(Holders((0, "*"), (2, 3)), len(list(Holders((0, "*"), (2, 3)).coords())))
    (0,*) 3
    """

    pattern: tuple[int | str, ...]
    grid_shape: Shape

    @property
    def size(self) -> int:
        """Number of these devices."""
        return prod(size for entry, size in zip(self.pattern, self.grid_shape) if isinstance(entry, str))

    @property
    def is_partial(self) -> bool:
        return PARTIAL in self.pattern

    def coords(self) -> Iterator[MultiIndex]:
        """The coordinates of the devices, in the order of their linear indices.  Local."""
        return product(
            *(range(size) if isinstance(entry, str) else (entry,) for entry, size in zip(self.pattern, self.grid_shape))
        )

    def __str__(self) -> str:
        return f"({','.join(map(str, self.pattern))})"


class HeldBlock(NamedTuple):
    """The cells of ``box``, held by ``holders``; ``window``: the cells with their halos, as far as in the array."""

    box: Box
    window: Box
    holders: Holders


def shown_parts(layout: Layout, limit: int) -> list[list[Part | None]]:
    """The parts with cells, by dimension; of more than ``limit`` the first ones, None for a gap, and the last one.

    Local.  The cost is that of what is shown.

    >>> from spmd_grid.grid.sharding import Sharding
    >>> layout = Layout(Sharding(Grid((4, 256)), [[0, 1]]), (2000,))
    >>> [part and (part.digits, part.start) for part in shown_parts(layout, 4)[0]]
    [((0, 0), 0), ((0, 1), 2), None, ((3, 249), 1998)]
    """
    return [_shown(cut, limit) for cut in cuts_of(layout)]


def _shown(cut: CutDimension, limit: int) -> list[Part | None]:
    parts: list[Part | None] = list(islice(cut.meeting(0, cut.extent), limit + 1))
    if len(parts) > limit:
        (last,) = cut.meeting(cut.extent - 1, cut.extent)
        parts[limit - 2 :] = [None, Part(last.digits, *cut.interval(last.digits))]
    return parts


def window_of(layout: Layout, dim: int, part: Part) -> tuple[int, int]:
    """The cells of ``part`` with its halos, as far as they lie in the array.  Local."""
    low, high = layout.sharding.halo_of(dim)
    return max(part.start - low, 0), min(part.stop + high, layout.global_shape[dim])


def holders_of(layout: Layout, parts: Sequence[Part]) -> Holders:
    """The devices that hold the block which is the product of ``parts``, one per dimension.  Local."""
    sharding = layout.sharding
    pattern: list[int | str] = [COPIES] * layout.grid.ndim
    for axis in sharding.partial_axes:
        pattern[axis] = PARTIAL
    for dim, part in enumerate(parts):
        for axis, digit in zip(sharding.axes_of(dim), part.digits):
            pattern[axis] = digit
    return Holders(tuple(pattern), layout.grid.shape)


def blocks_of(layout: Layout, parts: Sequence[Sequence[Part | None]]) -> Iterator[HeldBlock]:
    """The blocks made of ``parts`` by dimension, without the gaps, in row-major order.  Local."""
    for chosen in product(*([part for part in row if part] for row in parts)):
        windows = [window_of(layout, dim, part) for dim, part in enumerate(chosen)]
        yield HeldBlock(
            Box(tuple([part.start for part in chosen]), tuple([part.stop for part in chosen])),
            Box(tuple([low for low, _ in windows]), tuple([high for _, high in windows])),
            holders_of(layout, chosen),
        )


def n_blocks(layout: Layout) -> int:
    """The number of blocks that have cells.

    Local.

    >>> from spmd_grid.grid.sharding import Sharding
    >>> n_blocks(Layout(Sharding(Grid((1024, 1024)), [[0], [1]]), (3000, 1024)))
    1024000
    """
    return prod(_n_filled(cut) for cut in cuts_of(layout))


def _n_filled(cut: CutDimension) -> int:
    return sum(n for cells, n in Descent(cut).extents() if cells)


def idle_devices(layout: Layout) -> tuple[int, list[Holders]]:
    """Number of devices without cells, and their patterns, which may overlap; no patterns if there are too many.

    Local.

    >>> from spmd_grid.grid.sharding import Sharding
    >>> count, patterns = idle_devices(Layout(Sharding(Grid((2, 3)), [[0], [1]]), (4, 4)))
    >>> count, [str(pattern) for pattern in patterns]
    (2, ['(*,2)'])
    """
    grid, cuts = layout.grid, cuts_of(layout)
    busy = n_blocks(layout) * (grid.size // prod(prod(cut.sizes) for cut in cuts))
    patterns = []
    if busy < grid.size and all(prod(cut.sizes) <= _MOST_SEARCHED for cut in cuts):
        patterns = [_pattern(grid, cut.axes, digits) for cut in cuts for digits in _empty_digits(cut)]
    return grid.size - busy, patterns


def _empty_digits(cut: CutDimension) -> Iterator[MultiIndex]:
    """The coordinates of the parts without cells, cut to their leading digits if all parts with these are empty."""
    if not cut.extent:
        yield ()
        return
    hidden: set[MultiIndex] = set()
    for position in range(prod(cut.sizes)):
        digits = multi_index(position, cut.sizes)
        for depth in range(1, len(digits) + 1):
            prefix = digits[:depth]
            if prefix in hidden:
                break
            first = position - position % cut.rests[depth - 1]
            ends = [multi_index(each, cut.sizes) for each in (first, first + cut.rests[depth - 1] - 1)]
            if cut.interval(ends[0])[0] == cut.interval(ends[1])[1]:
                hidden.add(prefix)
                yield prefix
                break


def _pattern(grid: Grid, axes: Sequence[int], digits: Sequence[int]) -> Holders:
    pattern: list[int | str] = [COPIES] * grid.ndim
    for axis, digit in zip(axes, digits):
        pattern[axis] = digit
    return Holders(tuple(pattern), grid.shape)


def axis_name(layout: Layout, axis: int) -> int | str:
    """The name of a grid axis, or its number.  Local."""
    return layout.grid.axis_names[axis] if layout.grid.axis_names else axis


def partial_note(layout: Layout) -> str:
    """Description of the partial values; empty if there are none.  Local."""
    axes = " and ".join(str(axis_name(layout, axis)) for axis in layout.sharding.partial_axes)
    return f"partial values along grid axis {axes}, to be combined by {layout.sharding.partial_kind}" if axes else ""
