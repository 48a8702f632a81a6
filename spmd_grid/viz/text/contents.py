"""The grid of devices as text, each with the cells of its local array."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from spmd_grid.errors import ShardingError
from spmd_grid.grid.box import Box
from spmd_grid.grid.layout import Layout
from spmd_grid.typing import MultiIndex
from spmd_grid.viz.holdings import axis_name, partial_note
from spmd_grid.viz.text.lines import ARROW, Cell, ruled, widths_of, with_arrows

__all__ = ["contents_text"]

_MOST_CELLS, _MOST_DEVICES = 4000, 64  # in a drawing


def contents_text(layout: Layout, across: int | None = None) -> str:
    """The grid of devices, each with the cells of its local array, numbered from 1 in each dimension.

    Local.  Grid axis ``across`` runs to the right (default: the last one; a single axis runs in the direction of the
    dimension that it cuts), the others down.  Halo cells are in parentheses, a dot is a cell outside the array.  Raises
    ShardingError if the array or the grid is too large to draw.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.sharding import Sharding
    >>> print(contents_text(Layout(Sharding(Grid((2, 2)), [[1]]), (2, 3))))
    grid axis 1
    ----------->
    +----------+----------+  grid axis 0 |
    | 11 12 13 | 21 22 23 |              |
    +----------+----------+              |
    | 11 12 13 | 21 22 23 |              |
    +----------+----------+              ↓
    """
    grid = layout.grid
    if grid.size > _MOST_DEVICES:
        raise ShardingError(f"contents of {grid.size} devices; they are drawn for up to {_MOST_DEVICES}")
    cells = sum(prod(layout.local_shape(grid.multi_index(device))) for device in range(grid.size))
    if cells > _MOST_CELLS:
        raise ShardingError(f"contents of {cells} cells in all local arrays; they are drawn for up to {_MOST_CELLS}")
    if across is None:
        across = -1 if grid.ndim == 1 and layout.ndim > 1 and layout.sharding.axes_of(0) else grid.ndim - 1
    down = [axis for axis in range(grid.ndim) if axis != across]
    sizes = [grid.shape[axis] for axis in down]
    table = []
    for row in product(*map(range, sizes)):
        columns = range(grid.shape[across]) if across >= 0 else ()
        devices = [(*row[:across], column, *row[across:]) for column in columns] or [row]
        table.append([_contents(layout, coords) for coords in devices])
    widths = widths_of(table)
    height = sizes[-1] if sizes else 1
    planes = [ruled(table[first : first + height], widths) for first in range(0, len(table), height)]
    arrows = [
        (f"grid axis {axis_name(layout, axis)}", sum(map(len, planes[: prod(sizes[depth:]) // height])))
        for depth, axis in reversed(list(enumerate(down)))
    ]
    lines = with_arrows([line for plane in planes for _, line in plane], arrows)
    if across >= 0:
        lines = [f"grid axis {axis_name(layout, across)}", ARROW, *lines]
    if note := partial_note(layout):
        lines += ["", note[0].upper() + note[1:] + "."]
    return "\n".join(line.rstrip() for line in lines)


def _contents(layout: Layout, coords: MultiIndex) -> Cell:
    """The local array of a device, row by row, a blank line between planes."""
    local, core, domain = layout.local_box(coords), layout.core_box(coords), layout.domain_box
    if not local.size:
        return ["-"]
    width = len(_number(layout, [extent - 1 for extent in layout.global_shape]))
    with_halos = layout.sharding.halo_sizes is not None

    def shown(cell: MultiIndex) -> str:
        box = Box(cell, tuple([i + 1 for i in cell]))
        label = (_number(layout, cell) if domain.contains(box) else ".").rjust(width)
        if not with_halos:
            return label
        return f"({label})" if domain.contains(box) and not core.contains(box) else f" {label} "

    lines: Cell = []
    ranges = [range(start, stop) for start, stop in zip(local.starts, local.stops)]
    for row in product(*ranges[:-1]):
        if lines and len(row) > 1 and row[-1] == local.starts[-2]:
            lines.append("")
        cells = [(*row, last) for last in ranges[-1]] if ranges else [()]
        lines.append(("" if with_halos else " ").join(map(shown, cells)))
    return lines


def _number(layout: Layout, cell: Sequence[int]) -> str:
    """``23`` for the third cell of the second row; ``2.13`` if an extent has two digits."""
    glue = "" if max(layout.global_shape, default=0) < 10 else "."
    return glue.join(str(i + 1) for i in cell) or "x"
