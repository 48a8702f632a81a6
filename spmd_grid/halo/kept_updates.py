"""Repeated halo updates of arrays of one layout: from the third on by a plan, which the grid keeps.

An update by `update_halo` agrees on the arrays and sends messages; an update by a plan costs a word and the bytes, and
here one meeting to agree.  A plan reserves memory, so the first updates, which may be the last, make none.  After a few
more, both the meeting and the update are compiled functions, for arrays that an update by the plan has seen before.
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
from spmd_grid.halo.plan.specification import HaloSpecification
from spmd_grid.halo.update_halo import update_halo
from spmd_grid.halo.updates import updates_of
from spmd_grid.ops.calls.compare import AgreePlan

__all__ = ["KeptUpdate", "refresh"]

_WITHOUT_PLAN = 2  # updates of a layout before it gets a plan
_WITHOUT_COMPILED = 4  # updates by a plan before they are compiled functions
_MOST_KEPT = 8  # layouts, for each group of axes

_agree = AgreePlan("update_halo")


class KeptUpdate:
    """A plan that a grid keeps, and its updates as compiled functions, where there are such."""

    __slots__ = ("_by_compiled", "_compare", "_identity", "_path", "_plan", "_turns", "is_kept")

    def __init__(self, owner: ProcessGrid, axes: tuple[int, ...], layout: Layout, dtype: np.dtype):
        self._identity = owner, axes, f"by a plan for {layout} of dtype {dtype}"
        self._compare = _agree.comparison(*self._identity)
        self._plan = HaloPlan(owner, axes, HaloSpecification(layout.sharding, layout.global_shape, dtype))
        self._path, self._turns = chosen_path(), 0
        self._by_compiled: tuple[Callable[..., object], Callable[..., None]] | None = None
        self.is_kept = True

    def run(self, local: np.ndarray) -> None:
        """Refresh halos, as a part of an operation.  Collective."""
        self._turns += 1
        if self._turns == _WITHOUT_COMPILED:
            compare = _agree.quick_comparison(*self._identity, "getitem")
            if compare is not None:
                self._by_compiled = compare, updates_of(self._plan)
        else:
            self._compare()
        self._plan.update((local,), False)

    def run_compiled(self, local: np.ndarray) -> bool:
        """Refresh halos by two compiled functions, as an operation by itself; False where there are none.

        Collective: processes may refresh by this function, and others by `run`.
        """
        functions, gate = self._by_compiled, self._plan.gate
        if functions is None or not self.is_kept or get_ident() != gate.owner or chosen_path() != self._path:
            return False
        compare, update = functions
        try:
            compare()
            update(local)
        except BaseException as error:  # between both functions as well
            gate.fail("getitem", True, error)
            raise
        return True


class _Kept(NamedTuple):
    """The plans that a grid keeps, and the numbers of updates without one, by the axes that they are collective over.

    Processes that share a plan make all updates over its axes in the same order, so they make and drop it together: the
    one made first, since only some may count updates by compiled functions.
    """

    owner: ProcessGrid
    by_axes: dict[tuple[int, ...], dict[tuple[Layout, np.dtype, str], int | KeptUpdate]]


def refresh(local: np.ndarray, grid: ProcessGrid, layout: Layout) -> KeptUpdate | None:
    """Refresh the halos of a local array, as a part of an operation that has gone through the gate.

    Collective over the axes that split.  The plan by which it has been done, if there is one.  Raises MismatchError
    where processes pass arrays of other layouts.
    """
    sharding, process = layout.sharding, grid.process
    if get_ident() != process.gate.owner:
        update_halo.refresh(local, grid, layout, False)
        return None
    kept: _Kept | None = grid.updates
    if kept is None:
        grid.check_use("update_halo")
        # Plans keep their grid alive: an equal grid of their own, so that the caller's is not kept.
        kept = grid.updates = _Kept(grid.like(grid.grid, "update_halo"), {})
    axes = _axes_of(sharding)
    updates = kept.by_axes.setdefault(axes, {})
    key = layout, local.dtype, chosen_path()
    found = updates.get(key, 0)
    if type(found) is int:
        if len(updates) >= _MOST_KEPT and key not in updates:
            dropped = updates.pop(next(iter(updates)))
            if type(dropped) is KeptUpdate:
                dropped.is_kept = False
        if found < _WITHOUT_PLAN:
            updates[key] = found + 1
            update_halo.refresh(local, grid, layout, False)
            return None
        found = updates[key] = KeptUpdate(kept.owner, axes, layout, local.dtype)
    found.run(local)  # type: ignore[union-attr]  # it is planned
    return found  # type: ignore[return-value]


@lru_cache(1024)
def _axes_of(sharding: Sharding) -> tuple[int, ...]:
    """The axes over which a halo's neighbours extend."""
    return tuple(sorted(chain(*sharding.split_axes)))
