"""Plans are checked by box arithmetic before they first run: a wrong plan is an internal error, never wrong data.

What a step brings to a device follows from the *definition* of its operation: the blocks of a group one after another,
the own part of the own block.  That must be what the step's target layout says the device holds.  Steps which move
boxes from process to process must write every cell that the device wants exactly once, from a process that has it.
Blocks come straight from the layouts here, not from the cuts by which exchanges are planned.

A process checks its own device, and the first and the last device of each grid: what a check costs does not depend on
how many devices there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from spmd_grid.errors import AxisError, PlanError, ReductionError, ShapeError
from spmd_grid.grid.blocks import block_interval
from spmd_grid.grid.box import Box, multi_index
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.groups import group_members
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.geometry.messages import Piece, Redistribution
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
from spmd_grid.typing import MultiIndex

__all__ = ["check_exchange", "check_plan_steps", "check_step", "covers_once"]

# By kind the number of tensor dimensions a step is about, and which of them is cut and which joined; None for neither.
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
# On grids up to this size both ends of a message are compared; the other end lists at most this many messages.
_COMPARED = 256


# -- plans -------------------------------------------------------------------------------------------------------------


def check_plan_steps(
    steps: Sequence[Step],
    source: Layout,
    target: Layout,
    process: int | None = None,
    moves: Sequence[Redistribution] | None = None,
) -> None:
    """Checks that ``steps`` lead from ``source`` to ``target``, and each of them at the device that ``process`` is.

    Plans only.  ``process``: None for all there are.  ``moves``: the exchanges by which the steps will run, as
    `check_step` takes them.  Raises PlanError.

    >>> from spmd_grid.grid.sharding import Sharding
    >>> rows, columns = (Layout(Sharding(Grid((2,)), split), (4, 4)) for split in ([[0]], [[], [0]]))
    >>> check_plan_steps([Step(ALL_TO_ALL, rows, columns, (0,), (1, 0))], rows, columns)
    >>> check_plan_steps([Step(ALL_GATHER, rows, columns, (0,), (0,))], rows, columns)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    spmd_grid.errors.PlanError: all_gather over [0], on 0: [[0]] on 2 -> [[],[0]] on 2 brings device (0,) the cells
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
    for step, moved in zip(steps, moves or [None] * len(steps), strict=True):
        for each in _processes(step.source.grid, step.target.grid, process):
            check_step(step, each, moved)
    for each in () if steps else _processes(source.grid, target.grid, process):
        _check_nothing_to_do(source, target, each)


def _processes(source: Grid, target: Grid, process: int | None) -> list[int]:
    if process is None:
        return sorted({grid.process(device) for grid in (source, target) for device in range(grid.size)})
    return [process]


def _check_nothing_to_do(source: Layout, target: Layout, process: int) -> None:
    """That the local array of the source is that of the target."""
    ends = [_coords(layout.grid, process) for layout in (source, target)]
    boxes = [None if coords is None else layout.local_box(coords) for layout, coords in zip((source, target), ends)]
    if boxes[0] != boxes[1] or _partial(source) != _partial(target) or target.sharding.halo_sizes:
        raise PlanError(f"a plan without steps from {source} to {target}; process {process} has something to do")


def _partial(layout: Layout) -> tuple[tuple[int, ...], str]:
    return layout.sharding.partial_axes, layout.sharding.partial_kind


# -- steps -------------------------------------------------------------------------------------------------------------


def check_step(step: Step, process: int, moved: Redistribution | None = None) -> None:
    """Checks ``step`` at the device that ``process`` is; nothing where it takes no part.

    Plans only.  Operations that cut do so by the block rule of the step's target.  ``moved``: the exchange of boxes by
    which the step will run; None for the usual one, or none where the step is a native collective.  Raises PlanError.
    """
    if step.kind != EXCHANGE:
        _check_form(step)
    coords = _coords(step.target.grid, process)
    if step.kind in _RESULTS and coords is not None:
        _check_result(step, coords)
    if moved is None and step.kind in _BOXES:
        moved = _usual(step)
    if moved is None:
        return
    if (moved.source, moved.target) != (step.source, step.target):
        raise PlanError(f"{step} would run as the exchange {moved.source} -> {moved.target}")
    check_exchange(moved, process)


def _usual(step: Step) -> Redistribution:
    try:
        return Redistribution(step.source, step.target)
    except (ShapeError, ReductionError) as error:
        raise PlanError(f"{step}: {error}") from None


def _check_form(step: Step) -> None:
    """That a step has grids, axes, dimensions and partial sums that allow for what its kind says."""
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
    """That what the operation brings to the device at ``coords`` is its block of the target."""
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
        raise PlanError(f"{step} brings device {coords} the cells {result}; its block of the step's target is {block}")
    wanted = _wanted(step.target, coords)
    if step.kind == SLICE and not held.contains(wanted):
        raise PlanError(f"{step}: device {coords} wants the cells {wanted}; it has {held}")


def _joined(step: Step, coords: MultiIndex, dim: int) -> tuple[int, int]:
    """The cells along ``dim`` of the blocks of the device's group, one after another.

    Blocks below a common prefix of coordinates are consecutive.  So where the group's axes are the last that cut the
    dimension, and cut no other, the first block and the last say it all.
    """
    layout, grid = step.source, step.source.grid
    axes = [axis for axis in step.grid_axes if grid.shape[axis] > 1]
    cutting = [axis for axis in layout.sharding.axes_of(dim) if grid.shape[axis] > 1]
    others = {axis for d in range(layout.ndim) if d != dim for axis in layout.sharding.axes_of(d)}
    if cutting[len(cutting) - len(axes) :] == axes and others.isdisjoint(axes):
        first, last = list(coords), list(coords)
        for axis in axes:
            first[axis], last[axis] = 0, grid.shape[axis] - 1
        return layout.core_box(first).starts[dim], layout.core_box(last).stops[dim]
    own, start, stop = layout.core_box(coords), None, None
    for member in group_members(grid, coords, step.grid_axes):
        box = layout.core_box(grid.multi_index(member))
        low, high = box.starts[dim], box.stops[dim]
        if _without(box, dim) != _without(own, dim) or (low < high and stop is not None and low != stop):
            before = "" if stop is None else f", after cells up to {stop}"
            raise PlanError(
                f"{step} joins along dimension {dim} what is not consecutive: the block {box} of device "
                f"{grid.multi_index(member)}{before}, for device {coords}, which has {own}"
            )
        if low < high:
            start, stop = low if start is None else start, high
    return (own.starts[dim], own.starts[dim]) if start is None else (start, stop)


def _without(box: Box, dim: int) -> Box:
    """``box`` in all dimensions but one."""
    return Box(box.starts[:dim] + box.starts[dim + 1 :], box.stops[:dim] + box.stops[dim + 1 :])


def _own_part(step: Step, coords: MultiIndex, dim: int, held: Box) -> tuple[int, int]:
    """The cells along ``dim`` of the device's part of what its group's devices hold there."""
    target = step.target.sharding
    start, stop = held.starts[dim], held.stops[dim]
    if target.offsets_of(dim) is not None:  # cut where the offsets say, as far as there is something to cut
        low, high = target.block(dim, step.target.global_shape[dim], [coords[axis] for axis in target.axes_of(dim)])
        low = min(max(low, start), stop)
        return low, max(low, min(high, stop))
    sizes = [target.grid.shape[axis] for axis in step.grid_axes]
    low, high = block_interval(stop - start, sizes, [coords[axis] for axis in step.grid_axes], target.blocks)
    return start + low, start + high


# -- boxes from process to process -------------------------------------------------------------------------------------


def check_exchange(moved: Redistribution, process: int) -> None:
    """Checks what ``process`` receives, keeps and sends in one exchange of boxes; nothing where it takes no part.

    Plans only.  Every cell that it wants is written once, from a process that has it; what it sends it has, and the
    receiver wants.  On small grids both ends of some messages are compared.  Raises PlanError.
    """
    coords = _coords(moved.target.grid, process)
    if coords is not None:
        _check_arriving(moved, process, coords)
    coords = _coords(moved.source.grid, process)
    if coords is not None:
        _check_leaving(moved, process, coords)


def _check_arriving(moved: Redistribution, process: int, coords: MultiIndex) -> None:
    wanted = _Boxes(moved.target, moved.hidden, moved.hidden_axes[1], halos=True)[coords]
    source, held = moved.source.grid, _Boxes(moved.source, moved.hidden, moved.hidden_axes[0], halos=False)
    received, kept = moved.receives(coords), moved.kept_box(coords)
    writes = [*received, *([] if kept is None else [Piece(process, kept)])]
    for sender, box in writes:
        at = _coords(source, sender)
        if at is None or box.is_empty or not held[at].contains(box):
            has = "nothing" if at is None else held[at]
            raise PlanError(f"process {process} takes {box} from process {sender}, which has {has}")
        if not wanted.contains(box):
            raise PlanError(f"process {process} takes {box} from process {sender}; it wants {wanted}")
    if any(piece.process == process for piece in received):
        raise PlanError(f"process {process} receives from itself")
    if not covers_once([box for _, box in writes], wanted):
        boxes = ", ".join(str(box) for _, box in writes)
        raise PlanError(f"process {process} wants {wanted}, every cell once; it gets {boxes or 'nothing'}")
    if source.size <= _COMPARED >= moved.target.grid.size:
        for sender in _ends(received):
            _compare(sender, process, moved.sends(_coords(source, sender)), received)


def _check_leaving(moved: Redistribution, process: int, coords: MultiIndex) -> None:
    held = _Boxes(moved.source, moved.hidden, moved.hidden_axes[0], halos=False)[coords]
    target, wanted = moved.target.grid, _Boxes(moved.target, moved.hidden, moved.hidden_axes[1], halos=True)
    sent = moved.sends(coords)
    for receiver, box in sent:
        at = _coords(target, receiver)
        if receiver == process or box.is_empty or not held.contains(box):
            raise PlanError(f"process {process} sends {box} to process {receiver}; it has {held}")
        if at is None or not wanted[at].contains(box):
            wants = "nothing" if at is None else wanted[at]
            raise PlanError(f"process {process} sends {box} to process {receiver}, which wants {wants}")
    if moved.source.grid.size <= _COMPARED >= target.size:
        for receiver in _ends(sent):
            _compare(process, receiver, sent, moved.receives(_coords(target, receiver)))


def _ends(pieces: Sequence[Piece]) -> set[int]:
    """The first and the last partner."""
    return {pieces[place].process for place in (0, -1)} if pieces else set()


def _compare(sender: int, receiver: int, sent: Sequence[Piece], received: Sequence[Piece]) -> None:
    """That what one process sends another is what the other receives from it."""
    given = [piece.box for piece in sent if piece.process == receiver]
    taken = [piece.box for piece in received if piece.process == sender]
    if given != taken:
        texts = [", ".join(map(str, boxes)) or "nothing" for boxes in (given, taken)]
        raise PlanError(f"process {sender} sends {texts[0]} to process {receiver}, which expects {texts[1]}")


def covers_once(boxes: Sequence[Box], whole: Box) -> bool:
    """Whether ``boxes``, none of them empty and all of them in ``whole``, hold every cell of it exactly once.

    Plans only.  Sweeps dimension by dimension; where boxes are aligned, in about the time that sorting them takes.

    >>> covers_once([Box((0, 0), (2, 1)), Box((0, 1), (1, 3)), Box((1, 1), (2, 3))], Box((0, 0), (2, 3)))
    True
    """
    return not boxes if whole.is_empty else _covers_once(boxes, whole, 0)


def _covers_once(boxes: Sequence[Box], whole: Box, dim: int) -> bool:
    if len(boxes) == 1:
        return boxes[0].starts[dim:] == whole.starts[dim:] and boxes[0].stops[dim:] == whole.stops[dim:]
    if not boxes or dim == whole.ndim:
        return False
    starting: dict[int, list[int]] = {whole.starts[dim]: []}
    ending: dict[int, list[int]] = {whole.stops[dim]: []}
    for number, box in enumerate(boxes):
        starting.setdefault(box.starts[dim], []).append(number)
        ending.setdefault(box.stops[dim], []).append(number)
    here: set[int] = set()
    for edge in sorted({*starting, *ending})[:-1]:
        here.difference_update(ending.get(edge, ()))
        here.update(starting.get(edge, ()))
        if not _covers_once([boxes[number] for number in here], whole, dim + 1):
            return False
    return True


# -- what devices hold and want ----------------------------------------------------------------------------------------


def _coords(grid: Grid, process: int) -> MultiIndex | None:
    device = grid.device_of_process(process)
    return None if device is None else multi_index(device, grid.shape)


def _wanted(layout: Layout, coords: MultiIndex) -> Box:
    """The device's local array, as far as it lies in the domain."""
    return layout.local_box(coords).intersect(layout.domain_box)


class _Boxes:
    """What the devices of a layout hold, or, with halos, what they want; as far as it lies in the domain.

    Where there are ``hidden`` contributions, those that a device is, or combines, are a dimension in front.  Blocks
    once found are kept: many partners share them.
    """

    def __init__(self, layout: Layout, hidden: int | None, axes: Sequence[int], halos: bool):
        sharding = layout.sharding
        self._rows: list[tuple] = []
        if hidden is not None:
            sizes = [layout.grid.shape[axis] for axis in axes]
            self._rows.append((axes, partial(block_interval, hidden, sizes), hidden, (0, 0), {}))
        for dim, extent in enumerate(layout.global_shape):
            block = partial(sharding.block, dim, extent)
            self._rows.append((sharding.axes_of(dim), block, extent, sharding.halo_of(dim) if halos else (0, 0), {}))

    def __getitem__(self, coords: MultiIndex) -> Box:
        starts, stops = [], []
        for axes, block, extent, (low, high), found in self._rows:
            digits = tuple([coords[axis] for axis in axes])
            ends = found.get(digits)
            if ends is None:
                start, stop = block(digits)
                ends = found[digits] = max(start - low, 0), min(stop + high, extent)
            starts.append(ends[0])
            stops.append(ends[1])
        return Box(tuple(starts), tuple(stops))
