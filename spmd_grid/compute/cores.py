"""A device's own cells of an array in a given sharding, and arrays that are whole on every process."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.compute.course.apply import sharded_like
from spmd_grid.compute.splits import ArrayOnGrid, is_sharded, plain_sharding
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.reshard.execute import reshard_local

__all__ = ["as_plain", "core_in", "cut_by_counts", "is_cut", "member_rows", "replicated"]


def core_in(a: ArrayOnGrid, sharding: Sharding) -> np.ndarray:
    """This device's cells of ``a`` in ``sharding``, which has no halos.

    Collective over a's grid, if cells move; a part of an operation that has passed the gate.
    """
    if plain_sharding(a.sharding) == sharding and not a.sharding.partial_axes:
        return a.stored_core
    local = reshard_local(a.stored, a.sharding, sharding, a.grid, a.shape)
    assert isinstance(local, np.ndarray)  # this process is on the grid
    return local


def is_cut(a: ArrayOnGrid, dim: int = 0) -> bool:
    """Whether several devices share the cells along a dimension."""
    return any(n > 1 for n in a.sharding.sizes_of(dim))


def member_rows(row: np.ndarray, grid: ProcessGrid, axes: tuple[int, ...]) -> np.ndarray:
    """The small arrays of all members of the group over ``axes``, as rows.  Collective; behind the gate."""
    return all_gather.run_in_gate(np.ascontiguousarray(row)[None], grid, axes, (0, None)) if axes else row[None]


def cut_by_counts(a: ArrayOnGrid, block: np.ndarray, axes: tuple[int, ...]) -> tuple[Any, int]:
    """The array whose blocks along dimension 0 are those of the members of ``axes``, and where this one starts.

    Collective over ``axes``; behind the gate.  The numbers of cells are gathered; no cell moves.
    """
    counts = member_rows(np.array([len(block)]), a.grid, axes)[:, 0]
    starts = [0, *np.cumsum(counts).tolist()]
    sharding = Sharding(a.grid.grid, [axes], sharded_dims_offsets=[starts]) if axes else Sharding(a.grid.grid, [])
    made = sharded_like(a, block, Layout(sharding, (starts[-1], *block.shape[1:])), (a.stored,))
    index = 0
    for axis in axes:
        index = index * a.grid.shape[axis] + a.grid.own_coords[axis]
    return made, starts[index]


def replicated(a: ArrayOnGrid, array: np.ndarray) -> Any:
    """A plain array that all processes have, as an array on a's grid that no axis cuts.  Local."""
    return sharded_like(a, array, Layout(Sharding(a.grid.grid, []), array.shape), (array,))


def as_plain(name: str, x: Any) -> Any:
    """``x``, or its cells if it is a sharded array that is whole on every process.  Local.

    A spread one is refused by NotImplementedError, as by a rule.
    """
    if not is_sharded(x):
        return x
    if any(is_cut(x, d) for d in range(x.ndim)) or x.sharding.partial_axes:
        raise NotImplementedError(f"{name} with a list that is spread over processes")
    return x.stored_core
