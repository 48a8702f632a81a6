"""The share of a device in work on cells that several devices hold alike.

The cores of devices that differ along splitting axes share no cell.  Those that differ along replicated axes hold the
same cells, so they share the work: each takes its own part of the core.

    [[0]] on 2x2, 8 cells     o: taken by this device

    device (0, 0)  o o . .              device (1, 0)          o o . .
    device (0, 1)  . . o o              device (1, 1)          . . o o
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from spmd_grid.grid.blocks import block_interval
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.typing import Shape

__all__ = ["own_share"]


def own_share(extents: Shape, grid: ProcessGrid, axes: Sequence[int]) -> tuple[slice, ...] | None:
    """The slices of a box of ``extents`` that this device takes, if the devices along ``axes`` hold the same box.

    Local.  The longest dimension is cut.  None where the device takes all of it.

    >>> from spmd_grid import init_grid, run_spmd
    >>> run_spmd(lambda: own_share((2, 5), init_grid((2,)), [0]), ranks=2)[1]
    (slice(None, None, None), slice(3, 5, None))
    """
    copies = [grid.shape[axis] for axis in axes]
    if prod(copies) == 1 or not extents:
        return None
    dim = extents.index(max(extents))
    part = block_interval(extents[dim], copies, [grid.own_coords[axis] for axis in axes], "balanced")
    return (*[slice(None)] * dim, slice(*part), *[slice(None)] * (len(extents) - dim - 1))
