"""Strategy "basis": a chain of named movements, in a written order, for any pair of layouts.

Each step is the first that the detectors find, asked in turn.  Free axes cut before anything is sent, axes that can
move to their dimension move, axes in the wrong order are swapped, and axes in the way are gathered, last:

    [[0],[1]]  all_gather 1      [[3, 2],[],[0, 1]]  all_to_all 1
    [[0],[]]   all_to_all 0      [[3, 2],[1],[0]]    all_to_all 2
    [[],[0]]   all_slice 1       [[3],[1, 2],[0]]    all_gather 3
    [[1],[0]]                    [[],[1, 2],[0]]     all_to_all 0
                                 [[0],[1, 2],[]]

In a chain no axis is swapped into another dimension.

A chain always reaches the target.  As long as axes have to leave their dimension, they can at least be gathered; once
none has to, missing axes are free and can be sliced, and axes in the wrong order can be swapped.  And it ends: each
step lowers the number of axes that have to leave (an axis that moves along does so at once), or else of those that are
missing, or else of those that are in the wrong order.
"""

from __future__ import annotations

from itertools import chain

from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.planner.moves import DETECTORS
from spmd_grid.reshard.planner.steps import EXCHANGE, MARK_PARTIAL, SLICE, SWAP, Step
from spmd_grid.reshard.planner.waypoint import Waypoint

__all__ = ["basis_steps"]


def basis_steps(source: Layout, target: Layout) -> tuple[Step, ...]:
    """The chain from ``source`` to ``target``, layouts of one global shape; empty where nothing has to be done.

    Plans only.  It begins with an exchange where the source has explicit offsets, which do not nest, and ends with one
    where the target has offsets, other blocks or halos, or is on another grid.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.sharding import Sharding
    >>> minor_only, both = (Layout(Sharding(Grid((2, 3)), split), (7,)) for split in ([[1]], [[0, 1]]))
    >>> for step in basis_steps(both, minor_only): print(step)
    swap over [0, 1]: [[0, 1]] on 2x3 -> [[1, 0]] on 2x3
    all_gather over [0], on 0: [[1, 0]] on 2x3 -> [[1]] on 2x3
    """
    way = Waypoint(source, target)
    steps: list[Step] = []
    if way.has_nothing_to_do:
        return ()
    if not way.is_on_one_grid:
        if source.sharding.partial_axes:
            steps.append(way.all_reduce(source.sharding.partial_axes))
            way = Waypoint(steps[-1].target, target)
        return (*steps, way.exchange())
    if way.blocks is None and not _only_removes(way):
        steps.append(way.exchange_for_policy())
        way = Waypoint(steps[-1].target, target)
    while (step := next(chain.from_iterable(detector(way) for detector in DETECTORS), None)) is not None:
        steps.append(step)
        way = Waypoint(step.target, target)
    if not way.has_nothing_to_do:
        steps.append(way.exchange())
    return _merged(steps)


def _only_removes(way: Waypoint) -> bool:
    """Whether whole lists have to be removed, and nothing else changes: then explicit offsets may stay."""
    here, there = way.layout.sharding, way.target.sharding
    return all(
        not way.want[dim] or (way.want[dim] == way.have[dim] and here.offsets_of(dim) == there.offsets_of(dim))
        for dim in way.dims
    )


def _merged(steps: list[Step]) -> tuple[Step, ...]:
    """The same in fewer steps: an exchange also does the work of a slice or a swap beside it, without sending more."""
    merged: list[Step] = []
    for step in steps:
        merged.append(step)
        while len(merged) > 1 and _can_merge(*merged[-2:]):
            second = merged.pop()
            merged[-1] = Step(EXCHANGE, merged[-1].source, second.target)
    return tuple(merged)


def _can_merge(first: Step, second: Step) -> bool:
    """Whether one exchange can do the work of two steps."""
    return EXCHANGE in (first.kind, second.kind) and all(
        step.kind in (EXCHANGE, SLICE, SWAP) or (step.kind == MARK_PARTIAL and not step.source.sharding.partial_axes)
        for step in (first, second)
    )
