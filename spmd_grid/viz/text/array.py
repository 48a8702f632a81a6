"""The global array as text: cut into blocks, each with the devices that hold it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from math import prod

from spmd_grid.formatting import count_text
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.geometry.cuts import Part
from spmd_grid.viz.holdings import (
    COPIES,
    PARTIAL,
    holders_of,
    idle_devices,
    n_blocks,
    partial_note,
    shown_parts,
    window_of,
)
from spmd_grid.viz.text.lines import ARROW, Cell, ruled, widths_of, with_arrows

__all__ = ["array_text"]

_MOST_PARTS = 8  # by dimension
_MOST_PLANES = 4
_MOST_LISTED = 3  # holders of a block; more are shown as a pattern
_GAP = ["..."]
_ALONE = Part((), 0, 1)  # the only part of a dimension that an array does not have


def array_text(layout: Layout) -> str:
    """The global array cut into blocks, each with the devices that hold it, beside the ranges of its cells.

    Local.  Dimensions of more than 8 parts are clipped; arrays of more than two dimensions are drawn plane by plane.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.sharding import Sharding
    >>> print(array_text(Layout(Sharding(Grid((2, 3)), [[1]]), (7,))))
    tensor axis 0
    ----------->
       0:3     3:6     6:7
    +-------+-------+-------+
    | (0,0) | (0,1) | (0,2) |
    | (1,0) | (1,1) | (1,2) |
    +-------+-------+-------+
    """
    parts = shown_parts(layout, _MOST_PARTS)
    lines = []
    planes = list(islice(product(*([part for part in row if part] for row in parts[:-2])), _MOST_PLANES + 1))
    for plane in planes[:_MOST_PLANES]:
        if plane:
            lines += ["", f"[{', '.join([*map(_range, plane), ':', ':'])}]"]
        lines += _plane(layout, plane, parts)
    n_planes = prod(len(row) for row in parts[:-2])
    notes = _notes(layout, any(None in row for row in parts) or n_planes > _MOST_PLANES)
    return "\n".join(line.rstrip() for line in [*lines, *([""] if notes and lines else []), *notes]).strip("\n")


def _plane(layout: Layout, plane: Sequence[Part], parts: Sequence[Sequence[Part | None]]) -> list[str]:
    """The last two dimensions of the array, if it has them; ``plane``: the parts of the others."""
    down, across = layout.ndim - 2, layout.ndim - 1
    rows = parts[down] if down >= 0 else [_ALONE]
    columns = parts[across] if across >= 0 else [_ALONE]
    if not rows or not columns:
        return []

    def cell(row: Part | None, column: Part | None) -> Cell:
        if row is None or column is None:
            return _GAP
        return _holder_lines(layout, [*plane, *(row, column)[max(2 - layout.ndim, 0) :]])

    cells = [[cell(row, column) for column in columns] for row in rows]
    heads = _headings(layout, across, columns) if across >= 0 else []
    widths = [max(width, *(len(labels[n]) for labels in heads), 0) for n, width in enumerate(widths_of(cells))]
    sides = [_justified(labels) for labels in _headings(layout, down, rows)] if down >= 0 else []
    margin = sum(len(labels[0]) + 1 for labels in sides)
    body = []
    for row, line in ruled(cells, widths):
        side = "" if row is None else "".join(labels[row] + " " for labels in sides)
        body.append(side.ljust(margin) + line)
    if down >= 0:
        body = with_arrows(body, [(f"tensor axis {down}", len(body))])
    if across < 0:
        return body
    top = [f"tensor axis {across}", ARROW]
    top += ["".join(f" {label.center(width + 2)}" for label, width in zip(labels, widths)) for labels in heads]
    return [" " * margin + line for line in top] + body


def _justified(labels: Sequence[str]) -> list[str]:
    return [label.rjust(max(map(len, labels))) for label in labels]


def _headings(layout: Layout, dim: int, parts: Sequence[Part | None]) -> list[list[str]]:
    """Labels of ``parts``: their ranges, and in parentheses the ranges with halos."""
    labels = [[_range(part) if part else "" for part in parts]]
    if any(layout.sharding.halo_of(dim)):
        labels.append(["({}:{})".format(*window_of(layout, dim, part)) if part else "" for part in parts])
    return labels


def _range(part: Part) -> str:
    return f"{part.start}:{part.stop}"


def _holder_lines(layout: Layout, parts: Sequence[Part]) -> Cell:
    holders = holders_of(layout, parts)
    if holders.is_partial or holders.size > _MOST_LISTED:
        return [str(holders)]
    return [f"({','.join(map(str, coords))})" for coords in holders.coords()]


def _notes(layout: Layout, clipped: bool) -> list[str]:
    """The notes below a drawing."""
    sharding, notes = layout.sharding, []
    if clipped:
        notes.append(
            f"Drawn in part: {count_text(n_blocks(layout), 'block')} on {count_text(layout.grid.size, 'device')}."
        )
    copies = prod(layout.grid.shape[axis] for axis in sharding.replicated_axes)
    if sharding.replicated_axes and (sharding.partial_axes or copies > _MOST_LISTED):
        notes.append(f"{COPIES}: every device along this grid axis holds a copy.")
    if sharding.partial_axes:
        notes.append(f"{PARTIAL}: {partial_note(layout)}.")
    if sharding.halo_sizes:
        notes.append("In parentheses: with halos, as far as they lie in the array.")
    n_idle, patterns = idle_devices(layout)
    if n_idle:
        listed = " ".join(map(str, patterns[:_MOST_PARTS])) + (" ..." if len(patterns) > _MOST_PARTS else "")
        notes.append(f"Without cells: {n_idle:,} of {layout.grid.size:,} devices{f', {listed}' if patterns else ''}.")
    return notes
