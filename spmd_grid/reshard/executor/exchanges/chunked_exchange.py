"""An exchange in chunks: where memory is short, boxes are sent piece by piece, two chunks under way at a time.

Contributions to a partial value are stacked chunk by chunk, and folded, in their order, as soon as the chunk is
complete: to the same bits as all at once.  (Except products of complex numbers: the last bit of numpy's depends on
their position in an array.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.transfer.execute import next_tag, send_and_receive
from spmd_grid.exchange.transfer.flat_bytes import copy_views, view_of
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.reduction_kind import as_reduction, identity
from spmd_grid.reshard.executor.members import coords_of, member_of
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.planner.chunking import (
    UNDER_WAY,
    chunk_bytes,
    chunk_pieces,
    contributions,
    held_at_once,
    without_hidden,
)
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import Shape

__all__ = ["ChunkedExchange"]


class ChunkedExchange:
    """One exchange of boxes between local arrays, in chunks.  Local when made; nothing is kept between runs."""

    works_in_place = False  # chunks arrive while others are still to be sent

    def __init__(self, move: Redistribution, dtypes: Sequence[np.dtype], comm: Communicator, chunks: int):
        self._comm, self._chunks, self._n_arrays = comm, chunks, len(dtypes)
        source, target = coords_of(move.source, comm), coords_of(move.target, comm)
        self._source_at = self._target_at = (0,) * move.source.ndim
        self._given_shape: Shape = self._source_at
        self.target_shape: Shape | None = None
        cells, boxes = (n * sum(dtype.itemsize for dtype in dtypes) for n in held_at_once(move, source, target))
        self.staging_bytes = chunk_bytes(cells, chunks, boxes)
        self._sends: list[tuple[int, Box]] = []
        self._gets: list[tuple[Box, list[tuple[int, int]]]] = []  # cells, and (member, row) of each contribution
        self._rows = 1
        self._kept: Box | None = None
        if source is not None:
            self._given_shape, self._source_at = move.source.local_shape(source), move.source.local_box(source).starts
            self._sends = [(member_of(process, comm), without_hidden(move, box)) for process, box in move.sends(source)]
        if target is not None:
            self.target_shape, self._target_at = move.target.local_shape(target), move.target.local_box(target).starts
            self._inside = move.target.in_domain_local(target)
            self._rows, found = contributions(move, target)
            self._gets = [
                (cells, [(member_of(process, comm), row) for process, row in given]) for cells, given in found.items()
            ]
            if self._rows == 1 and (kept := move.kept_box(target)) is not None:
                self._kept = without_hidden(move, kept)
        side = move.source if move.source.sharding.partial_axes else move.target
        self._kind = as_reduction(side.sharding.partial_kind)

    def run(self, arrays: Sequence[np.ndarray] | None, results: Sequence[np.ndarray] | None) -> None:
        """Move boxes of ``arrays`` into ``results``, one array after the other.  Collective."""
        for i in range(self._n_arrays):
            array = None if arrays is None else arrays[i]
            result = None if results is None else results[i]
            if self._kept is not None and array is not None and result is not None:
                copy_views([(self._given(array, self._kept), self._wanted(result, self._kept))])
            if not self._rows and result is not None:
                view_of(result, self._inside)[...] = identity(self._kind, result.dtype)
            self._run_chunks(array, result)

    def _run_chunks(self, array: np.ndarray | None, result: np.ndarray | None) -> None:
        under_way: deque[tuple[Iterator[list], list]] = deque()
        for chunk in range(self._chunks):
            if result is not None and self._rows > 1:
                steps = self._stacked(chunk, array, result)
            else:
                steps = self._straight(chunk, array, result)
            under_way.append((steps, next(steps)))
            if len(under_way) == UNDER_WAY:
                self._finish(*under_way.popleft())
        for each in under_way:
            self._finish(*each)

    def _finish(self, steps: Iterator, requests: list) -> None:
        self._comm.wait_all(requests)
        next(steps, None)

    # -- one chunk: yields the requests to wait for, then finishes --

    def _straight(self, chunk: int, array: np.ndarray | None, result: np.ndarray | None) -> Iterator[list]:
        """Receive straight into the result."""
        receives = [
            Receive(member, cut, cut.relative_to(self._target_at))
            for cells, ((member, _),) in self._gets
            for cut in chunk_pieces(cells, chunk, self._chunks)
        ]
        yield from self._move(chunk, array, result, receives)

    def _stacked(self, chunk: int, array: np.ndarray | None, result: np.ndarray) -> Iterator[list]:
        """Combine the contributions of a chunk, in their order, once all have arrived."""
        stacks: list[tuple[int, Box]] = []
        receives: list[Receive] = []
        own: list[tuple[Box, Box]] = []
        at = 0
        for cells, given in self._gets:
            for cut in chunk_pieces(cells, chunk, self._chunks):
                stacks.append((at, cut))
                for member, row in given:
                    box = Box((at + row * cut.size,), (at + (row + 1) * cut.size,))
                    if member == self._comm.rank:
                        own.append((cut, box))
                    else:
                        receives.append(Receive(member, cut, box))
                at += self._rows * cut.size
        stack = np.empty(at, result.dtype)
        if array is not None:
            copy_views([(self._given(array, cut), view_of(stack, box).reshape(cut.shape)) for cut, box in own])
        yield from self._move(chunk, array, stack, receives)
        for at, cut in stacks:
            rows = stack[at : at + self._rows * cut.size].reshape(self._rows, cut.size)
            kernels.fold(self._kind.name, rows, rows[0])
            self._wanted(result, cut)[...] = rows[0].reshape(cut.shape)

    def _move(self, chunk: int, array: np.ndarray | None, into: np.ndarray | None, receives: list) -> Iterator[list]:
        sends = [
            Send(member, cut.relative_to(self._source_at))
            for member, cells in self._sends
            for cut in chunk_pieces(cells, chunk, self._chunks)
        ]
        ends = self._comm.rank, self._comm.size, self._given_shape, () if into is None else into.shape
        transfer = Transfer("pairwise", *ends, tuple(sends), tuple(receives), 0)
        yield from send_and_receive(self._comm, transfer, array, into, next_tag(self._comm))

    def _given(self, array: np.ndarray, cells: Box) -> np.ndarray:
        return view_of(array, cells.relative_to(self._source_at))

    def _wanted(self, result: np.ndarray, cells: Box) -> np.ndarray:
        return view_of(result, cells.relative_to(self._target_at))

    def retire(self) -> None:
        """Do nothing: no buffers are kept.  Local."""
