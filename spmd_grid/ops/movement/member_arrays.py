"""The arrays of a group's members as one of them can reach them, and copies straight out of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.agreement.meeting import array_in_frame
from spmd_grid.exchange.paths import DIRECT, INLINE, MESSAGE, MIXED
from spmd_grid.exchange.transfer.execute import copy_from
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.exchange.transfer.transfer import Transfer
from spmd_grid.ops.calls.bounded_cache import keep
from spmd_grid.transport.communicator import Frames
from spmd_grid.typing import Shape

__all__ = ["DirectCopies", "MemberArrays", "fresh"]

# Smaller results come from the heap, which hands them out faster; the arena keeps larger ones warm, for others to read.
_ARENA_BYTES = 1 << 12


def fresh(grid, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """A new array for a result, its contents anything.  Local."""
    n_bytes = dtype.itemsize
    for extent in shape:
        n_bytes *= extent
    return np.empty(shape, dtype) if n_bytes < _ARENA_BYTES else grid.allocate(shape, dtype)


class MemberArrays:
    """The members' arrays of one call, where this process can read them: where they lie, or in the frames.

    ``facts``: shapes and dtypes, alike on all members.  ``way``: the path of the call, as far as it suits the arrays.
    ``mixes``: whether some arrays may be read while messages carry others.
    """

    __slots__ = ("_call", "_facts", "_known", "way")

    def __init__(self, call, facts: Sequence[Facts], mixes: bool = False):
        self._call, self._facts = call, facts
        self._known: dict = {}
        self.way = call.path
        if self.way in (INLINE, MIXED):
            fits = all([fact.fits_inline for fact in facts])
            self.way = INLINE if fits else self.way if mixes and self.way is MIXED else MESSAGE

    def of(self, frames: Frames) -> list[np.ndarray | None] | None:
        """One array per member, valid until the next meeting of the group; None where messages have to carry all.

        None stands for a member that has no array, and, on the mixed way, for one that this process cannot read.
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
            found = [
                None if fact.shape is None else array_in_frame(frames.data, member, fact)
                for member, fact in enumerate(self._facts)
            ]
        else:
            found = None if key is None else self._call.meeting.arrays(frames, self._facts)
        keep(self._known, key, found)
        return found

    def is_read_by(self, frames: Frames, member: int) -> bool:
        """Whether ``member`` reads this member's array by itself, on the mixed way.  Local."""
        return self._call.meeting.is_read_by(frames, self._facts, member)


class DirectCopies:
    """Copies what a transfer receives straight from the members' arrays; tables are made once for where they lie."""

    __slots__ = ("_tables", "_transfer")

    def __init__(self, transfer: Transfer):
        self._transfer = transfer
        self._tables: dict = {}

    def run(self, frames: Frames, arrays: Sequence[np.ndarray | None], target: np.ndarray | None) -> None:
        if target is None or not self._transfer.receives:
            return
        if frames.locations is None:
            copy_from(self._transfer, arrays, target)
            return
        key = frames.locations, target.strides
        found = self._tables.get(key)
        if found is None:
            table = self._table(arrays, target)
            found = table, kernels.address_of(table), table.shape[1], len(table)
            keep(self._tables, key, found)
        _, address, columns, rows = found
        kernels.copy_table(address, columns, rows, 0, kernels.address_of(target))

    def _table(self, arrays: Sequence[np.ndarray | None], target: np.ndarray) -> np.ndarray:
        start, rows = kernels.address_of(target), []
        for receive in self._transfer.receives:
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
