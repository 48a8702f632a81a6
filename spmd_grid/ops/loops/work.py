"""The part of an operation that compiled runs do by themselves: copies and a fold of small arrays, or a relay."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.agreement.line_meeting import LineMeeting
from spmd_grid.exchange.agreement.meeting import Meeting
from spmd_grid.exchange.agreement.quicker_way import QuickerWay
from spmd_grid.exchange.agreement.relay import RelayProgram
from spmd_grid.exchange.transfer.fetch import FetchProgram
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.exchange.transfer.transfer import Transfer, run_of
from spmd_grid.grid.box import Box
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.typing import Shape

__all__ = ["Fold", "LoopWork", "copies_of", "copies_of_transfer", "fold_of", "is_short"]


class Fold(NamedTuple):
    """A fold of ``n`` elements of each member, by the compiled function at ``address``.

    ``nodes``: the members of each node, whose arrays are folded first; none where all are folded one after the other.
    """

    address: int
    n: int
    nodes: Sequence[Sequence[int]] = ()

    @property
    def groups(self) -> list[int]:
        """The words that list ``nodes``: see `kernels.short_fold`."""
        return [word for node in self.nodes for word in (0, *(member + 1 for member in node))][1:]


class LoopWork(NamedTuple):
    """The work of a member on the members' arrays, once it knows where they lie.

    ``copies``: rows of a copy table by member, then those that copy from ``constant``; they copy to the result, or to
    ``scratch``, whose rows are then folded.  Otherwise the members' arrays are folded, ``shift`` bytes after their
    first.  ``relay``: makes it all after the meeting, for arrays of any size; but not if all arrays of the members that
    ``unless_read`` lists can be read where they lie, unless processors are far apart and it is taken ``if_far``, or
    words are quick and it is taken ``if_near``.
    ``fetch``: does it instead, in runs that ``ways`` say, where none of them can be read so; ``read``: where all can,
    in runs that ``read_ways`` say, at offsets from ``bases``.  ``ways`` without ``fetch``: it is not known yet whether
    the system copies.
    """

    copies: Sequence[Sequence[kernels.BoxRow]] = ()
    constant: np.ndarray | None = None
    fold: Fold | None = None
    shift: int = 0
    scratch: np.ndarray | None = None
    relay: RelayProgram | None = None
    unless_read: Sequence[int] = ()
    if_far: bool = False
    if_near: bool = False
    fetch: FetchProgram | None = None
    ways: QuickerWay | None = None
    read: FetchProgram | None = None
    read_ways: QuickerWay | None = None
    bases: np.ndarray | None = None

    @property
    def is_partial(self) -> bool:
        """Whether there may be more work later, for arrays that lie elsewhere."""
        return self.ways is not None and self.fetch is None

    @property
    def table(self) -> np.ndarray:
        """The copy table."""
        return kernels.build_table([row for rows in self.copies for row in rows])

    @property
    def firsts(self) -> list[int]:
        """The first row of the table of each source, and the number of rows."""
        return list(accumulate(map(len, self.copies), initial=0))


def is_short(facts: Sequence[Facts], meeting: Meeting | None) -> bool:
    """Whether all arrays travel in the lines of a meeting; None: that of a process alone."""
    most = meeting.line_bytes if isinstance(meeting, LineMeeting) else at.LINE_ARRAY_BYTES
    return all(fact.nbytes <= most for fact in facts)


def copies_of(
    source_shape: Shape,
    source_box: Box,
    target_shape: Shape,
    box: Box,
    dtype: np.dtype,
    target_offset: int = 0,
    source_offset: int = 0,
) -> list[kernels.BoxRow]:
    """The row that copies a box between two contiguous arrays, each with an offset from its base in bytes."""
    source, target = np.empty(source_shape, dtype), np.empty(target_shape, dtype)
    given, taken = view_of(source, source_box), view_of(target, box)
    row = kernels.box_row(
        given.shape,
        dtype.itemsize,
        given.strides,
        kernels.address_of(given) - kernels.address_of(source) + source_offset,
        taken.strides,
        kernels.address_of(taken) - kernels.address_of(target) + target_offset,
    )
    return [] if row is None else [row]


def copies_of_transfer(
    transfer: Transfer, shapes: Sequence[Shape | None], dtype: np.dtype
) -> list[list[kernels.BoxRow]]:
    """The rows that copy what a member receives of whole arrays of ``shapes`` to its result, by the sources."""
    copies: list[list[kernels.BoxRow]] = [[] for _ in shapes]
    for receive in transfer.receives:
        shape, target_shape = shapes[receive.peer], transfer.target_shape
        assert shape is not None and target_shape is not None  # it is sent, and received
        copies[receive.peer] += copies_of(shape, receive.source_box, target_shape, receive.box, dtype)
    return copies


def fold_of(
    kind: str, dtype: np.dtype, shape: Shape, block: Box, size: int, nodes: Sequence[Sequence[int]]
) -> LoopWork | None:
    """The fold of ``block`` of the arrays of ``size`` members, of ``shape``; None where no compiled one does it.

    ``nodes``: see `Fold`.
    """
    address = kernels.short_fold(kind, dtype)
    if not address:
        return None
    fold, run = Fold(address, block.size, nodes), run_of(shape, [block])
    if run is not None:
        return LoopWork(fold=fold, shift=run[0] * dtype.itemsize)
    scratch = np.empty((size, *block.shape), dtype)
    whole = Box.from_shape(block.shape)
    copies = [copies_of(shape, block, block.shape, whole, dtype, i * scratch[0].nbytes) for i in range(size)]
    return LoopWork(copies, fold=fold, scratch=scratch)
