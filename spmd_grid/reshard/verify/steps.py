"""Check a plan's steps before they first run: a wrong plan is an internal error, never wrong data.

The *definition* of a step's operation says what a device holds after it: an all_gather the blocks of a group one after
another, a slice the device's own part of its block.  That must be what the step's target layout says.  Steps that move
boxes from process to process are checked by `check_exchange`.

A process checks its own device only, so a check costs the same however many devices there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from spmd_grid.errors import AxisError, PlanError, ReductionError, ShapeError
from spmd_grid.grid.blocks import block_interval
from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.groups import group_members
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.planner.steps import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    EXCHANGE,
    MARK_PARTIAL,
    REDUCE_SCATTER,
    SLICE,
    SWAP,
    Step,
)
from spmd_grid.reshard.verify.exchanges import check_exchange
from spmd_grid.typing import MultiIndex

__all__ = ["check_plan_steps", "check_step"]

# By kind: the number of tensor dimensions that a step is about, the index of the one that it cuts, and of the one that
# it joins; None for none.
_RESULTS = {
    SLICE: (1, 0, None),
    REDUCE_SCATTER: (1, 0, None),
    ALL_GATHER: (1, None, 0),
    ALL_TO_ALL: (2, 0, 1),
    ALL_REDUCE: (0, None, None),
    BROADCAST: (0, None, None),
    MARK_PARTIAL: (0, None, None),
}
# Kinds that move boxes from process to process, and may fill halos.
_BOXES = ALL_TO_ALL, SWAP, EXCHANGE


# -- plans -------------------------------------------------------------------------------------------------------------


def check_plan_steps(
    steps: Sequence[Step],
    source: Layout,
    target: Layout,
    process: int | None = None,
    moves: Sequence[Redistribution] | None = None,
) -> None:
    """Check that ``steps`` lead from ``source`` to ``target``, and each of them at the device of ``process``.

    Plans only.  ``process``: None for all processes.  ``moves``: the exchanges by which the steps will run, as
    `check_step` takes them.  Raises PlanError.

    >>> from spmd_grid.grid.sharding import Sharding
    >>> rows, columns = (Layout(Sharding(Grid((2,)), split), (4, 4)) for split in ([[0]], [[], [0]]))
    >>> check_plan_steps([Step(ALL_TO_ALL, rows, columns, (0,), (1, 0))], rows, columns)
    >>> check_plan_steps([Step(ALL_GATHER, rows, columns, (0,), (0,))], rows, columns)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    spmd_grid.errors.PlanError: all_gather over [0], on 0: [[0]] on 2 -> [[],[0]] on 2 gives device (0,) the cells
    [0:4, 0:4]; its block of the step's target is [0:4, 0:2]
    """
    at = source
    for number, step in enumerate(steps):
        if step.source != at:
            raise PlanError(f"step {number}, {step}, begins at {step.source}; the plan is at {at}")
        at = step.target
        if number < len(steps) - 1 and at.sharding.halo_sizes:
            raise PlanError(f"step {number}, {step}, fills halos, which no later step reads")
    if steps and at != target:
        raise PlanError(f"the plan ends at {at}; it must end at {target}")
    for step, moved in zip(steps, moves or (None,) * len(steps), strict=True):
        for each in _processes(step.source.grid, step.target.grid, process):
            check_step(step, each, moved)
    for each in () if steps else _processes(source.grid, target.grid, process):
        _check_nothing_to_do(source, target, each)


def _processes(source: Grid, target: Grid, process: int | None) -> list[int]:
    if process is None:
        return sorted({grid.process(device) for grid in (source, target) for device in range(grid.size)})
    return [process]


def _check_nothing_to_do(source: Layout, target: Layout, process: int) -> None:
    """Check that the local array of the source is that of the target."""
    ends = [layout.grid.coords_of_process(process) for layout in (source, target)]
    boxes = [None if coords is None else layout.local_box(coords) for layout, coords in zip((source, target), ends)]
    if boxes[0] != boxes[1] or _partial(source) != _partial(target) or target.sharding.halo_sizes:
        raise PlanError(f"a plan without steps from {source} to {target}; process {process} has something to do")


def _partial(layout: Layout) -> tuple[tuple[int, ...], str]:
    return layout.sharding.partial_axes, layout.sharding.partial_kind


# -- steps -------------------------------------------------------------------------------------------------------------


def check_step(step: Step, process: int, moved: Redistribution | None = None) -> None:
    """Check ``step`` at the device of ``process``; nothing if it takes no part.

    Plans only.  Operations that cut do so by the block rule of the step's target.  ``moved``: the exchange of boxes by
    which the step will run; None for the usual exchange, or for a native collective.  Raises PlanError.
    """
    if step.kind != EXCHANGE:
        _check_form(step)
    coords = step.target.grid.coords_of_process(process)
    if step.kind in _RESULTS and coords is not None:
        _check_result(step, coords)
    if moved is None and step.kind in _BOXES:
        moved = _usual_exchange(step)
    if moved is None:
        return
    if (moved.source, moved.target) != (step.source, step.target):
        raise PlanError(f"{step} would run as the exchange {moved.source} -> {moved.target}")
    check_exchange(moved, process)


def _usual_exchange(step: Step) -> Redistribution:
    """The exchange of boxes by which a step runs."""
    try:
        return Redistribution(step.source, step.target)
    except (ShapeError, ReductionError) as error:
        raise PlanError(f"{step}: {error}") from None


def _check_form(step: Step) -> None:
    """Check that a step's grids, axes, dimensions and partial sums are those of its kind."""
    source, target, axes = step.source.sharding, step.target.sharding, set(step.grid_axes)
    if step.kind == BROADCAST:
        if source.grid.size != 1:
            raise PlanError(f"{step}: a broadcast begins on a grid of one device")
    elif (source.grid.shape, source.grid.ranks) != (target.grid.shape, target.grid.ranks):
        raise PlanError(f"{step} moves between two grids; only exchanges and broadcasts do")
    if step.source.global_shape != step.target.global_shape:
        shapes = f"{step.source.global_shape} to {step.target.global_shape}"
        raise PlanError(f"{step} goes from global shape {shapes}; they must be equal")
    try:
        source.grid.axes(step.grid_axes)
    except AxisError as error:
        raise PlanError(f"{step}: {error}") from None
    n_dims = _RESULTS[step.kind][0] if step.kind in _RESULTS else len(step.dims)
    if not n_dims == len(step.dims) == len({*step.dims} & {*range(step.source.ndim)}):
        raise PlanError(f"{step} is about {step.dims}; it takes {n_dims} of {step.source.ndim} dimensions")
    if target.halo_sizes and step.kind not in (*_BOXES, SLICE):
        raise PlanError(f"{step} fills halos; only slices and exchanges of boxes do")
    before, after, allowed = {*source.partial_axes}, {*target.partial_axes}, True
    if step.kind in (ALL_REDUCE, REDUCE_SCATTER):
        allowed = axes <= before
        before -= axes
    elif step.kind == MARK_PARTIAL:
        allowed = before <= after <= before | {*source.replicated_axes}
        before = after
    elif step.kind == BROADCAST:
        before.clear()  # one device has the only contribution
    kinds = {side.partial_kind for side in (source, target) if side.partial_axes}
    if not allowed or after != before or len(kinds) > 1:
        raise PlanError(f"{step}: partial results do not become what the step says")


def _check_result(step: Step, coords: MultiIndex) -> None:
    """Check that what the operation gives the device at ``coords`` is its block of the target."""
    _, cut, joined = _RESULTS[step.kind]
    root = (0,) * step.source.grid.ndim
    held = step.source.core_box(root if step.kind == BROADCAST else coords)
    block = step.target.core_box(coords)
    starts, stops = list(held.starts), list(held.stops)
    if joined is not None:
        dim = step.dims[joined]
        starts[dim], stops[dim] = _joined(step, coords, dim)
    if cut is not None:
        dim = step.dims[cut]
        starts[dim], stops[dim] = _own_part(step, coords, dim, held)
    result = Box(tuple(starts), tuple(stops))
    if result != block and not (block.is_empty and result.shape == block.shape):
        raise PlanError(f"{step} gives device {coords} the cells {result}; its block of the step's target is {block}")
    needed = step.target.local_box(coords).intersect(step.target.domain_box)
    if step.kind == SLICE and not held.contains(needed):
        raise PlanError(f"{step}: device {coords} needs the cells {needed}; it has {held}")


def _joined(step: Step, coords: MultiIndex, dim: int) -> tuple[int, int]:
    """The cells along ``dim`` of the blocks of the device's group, one after another.

    Blocks below a common prefix of coordinates are consecutive.  So where the group's axes are the last that cut the
    dimension, and cut no other, the cells are those from the first block to the last.
    """
    layout, grid = step.source, step.source.grid
    axes = [axis for axis in step.grid_axes if grid.shape[axis] > 1]
    cutting = [axis for axis in layout.sharding.axes_of(dim) if grid.shape[axis] > 1]
    others = {axis for d in range(layout.ndim) if d != dim for axis in layout.sharding.axes_of(d)}
    if cutting[len(cutting) - len(axes) :] == axes and others.isdisjoint(axes):
        first, last = list(coords), list(coords)
        for axis in axes:
            first[axis], last[axis] = 0, grid.shape[axis] - 1
        return layout.core_box(tuple(first)).starts[dim], layout.core_box(tuple(last)).stops[dim]
    own, start, stop = layout.core_box(coords), None, None
    for member in group_members(grid, coords, step.grid_axes):
        box = layout.core_box(grid.multi_index(member))
        low, high = box.starts[dim], box.stops[dim]
        if _without(box, dim) != _without(own, dim) or (low < high and stop is not None and low != stop):
            before = "" if stop is None else f", after cells up to {stop}"
            raise PlanError(
                f"{step} joins along dimension {dim} blocks that are not consecutive: the block {box} of device "
                f"{grid.multi_index(member)}{before}, for device {coords}, which has {own}"
            )
        if low < high:
            start, stop = low if start is None else start, high
    return (own.starts[dim], own.starts[dim]) if start is None or stop is None else (start, stop)


def _without(box: Box, dim: int) -> Box:
    """``box`` in all dimensions but one."""
    return Box(box.starts[:dim] + box.starts[dim + 1 :], box.stops[:dim] + box.stops[dim + 1 :])


def _own_part(step: Step, coords: MultiIndex, dim: int, held: Box) -> tuple[int, int]:
    """The cells along ``dim`` of the device's part, where its group cuts the cells that it holds."""
    target = step.target.sharding
    start, stop = held.starts[dim], held.stops[dim]
    if target.offsets_of(dim) is not None:  # cut where the offsets say, as far as there is something to cut
        own = tuple([coords[axis] for axis in target.axes_of(dim)])
        low, high = target.block(dim, step.target.global_shape[dim], own)
        low = min(max(low, start), stop)
        return low, max(low, min(high, stop))
    sizes = [target.grid.shape[axis] for axis in step.grid_axes]
    low, high = block_interval(stop - start, sizes, [coords[axis] for axis in step.grid_axes], target.blocks)
    return start + low, start + high
