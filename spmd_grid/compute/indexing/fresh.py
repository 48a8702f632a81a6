"""Fresh halos: slices of which every device has its cells in core and halos, and takes them from there.

The halos of an array are *fresh* while they equal the cells that they are copies of.  Every process decides alike
whether they are, by counting writes; so a chain of shifted slices costs one exchange per version of the array.

    a, 7 cells on 3 devices, halos of 1 (h)     0 1 2 h | h 3 4 5 h | h 6
    a[1:], 6 cells by the block rule              1 2       3 4         5 6    device 2 has cell 5 in its halo: no
                                                                               message
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.compute.indexing.index import Selection
from spmd_grid.compute.splits import ArrayOnGrid, block_starts
from spmd_grid.errors import MismatchError
from spmd_grid.grid.layout import Layout
from spmd_grid.halo.update_halo import update_halo
from spmd_grid.ops.calls.compare import AgreePlan
from spmd_grid.typing import MultiIndex

__all__ = ["cells_in_local", "is_ready", "refresh", "refresh_quickly"]

_agree = AgreePlan("getitem")


def cells_in_local(
    layout: Layout, result: Layout, selection: Selection, positions: dict[int, int], coords: MultiIndex
) -> tuple[slice, ...] | None:
    """The cells of this device's block of the result in its local array; None if any device lacks some of its own.

    Plans only.  ``positions``: the dimension of the result that each dimension of the source becomes.
    """
    sharding = layout.sharding
    for dim, extent in enumerate(layout.global_shape):
        starts, (low, high) = block_starts(sharding, dim, extent), sharding.halo_of(dim)
        parts = len(starts) - 1
        wanted = (0, 1) * parts  # where an integer is the index, all devices need its cell
        if dim in positions:
            at = positions[dim]
            kept = block_starts(result.sharding, at, result.global_shape[at])
            wanted = tuple([bound for pair in zip(kept, kept[1:]) for bound in pair])
        for part in range(parts):
            first, end = _range(selection, dim, wanted[2 * part], wanted[2 * part + 1])
            if first < end and not starts[part] - low <= first < end <= starts[part + 1] + high:
                return None
    return _own_cells(layout, result, selection, positions, coords)


def _own_cells(
    layout: Layout, result: Layout, selection: Selection, positions: dict[int, int], coords: MultiIndex
) -> tuple[slice, ...]:
    origin, box = layout.local_box(coords).starts, result.core_box(coords)
    cells = []
    for dim, start in enumerate(origin):
        at = positions.get(dim)
        first, end = _range(selection, dim, *((0, 1) if at is None else (box.starts[at], box.stops[at])))
        cells.append(slice(first - start, end - start, selection.steps[dim]) if first < end else slice(0, 0))
    return tuple(cells)


def _range(selection: Selection, dim: int, first: int, end: int) -> tuple[int, int]:
    """The cells [start, stop) of the source that hold cells [first, end) of the result."""
    if first == end:
        return 0, 0
    if dim in selection.flipped:
        first, end = selection.counts[dim] - end, selection.counts[dim] - first
    start, step = selection.starts[dim], selection.steps[dim]
    return start + first * step, start + (end - 1) * step + 1


def is_ready(a: ArrayOnGrid) -> bool:
    """Whether the halos of ``a`` can be read without a message: they are fresh, and are not to be verified.  Local."""
    if not a.halos_are_fresh:
        return False
    recorder = a.grid.process.recorder
    return (recorder is None or not recorder.check) and a.fresh_halos_hold()


def refresh(a: ArrayOnGrid) -> None:
    """Update the halos of ``a`` if they are not fresh.  Collective, within an operation.

    In checking mode processes first compare whether they are, and verify halos that are taken as fresh.  In other
    modes, only the process that has written cells of fresh halos without marking it knows.  It raises MismatchError,
    which cuts off: every later operation is refused on all processes.
    """
    recorder = a.grid.process.recorder
    if recorder is not None and recorder.check:
        _check(a)
    if not a.halos_are_fresh:
        a.refresh_halos()
    elif not a.fresh_halos_hold():
        error = _unmarked(a)
        error.cuts_off = True
        raise error


def refresh_quickly(a: Any) -> None:
    """Update the halos of ``a``, which are not fresh, in an operation of its own.  Collective."""
    plan = a._refresh
    if plan is not None and a._grid.process.recorder is None and plan.run_compiled(a._local):
        a._refreshed = a._version
    else:
        a.grid.process.gate.run("getitem", refresh, a)


def _unmarked(a: ArrayOnGrid) -> MismatchError:
    return MismatchError(
        f"getitem: on process {a.grid.rank} cells of halos, or cells that halos are copies of, have changed since halos"
        " were filled: the array was written through .core or .local without mark_dirty(); every process must call it"
        " after such writes"
    )


def _check(a: ArrayOnGrid) -> None:
    grid = a.grid
    axes = tuple(range(grid.ndim))
    _agree.agree(grid, axes, f"of an array with {'fresh' if a.halos_are_fresh else 'stale'} halos")
    if not a.halos_are_fresh:
        return
    cells = np.array(a.stored)
    update_halo.refresh(cells, grid, a.layout, False)
    holds = cells.tobytes() == a.stored.tobytes() and a.fresh_halos_hold()
    _agree.agree(grid, axes, "of an array whose halos were compared", None if holds else _unmarked(a))
