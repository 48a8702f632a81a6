"""The boxes of a redistribution that one process gives and takes, as parts of its own arrays and its partners'."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.channel.copy_table import Taken
from spmd_grid.exchange.paths import allows_memory, chosen_path
from spmd_grid.exchange.transfer.transfer import Receive, Send
from spmd_grid.grid.box import Box
from spmd_grid.grid.cells import Cells
from spmd_grid.reshard.executor.exchanges.node_sharing import NodeSharing
from spmd_grid.reshard.executor.members import coords_of, coords_of_process, member_of
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["LocalBoxes", "copies_of"]

# Boxes of at least this size bypass the channel where memory is not shared: packing them for persistent requests costs
# more than the requests save.
_LARGE_BYTES = 1 << 22


class LocalBoxes:
    """The boxes that this process gives and takes, in order of the members, by the channel or, if large, as messages.

    Local.  ``given_shape``, ``into_shape``: of the arrays that cells leave and arrive in, with a row for each
    contribution in front where the redistribution folds a partial value; ``rows`` is the number of these.
    """

    def __init__(self, move: Redistribution, comm: Communicator, itemsize: int, sharing: NodeSharing | None):
        self._move, self._comm, self._itemsize = move, comm, itemsize
        self._hides = move.hidden is not None
        self.given_shape = self.into_shape = (0,) * (move.source.ndim + self._hides)
        self.rows = 1
        self.gives: list[tuple[int, Cells]] = []
        self.takes: list[Taken] = []
        self.sends: list[Send] = []
        self.receives: list[Receive] = []
        source, target = coords_of(move.source, comm), coords_of(move.target, comm)
        self.has_result = target is not None
        if source is not None:
            self._list_outgoing(source, sharing)
        if target is not None:
            self._list_incoming(target, sharing)
        self.gives.sort(key=lambda give: give[0])
        self.takes.sort(key=lambda take: take.member)

    def _list_outgoing(self, source: MultiIndex, sharing: NodeSharing | None) -> None:
        self.given_shape, origin = self._array_of(source)
        for process, piece in self._move.sends(source) if sharing is None else sharing.sends():
            member, box = member_of(process, self._comm), piece.relative_to(origin)
            if self._is_large(process, box):
                self.sends.append(Send(member, box))
            else:
                self.gives.append((member, Cells.of_box(box)))

    def _list_incoming(self, target: MultiIndex, sharing: NodeSharing | None) -> None:
        move, comm = self._move, self._comm
        self.into_shape, corner = self.result_of(target)
        self.rows = self.into_shape[0] if self._hides else 1
        kept = move.kept_box(target)
        own = [] if kept is None else [(comm.processes[comm.rank], kept)]
        for process, box in (*own, *(move.receives(target) if sharing is None else sharing.receives())):
            shape, origin = self._array_of(coords_of_process(move.source.grid, process))
            member, here, there = member_of(process, comm), box.relative_to(corner), box.relative_to(origin)
            if self._is_large(process, box):
                self.receives.append(Receive(member, there, here))
            else:
                self.takes.append(Taken(member, Cells.of_box(here), Cells.of_box(there), shape))

    def _is_large(self, process: int, box: Box) -> bool:
        """Whether a box bypasses the channel: both ends decide alike."""
        if process == self._comm.processes[self._comm.rank] or box.size * self._itemsize < _LARGE_BYTES:
            return False
        return not allows_memory(chosen_path()) or self._comm.process.arena.base_of(process) is None

    def _array_of(self, coords: MultiIndex) -> tuple[Shape, tuple[int, ...]]:
        """The shape of a source device's local array, and the global coordinates of its first cell."""
        move = self._move
        shape, origin = move.source.local_shape(coords), move.source.local_box(coords).starts
        if not self._hides:
            return shape, origin
        return (1, *shape), (move.source_box(coords).starts[0], *origin)

    def result_of(self, target: MultiIndex) -> tuple[Shape, tuple[int, ...]]:
        """The shape of the array in which a target device's cells arrive, and the global coordinates of its first."""
        needed, layout = self._move.target_box(target), self._move.target
        rows = [stop - start for start, stop in zip(needed.starts, needed.stops)][: self._hides]
        return (*rows, *layout.local_shape(target)), (*needed.starts[: self._hides], *layout.local_box(target).starts)


def copies_of(takes: Sequence[Taken], given: np.ndarray, into: np.ndarray) -> list[kernels.BoxRow]:
    """The rows of a copy table for cells that move from one array to another one of its dtype.  Local."""
    rows = []
    for _, target, source, _ in takes:
        here = source.strides(given.strides), source.offset(given.strides)
        there = target.strides(into.strides), target.offset(into.strides)
        rows.append(kernels.box_row(target.shape, given.itemsize, *here, *there))
    return [row for row in rows if row is not None]
