"""Check an exchange of boxes: every process gets each cell that it needs exactly once, from a process that holds it.

Blocks come straight from the layouts here, not from the cuts by which exchanges are planned.  A process checks its own
device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from spmd_grid.errors import PlanError
from spmd_grid.grid.blocks import block_interval
from spmd_grid.grid.box import Box
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.geometry.messages import Piece, Redistribution
from spmd_grid.typing import MultiIndex

__all__ = ["check_exchange", "check_receives", "covers_once"]

# On grids up to this size both ends of a message are compared; the other end lists at most this many messages.
_MOST_COMPARED = 256


def check_exchange(moved: Redistribution, process: int) -> None:
    """Check what ``process`` receives, keeps and sends in one exchange of boxes; nothing if it takes no part.

    Plans only.  Every cell that it needs is written once, from a process that holds it; what it sends it holds, and the
    receiver needs.  On small grids both ends of some messages are compared.  Raises PlanError.
    """
    coords = moved.target.grid.coords_of_process(process)
    if coords is not None:
        check_receives(moved, process, coords)
        _compare_receives(moved, process, coords)
    coords = moved.source.grid.coords_of_process(process)
    if coords is not None:
        _check_sends(moved, process, coords)


def check_receives(moved: Redistribution, process: int, coords: MultiIndex) -> None:
    """Check that a process, at ``coords`` of the target's grid, gets each cell once, from processes that hold it.

    Plans only.  Raises PlanError.
    """
    needed = _needed_boxes(moved)[coords]
    source, held = moved.source.grid, _held_boxes(moved)
    received, kept = moved.receives(coords), moved.kept_box(coords)
    writes = [*received, *([] if kept is None else [Piece(process, kept)])]
    for sender, box in writes:
        at = source.coords_of_process(sender)
        if at is None or box.is_empty or not held[at].contains(box):
            holds = "nothing" if at is None else held[at]
            raise PlanError(f"process {process} takes {box} from process {sender}, which has {holds}")
        if not needed.contains(box):
            raise PlanError(f"process {process} takes {box} from process {sender}; it needs {needed}")
    if any(piece.process == process for piece in received):
        raise PlanError(f"process {process} receives from itself")
    if not covers_once([box for _, box in writes], needed):
        boxes = ", ".join(str(box) for _, box in writes)
        raise PlanError(f"process {process} needs {needed}, every cell once; it gets {boxes or 'nothing'}")


def _compare_receives(moved: Redistribution, process: int, coords: MultiIndex) -> None:
    source, received = moved.source.grid, moved.receives(coords)
    if source.size <= _MOST_COMPARED >= moved.target.grid.size:
        for sender in _ends(received):
            at = source.coords_of_process(sender)
            _compare(sender, process, [] if at is None else moved.sends(at), received)


def _check_sends(moved: Redistribution, process: int, coords: MultiIndex) -> None:
    held = _held_boxes(moved)[coords]
    target, needed = moved.target.grid, _needed_boxes(moved)
    sent = moved.sends(coords)
    for receiver, box in sent:
        at = target.coords_of_process(receiver)
        if receiver == process or box.is_empty or not held.contains(box):
            raise PlanError(f"process {process} sends {box} to process {receiver}; it has {held}")
        if at is None or not needed[at].contains(box):
            needs = "nothing" if at is None else needed[at]
            raise PlanError(f"process {process} sends {box} to process {receiver}, which needs {needs}")
    if moved.source.grid.size <= _MOST_COMPARED >= target.size:
        for receiver in _ends(sent):
            at = target.coords_of_process(receiver)
            _compare(process, receiver, sent, [] if at is None else moved.receives(at))


def _ends(pieces: Sequence[Piece]) -> set[int]:
    """The first and the last partner."""
    return {pieces[n].process for n in (0, -1)} if pieces else set()


def _compare(sender: int, receiver: int, sent: Sequence[Piece], received: Sequence[Piece]) -> None:
    """Check that one process sends another exactly what that one receives from it."""
    given = [piece.box for piece in sent if piece.process == receiver]
    taken = [piece.box for piece in received if piece.process == sender]
    if given != taken:
        texts = [", ".join(map(str, boxes)) or "nothing" for boxes in (given, taken)]
        raise PlanError(f"process {sender} sends {texts[0]} to process {receiver}, which expects {texts[1]}")


def covers_once(boxes: Sequence[Box], whole: Box) -> bool:
    """Whether ``boxes``, none of them empty and all of them in ``whole``, hold every cell of it exactly once.

    Plans only.  Sweeps dimension by dimension: where boxes are aligned, in about the time that sorting them takes.

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


# -- what devices hold and need ----------------------------------------------------------------------------------------


class _Dimension(NamedTuple):
    """One dimension of the boxes: the axes that cut it, and the blocks found so far by coordinates on these."""

    axes: Sequence[int]
    block: Callable[[tuple[int, ...]], tuple[int, int]]
    extent: int
    halo: tuple[int, int]
    found: dict[tuple[int, ...], tuple[int, int]]


class _Boxes:
    """The boxes of a layout's devices, with or without halos, as far as they lie in the domain.

    Where there are ``hidden`` contributions, those that a device holds, or combines, are a dimension in front.  Blocks
    once found are kept: many partners share them.
    """

    def __init__(self, layout: Layout, hidden: int | None, axes: Sequence[int], halos: bool):
        sharding = layout.sharding
        self._dimensions: list[_Dimension] = []
        if hidden is not None:
            block = partial(block_interval, hidden, [layout.grid.shape[axis] for axis in axes])
            self._dimensions.append(_Dimension(axes, block, hidden, (0, 0), {}))
        for dim, extent in enumerate(layout.global_shape):
            halo = sharding.halo_of(dim) if halos else (0, 0)
            block = partial(sharding.block, dim, extent)
            self._dimensions.append(_Dimension(sharding.axes_of(dim), block, extent, halo, {}))

    def __getitem__(self, coords: MultiIndex) -> Box:
        starts, stops = [], []
        for axes, block, extent, (low, high), found in self._dimensions:
            digits = tuple([coords[axis] for axis in axes])
            ends = found.get(digits)
            if ends is None:
                start, stop = block(digits)
                ends = found[digits] = max(start - low, 0), min(stop + high, extent)
            starts.append(ends[0])
            stops.append(ends[1])
        return Box(tuple(starts), tuple(stops))


def _held_boxes(moved: Redistribution) -> _Boxes:
    """The cells that each device holds, its core, by source coordinates."""
    return _Boxes(moved.source, moved.hidden, moved.hidden_axes[0], halos=False)


def _needed_boxes(moved: Redistribution) -> _Boxes:
    """The cells that each device needs, its core and halos, by target coordinates."""
    return _Boxes(moved.target, moved.hidden, moved.hidden_axes[1], halos=True)
