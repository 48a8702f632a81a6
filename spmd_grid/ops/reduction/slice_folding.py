"""Reductions of large arrays that can be read: each member folds one slice of all arrays, and the slices spread.

Slices are parts of the flat arrays, one per member.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.transfer.execute import run_message
from spmd_grid.exchange.transfer.transfer import Transfer
from spmd_grid.grid.blocks import block_interval
from spmd_grid.grid.box import Box
from spmd_grid.ops.calls.bounded_cache import keep
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.movement.member_arrays import DirectCopies, MemberArrays
from spmd_grid.ops.reduction.folding import Folding, flat_target
from spmd_grid.ops.reduction.transfers import spread_slices
from spmd_grid.transport.communicator import Frames

__all__ = ["SliceFolding", "slices_of"]


def slices_of(n: int, size: int) -> list[Box]:
    """The slices of a flat array of ``n`` elements, by member."""
    return [Box((a,), (b,)) for a, b in (block_interval(n, (size,), (i,)) for i in range(size))]


class SliceFolding:
    """Folds the members' arrays of ``n`` elements; the result goes to ``root``, or (None) to all members."""

    def __init__(self, call: CollectiveCall, n: int, dtype: np.dtype, root: int | None, folding: Folding):
        self._call, self._n, self._dtype, self._root, self._folding = call, n, dtype, root, folding
        self._known_addresses: dict[bytes, np.ndarray] = {}

    def run(self, frames: Frames, arrays: list[np.ndarray], target: np.ndarray | None) -> None:
        """Fold this member's slice of all arrays, and copy the others' slices from their memory."""
        flat, finish = flat_target(target)
        addresses = self._addresses(frames, arrays)
        if self._root is not None:
            self._fold_at_root(addresses, flat, frames)
        else:
            part = flat[self._own]
            self._folding.addresses(addresses + self._own.start * self._dtype.itemsize, part)
            frames = self._call.meeting.swap(part)
            parts = self._parts.of(frames)
            if parts is None:
                run_message(self._call.comm, self.spread, part, flat)
            else:
                self._spread_copies.run(frames, parts, flat)
                if frames.lent:
                    self._call.meeting.depart(frames)
        if finish is not None:
            finish()

    def _fold_at_root(self, addresses: np.ndarray, flat: np.ndarray | None, frames: Frames) -> None:
        """Fold this member's slice into root's result if that can be reached; else root folds everything."""
        meeting = self._call.meeting
        reachable = flat is not None and meeting.reads_in_place(flat)
        frames = meeting.swap(flat if reachable else None, in_place=True)
        results = self._root_result.of(frames)
        result = flat if results is None or self._root is None else results[self._root]
        if result is flat is not None and not reachable:
            self._folding.addresses(addresses, flat)
        elif result is not None:
            self._folding.addresses(addresses + self._own.start * self._dtype.itemsize, result[self._own])
        frames.lends = 1  # arrays of the meeting before this one are read after it, so all wait for all
        meeting.depart(frames)

    def _addresses(self, frames: Frames, arrays: list[np.ndarray]) -> np.ndarray:
        """The address of each member's array."""
        found = None if frames.locations is None else self._known_addresses.get(frames.locations)
        if found is None:
            found = np.array([kernels.address_of(array) for array in arrays], np.int64)
            if frames.locations is not None:
                keep(self._known_addresses, frames.locations, found)
        return found

    @cached_property
    def _slices(self) -> list[Box]:
        return slices_of(self._n, self._call.comm.size)

    @cached_property
    def _own(self) -> slice:
        """This member's slice."""
        box = self._slices[self._call.comm.rank]
        return slice(box.starts[0], box.stops[0])

    @cached_property
    def spread(self) -> Transfer:
        """The transfer of folded slices to the members that need them."""
        return spread_slices(self._call.comm, self._n, self._slices, self._root, in_place=True)

    @cached_property
    def _spread_copies(self) -> DirectCopies:
        return DirectCopies(self.spread)

    @cached_property
    def _parts(self) -> MemberArrays:
        """The folded slices."""
        return MemberArrays(self._call, [Facts(box.shape, self._dtype) for box in self._slices])

    @cached_property
    def _root_result(self) -> MemberArrays:
        """Root's result; None if it cannot be reached."""
        absent, present = Facts(None, None), Facts((self._n,), self._dtype)
        return MemberArrays(self._call, [present if i == self._root else absent for i in range(self._call.comm.size)])
