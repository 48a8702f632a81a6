"""Contributions that pass through the staging memory of a node, and are folded from there, in the steps of a relay."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import prod

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.agreement.relay import RelayProgram, Rings
from spmd_grid.exchange.transfer.transfer import run_of
from spmd_grid.grid.box import Box
from spmd_grid.grid.cells import Cells
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.reduction.folding import flat_target
from spmd_grid.ops.reduction.relayed_alike import relay_of_alike
from spmd_grid.reduction_kind import ReductionKind
from spmd_grid.reshard.executor.exchanges.local_boxes import LocalBoxes
from spmd_grid.reshard.executor.exchanges.relayed_boxes import RelayedBoxes
from spmd_grid.transport.communicator import Communicator

__all__ = ["RelayedFolds"]

_MOST_ALIKE = 48  # members, of which a word holds a set


class RelayedFolds(RelayedBoxes):
    """One exchange of contributions, each to all cells of a member's result; the member folds them in order.

    Members pack their own contributions too (``own_in_ring``) if the contribution of any is not one run of memory.
    Where all of those that contribute get all of the same result, each folds a slice, as in an all_reduce.
    """

    def __init__(
        self,
        comm: Communicator,
        meeting: MemoryMeeting,
        boxes: LocalBoxes,
        dtype: np.dtype,
        kind: ReductionKind,
        own_in_ring: bool,
    ):
        super().__init__(comm, meeting, boxes, dtype.itemsize, comm.size if own_in_ring else None)
        self._fold, self._own_in_ring, self._size = kernels.fold_address(kind.name, dtype), own_in_ring, comm.size
        self._alike_bytes = _alike_bytes(meeting, boxes, comm.rank, comm.size) * dtype.itemsize

    @classmethod
    def of(
        cls, comm: Communicator, meeting: MemoryMeeting, boxes: LocalBoxes, dtype: np.dtype, kind: ReductionKind
    ) -> RelayedFolds | None:
        """The relay of these contributions; None, alike on all members, where other ways must fold them.

        Collective.
        """
        own = [take.source for take in boxes.takes if take.member == comm.rank]
        in_ring = any(run_of(boxes.given_shape, [_box_of(cells)]) is None for cells in own)
        compiled = kind.elementwise and not kind.is_average and kernels.supports(dtype, kind.name)
        if not compiled or meeting.most(int(not _are_whole(boxes))):
            return None
        return cls(comm, meeting, boxes, dtype, kind, bool(meeting.most(int(in_ring))))

    @property
    def packs_first(self) -> bool:
        return False  # a result is folded while its contributions are still read

    def suits(self, are_readable: Callable[[], bool]) -> bool:
        return self.is_certain and super().suits(are_readable)

    @cached_property
    def is_certain(self) -> bool:
        """Whether contributions are relayed: of any size, since each is read once, and other ways fold in rounds."""
        return self._fits and self._largest_bytes > 0 and self.meeting.rings() is not None

    def fold(self, x: np.ndarray, result: np.ndarray | None) -> None:
        """Fold all contributions, those of ``x`` included, into ``result``; they share no memory.  Collective."""
        flat, finish = flat_target(result)
        x = np.ascontiguousarray(x)
        self.meeting.relay(self.program(x, x[:0] if flat is None else flat), x, flat)
        if finish is not None:
            finish()

    def _area_of(self, owner: int, reader: int) -> int:
        return reader if self._own_in_ring else super()._area_of(owner, reader)

    def _make(self, rings: Rings, given: tuple[int, ...], into: tuple[int, ...]) -> RelayProgram:
        me = self._me
        if self._alike_bytes:
            members = [take.member for take in self._takes]
            return relay_of_alike(rings, members, self._itemsize, self._alike_bytes, self._fold)
        own = [(me, take.source) for take in self._takes if take.member == me and self._own_in_ring]
        steps = self._packing_steps([*self._gives, *own], given)
        parts = [self._pieces(take.source) for take in self._takes]
        done = 0
        for number, (step, pieces) in enumerate(zip(steps, zip(*parts))):
            rows = [at.NO_ROW] * self._size
            for take, piece in zip(self._takes, pieces, strict=True):
                in_ring = take.member != me or self._own_in_ring
                rows[take.member] = self._start(number, take.member, me) if in_ring else piece.offset(given)
            n = prod(pieces[0].shape)
            step.fold[:] = n, done, *rows
            done += n * self._itemsize
        return RelayProgram(rings, self._slots, steps, done, self._fold if done else 0, self._own_in_ring)


def _are_whole(boxes: LocalBoxes) -> bool:
    """Whether each contribution that this process folds is one box, for its whole result, in the order of members."""
    shape, takes = boxes.into_shape, boxes.takes
    if 0 in shape[1:] or not boxes.has_result:
        return not takes
    kept = [take.target for take in takes]
    rows = [cells.starts[0] for cells in kept] == list(range(shape[0])) and shape[0] > 1
    return rows and all(cells.shape == (1, *shape[1:]) for cells in kept)


def _alike_bytes(meeting: MemoryMeeting, boxes: LocalBoxes, me: int, size: int) -> int:
    """The cells of each array, if all members fold as many whole ones, and those of each fold get its result; else 0.

    Collective.  Folds of some members each may lie side by side.
    """
    if size > _MOST_ALIKE:
        return 0
    n, givers, getters = (
        prod(boxes.given_shape),
        {take.member for take in boxes.takes},
        {each for each, _ in boxes.gives},
    )
    whole = boxes.given_shape == (1, *boxes.into_shape[1:]) and all(
        cells.shape == boxes.given_shape
        for cells in [*[take.source for take in boxes.takes], *dict(boxes.gives).values()]
    )
    set_of_givers = sum(1 << member for member in givers)
    # Each member compares its set with those of all other sets of which one of its givers is a part.
    largest = [meeting.most(set_of_givers if member in givers else 0) for member in range(size)]
    together = all(largest[member] == set_of_givers for member in givers)
    alike = whole and givers == getters | {me} and together
    most, rows = meeting.most(n), meeting.most(boxes.rows)
    return 0 if meeting.most(int(not alike or n != most or boxes.rows != rows)) else n


def _box_of(cells: Cells) -> Box:
    """The box of cells in order."""
    return Box(cells.starts, tuple([start + extent for start, extent in zip(cells.starts, cells.shape)]))
