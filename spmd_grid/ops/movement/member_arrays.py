"""The arrays of a group's members, where this process can read them, and copies directly from them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.agreement.meeting import array_in_frame
from spmd_grid.exchange.agreement.node_meeting import NodeMeeting
from spmd_grid.exchange.paths import DIRECT, INLINE, MESSAGE, MIXED
from spmd_grid.exchange.transfer.execute import copy_from
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.exchange.transfer.transfer import Transfer
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.kernels.copy.tables import ALWAYS
from spmd_grid.ops.calls.bounded_cache import keep
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.transport.communicator import Frames
from spmd_grid.typing import Shape

__all__ = ["DirectCopies", "MemberArrays", "fresh"]

# Smaller results come from the heap, which is faster; larger ones from the arena, where other processes can read them.
_ARENA_BYTES = 1 << 12

# Smaller results of addresses that are new get no table: to make one takes longer than numpy's own assignments.
_TABLE_BYTES = 1 << 15


def fresh(grid: ProcessGrid, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """Allocate an uninitialised array for a result.  Local."""
    n_bytes = dtype.itemsize
    for extent in shape:
        n_bytes *= extent
    return np.empty(shape, dtype) if n_bytes < _ARENA_BYTES else grid.allocate(shape, dtype)


class MemberArrays:
    """The members' arrays of one call, as this process can read them: in their own memory, or in the frames.

    ``facts``: shapes and dtypes, equal on all members.  ``way``: the call's path, or another one that suits the arrays.
    ``mixes``: whether some arrays may be read while messages carry others.
    """

    __slots__ = ("_call", "_facts", "_known", "way")

    def __init__(self, call: CollectiveCall, facts: Sequence[Facts], mixes: bool = False):
        self._call, self._facts = call, facts
        self._known: dict[Hashable, list[Any] | None] = {}
        self.way = call.path
        if self.way in (INLINE, MIXED):
            fits = all([fact.fits_inline for fact in facts])
            self.way = INLINE if fits else self.way if mixes and self.way is MIXED else MESSAGE

    @property
    def facts(self) -> Sequence[Facts]:
        """The shapes and dtypes of the arrays, by member."""
        return self._facts

    @property
    def are_posted(self) -> bool:
        """Whether all arrays have arrived once the members have met: in messages, or posted in shared memory."""
        if self.way is not DIRECT:
            return self.way is INLINE
        most = self._call.meeting.posted_bytes
        return bool(most) and all([fact.nbytes <= most for fact in self._facts])

    @property
    def come_with_frames(self) -> bool:
        """Whether every array fits into a frame, also where only some members share memory.  Local; the same on all."""
        return all([fact.nbytes <= self._call.meeting.carried_bytes for fact in self._facts])

    @property
    def way_in_traces(self) -> str:
        """The path as traces name it: where the arrays of an operation are not read, messages carry them."""
        return self.way if self._call.lets_read or self.are_posted else MESSAGE

    def of(self, frames: Frames) -> list[Any] | None:
        """One array per member, valid until the next meeting of the group; None if messages must carry all arrays.

        In the list, None stands for a member without an array and, on the mixed path, for an array that this process
        cannot read.
        """
        if self.way is MESSAGE:
            return None
        if frames.exposed is not None and self.way is DIRECT:
            return frames.exposed
        key = id(frames.data) if self.way is INLINE else frames.locations
        try:
            return self._known[key]
        except KeyError:
            pass
        if self.way is INLINE:
            found: list[Any] | None = [
                None if fact.shape is None else array_in_frame(frames.data, member, fact)
                for member, fact in enumerate(self._facts)
            ]
        else:
            found = None if key is None else self._call.meeting.arrays(frames, self._facts)
        keep(self._known, key, found)
        return found

    def is_read_by(self, frames: Frames, member: int) -> bool:
        """Whether ``member`` reads this member's array by itself, on the mixed path.  Local."""
        meeting = self._call.meeting
        assert isinstance(meeting, NodeMeeting)
        return meeting.is_read_by(frames, self._facts, member)


class DirectCopies:
    """Copies the receives of a transfer directly from the members' arrays; keeps a copy table for their addresses."""

    __slots__ = ("_last", "_tables", "_transfer")

    def __init__(self, transfer: Transfer):
        self._transfer = transfer
        self._last: Hashable = None  # of the last run, where it was small and had no table
        self._tables: dict[Hashable, tuple[np.ndarray, int, int, int]] = {}

    def run(self, frames: Frames, arrays: Sequence[Any], target: np.ndarray | None) -> None:
        """Copy into ``target`` from ``arrays``, of which those that are None are skipped."""
        if target is None or not self._transfer.receives:
            return
        if frames.locations is None:
            copy_from(self._transfer, arrays, target)
            return
        key = frames.locations, target.strides
        found = self._tables.get(key)
        if found is None:
            if key != self._last and target.nbytes < _TABLE_BYTES:
                self._last = key
                copy_from(self._transfer, arrays, target)
                return
            table = self._table(arrays, target)
            found = table, kernels.address_of(table), table.shape[1], len(table)
            keep(self._tables, key, found)
        _, address, columns, rows = found
        streams = kernels.streams_for(target.nbytes)
        kernels.copy_table(address, columns, rows, 0, kernels.address_of(target), streams)

    def _table(self, arrays: Sequence[Any], target: np.ndarray) -> np.ndarray:
        start, rows = kernels.address_of(target), []
        # Members take turns at arrays that lie in caches; larger ones they read from memory once, at the same time.
        first = 0 if kernels.streams_for(target.nbytes) == ALWAYS else self._transfer.rank
        for receive in sorted(
            self._transfer.receives, key=lambda receive: (receive.peer - first) % self._transfer.size
        ):
            if arrays[receive.peer] is None:
                continue
            source, into = view_of(arrays[receive.peer], receive.source_box), view_of(target, receive.box)
            row = kernels.box_row(
                source.shape,
                source.itemsize,
                source.strides,
                kernels.address_of(source),
                into.strides,
                kernels.address_of(into) - start,
            )
            if row is not None:
                rows.append(row)
        return kernels.build_table(rows)
