"""Strategy "direct": one exchange wherever one is enough.

A partial value takes two to be combined with the fewest bytes: one of the devices that will hold a cell gets each other
contribution once and combines them, then the cell is copied to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.planner.steps import ALL_GATHER, ALL_REDUCE, EXCHANGE, REDUCE_SCATTER, Step

__all__ = ["direct_steps", "is_identity", "run_steps_of", "spread_over"]


def direct_steps(source: Layout, target: Layout) -> tuple[Step, ...]:
    """The exchanges that lead from ``source`` to ``target``: one, or two for a partial value.  Plans only.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> grid = Grid((2, 2))
    >>> source = Layout(Sharding(grid, [[0]], partial_axes=[1]), (6, 4))
    >>> for step in direct_steps(source, Layout(Sharding(grid, [[0]]), (6, 4))): print(step)
    exchange: [[0]] on 2x2, partial sum over [1] -> [[0],[1]] on 2x2
    exchange: [[0],[1]] on 2x2 -> [[0]] on 2x2
    """
    if is_identity(source, target):
        return ()
    stops = [source, target]
    if _combines(source.sharding, target.sharding):
        combined = _combined(source, target)
        if combined != target:
            stops.insert(1, combined)
    return tuple(Step(EXCHANGE, before, after) for before, after in zip(stops, stops[1:]))


def run_steps_of(step: Step) -> tuple[Step, ...]:
    """The steps that a step runs as: an all_reduce is a reduce_scatter and an all_gather, others are one step.

    Local.  That is Rabenseifner's algorithm.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> grid = Grid((4,))
    >>> reduced = Layout(Sharding(grid, [[]]), (8,))
    >>> for part in run_steps_of(Step(ALL_REDUCE, Layout(Sharding(grid, [[]], partial_axes=[0]), (8,)), reduced, (0,))):
    ...     print(part)
    reduce_scatter over [0], on 0: [] on 4, partial sum over [0] -> [[0]] on 4
    all_gather over [0], on 0: [[0]] on 4 -> [] on 4
    """
    spread = spread_over(step.target, step.grid_axes) if step.kind == ALL_REDUCE else step.target
    if spread == step.target:
        return (step,)
    old, new = step.target.sharding, spread.sharding
    dims = tuple([dim for dim in range(step.target.ndim) if old.axes_of(dim) != new.axes_of(dim)])
    axes = step.grid_axes
    return Step(REDUCE_SCATTER, step.source, spread, axes, dims), Step(ALL_GATHER, spread, step.target, axes, dims)


def is_identity(source: Layout, target: Layout) -> bool:
    """Whether every process already has its local array of the target.  Local."""
    return source == target and source.sharding.halo_sizes is None


def _combines(source: Sharding, target: Sharding) -> bool:
    """Whether contributions of this partial kind are combined, rather than only moved."""
    if source.partial_axes and target.partial_axes:
        return source.partial_kind != target.partial_kind
    return prod(source.grid.shape[axis] for axis in source.partial_axes) > 1


def _combined(source: Layout, target: Layout) -> Layout:
    """The layout that combines each cell on a device that will hold it, if possible one with a contribution.

    So the axes that are free in the target follow those that cut the same dimension of the source.
    """
    grid = target.grid
    free = [axis for axis in range(grid.ndim) if grid.shape[axis] > 1 and not _splits(target.sharding, axis)]
    combined = spread_over(target, target.sharding.partial_axes)  # partial no more
    if grid.is_like(source.grid):
        for dim in range(source.ndim):
            along = [axis for axis in source.sharding.axes_of(dim) if axis in free]
            combined = spread_over(combined, along, dim)
    return spread_over(combined, [axis for axis in free if not _splits(combined.sharding, axis)])


def _splits(sharding: Sharding, axis: int) -> bool:
    return any(axis in axes for axes in sharding.split_axes)


def spread_over(layout: Layout, axes: Sequence[int], dim: int | None = None) -> Layout:
    """``layout`` without halos, a dimension of it cut further by those of ``axes`` that do not split it already.

    Local.  The dimension is ``dim``, or the one with the largest blocks; where offsets are explicit, none is cut.  A
    value that is partial along other axes stays so.
    """
    old = layout.sharding
    split = [old.axes_of(d) for d in range(layout.ndim)]
    if layout.ndim and old.sharded_dims_offsets is None:
        extents = layout.core_box((0,) * layout.grid.ndim).shape
        dim = extents.index(max(extents)) if dim is None else dim
        split[dim] += tuple([axis for axis in axes if not _splits(old, axis)])
    sharding = Sharding(
        old.grid,
        tuple(split),
        blocks=old.blocks,
        sharded_dims_offsets=old.sharded_dims_offsets,
        partial_axes=tuple([axis for axis in old.partial_axes if axis not in axes]),
        partial_kind=old.partial_kind,
    )
    return Layout(sharding, layout.global_shape)
