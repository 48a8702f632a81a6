"""Updates of halos that arrays of one layout need again and again: from the third on by a plan, which the grid keeps.

An update by `update_halo` agrees on the arrays and sends messages; a plan's takes a word and the bytes, and agrees here
in one meeting.  A plan reserves memory, so the first updates, which may be the last, make none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from threading import get_ident
from typing import NamedTuple

import numpy as np

from spmd_grid.exchange.paths import chosen_path
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.plan.halo_plan import HaloPlan
from spmd_grid.halo.plan.specification import Specification
from spmd_grid.halo.update_halo import update_halo
from spmd_grid.ops.calls.compare import AgreePlan

__all__ = ["refresh"]

_WITHOUT_PLAN = 2  # updates of a layout before it gets a plan
_MOST_KEPT = 8  # layouts, for each group of axes

_agree = AgreePlan("update_halo")


class _Planned(NamedTuple):
    compare: Callable[[], object]
    plan: HaloPlan


class _Kept(NamedTuple):
    """The plans that a grid keeps, and the numbers of updates without one, by the axes that they are collective over.

    Processes that share a plan make all updates over its axes in the same order, so they make and drop it together.
    """

    owner: ProcessGrid
    by_axes: dict[tuple[int, ...], dict[tuple[Layout, np.dtype, str], int | _Planned]]


def refresh(local: np.ndarray, grid: ProcessGrid, layout: Layout) -> None:
    """Refresh the halos of a local array, as a part of an operation that has gone through the gate.

    Collective over the axes that split.  Raises MismatchError where processes pass arrays of other layouts.
    """
    sharding, process = layout.sharding, grid.process
    if get_ident() != process.gate.owner:
        _update(local, grid, layout)
        return
    kept: _Kept | None = grid.updates
    if kept is None:
        grid.check_use("update_halo")
        # Plans keep their grid alive: an equal grid of their own, so that the caller's is not kept.
        kept = grid.updates = _Kept(ProcessGrid(grid.grid, grid._world), {})
    axes = _axes_of(sharding)
    updates = kept.by_axes.setdefault(axes, {})
    key = layout, local.dtype, chosen_path()
    found = updates.pop(key, 0)  # put in again as the one used last
    if type(found) is int:
        if len(updates) >= _MOST_KEPT:
            del updates[next(iter(updates))]
        if found < _WITHOUT_PLAN:
            updates[key] = found + 1
            _update(local, grid, layout)
            return
        found = _planned(kept.owner, axes, layout, local.dtype)
    updates[key] = found
    found.compare()  # type: ignore[union-attr]  # it is planned
    found.plan.update((local,), False)  # type: ignore[union-attr]


def _planned(owner: ProcessGrid, axes: tuple[int, ...], layout: Layout, dtype: np.dtype) -> _Planned:
    compare = _agree.comparison(owner, axes, f"by a plan for {layout} of dtype {dtype}")
    return _Planned(compare, HaloPlan(owner, axes, Specification(layout.sharding, layout.global_shape, dtype)))


def _update(local: np.ndarray, grid: ProcessGrid, layout: Layout) -> None:
    sharding = layout.sharding
    update_halo.refresh(
        local,
        grid,
        sharding.split_axes,
        sharding.halo_sizes,
        False,
        layout.global_shape,
        sharding.blocks,
        sharding.sharded_dims_offsets,
    )


@lru_cache(1024)
def _axes_of(sharding: Sharding) -> tuple[int, ...]:
    """The axes over which a halo's neighbours extend."""
    return tuple(sorted(chain(*sharding.split_axes)))
