"""An exchange in slabs: where memory is short, boxes go slice by slice, two slices under way at a time.

A slab is the same share of every box, so every process holds the same share of its messages at any time.  Both ends of
a message cut the same box, so they agree on its slices without a word.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from spmd_grid.exchange.execute import next_tag, send_and_receive
from spmd_grid.exchange.memory import copy_views, view_of
from spmd_grid.exchange.transfer import Receive, Send, Transfer
from spmd_grid.grid.blocks import part_interval
from spmd_grid.grid.box import Box, multi_index
from spmd_grid.reshard.members import coords_of, place_of
from spmd_grid.reshard.redistribute import Redistribution
from spmd_grid.transport.communicator import Communicator

__all__ = ["SlabExchange", "slab_bytes", "slabs_for", "slices_of"]

_UNDER_WAY = 2
_MOST_SLABS = 1 << 16


def slab_bytes(n_bytes: int, slabs: int, cells: int = 0) -> int:
    """The most bytes of messages at a time where a process sends and receives ``n_bytes`` in ``slabs``.

    Local.  Two slabs are under way.  A slice of a box has at most twice its even share, since lines are not cut, and
    a slab has at most two slices; but at least a cell, of which there are ``cells`` bytes over all boxes.

    >>> slab_bytes(1000, 1), slab_bytes(1000, 20), slab_bytes(1000, 20, 8)
    (1000, 400, 416)
    """
    return n_bytes if slabs == 1 else min(n_bytes, -(-4 * _UNDER_WAY * n_bytes // slabs) + _UNDER_WAY * cells)


def slabs_for(n_bytes: int, room: int, cells: int = 0) -> int | None:
    """How many slabs keep messages of ``n_bytes`` within ``room``; None where no sensible number does.

    Local.  ``cells``: as for `slab_bytes`.
    """
    if n_bytes <= room:
        return 1
    room -= _UNDER_WAY * cells
    slabs = -(-4 * _UNDER_WAY * n_bytes // room) if room > 0 else _MOST_SLABS + 1
    return slabs if slabs <= _MOST_SLABS else None


def slices_of(box: Box, slab: int, slabs: int) -> Iterator[Box]:
    """The part of ``box`` that goes in ``slab``: of its longest dimension, and of others where that is too short.

    Local.

    >>> [[str(slice) for slice in slices_of(Box((0, 5), (2, 9)), slab, 4)] for slab in (0, 3)]
    [['[0:2, 5:6]'], ['[0:2, 8:9]']]
    """
    counts, left = [1] * box.ndim, slabs
    for dim in sorted(range(box.ndim), key=lambda d: -box.shape[d]):
        counts[dim] = min(left, box.shape[dim])
        left = -(-left // counts[dim])
    total = prod(counts)
    for number in range(slab * total // slabs, (slab + 1) * total // slabs):
        parts = [
            part_interval(extent, count, part, "balanced")
            for extent, count, part in zip(box.shape, counts, multi_index(number, counts), strict=True)
        ]
        cut = Box(tuple([low for low, _ in parts]), tuple([high for _, high in parts])).shift(box.starts)
        if not cut.is_empty:
            yield cut


class SlabExchange:
    """One exchange of boxes between local arrays, in slabs.  Local when made; nothing is kept between runs."""

    keeps_places = False  # slabs land while others are still to be sent

    def __init__(self, move: Redistribution, dtypes: Sequence[np.dtype], comm: Communicator, slabs: int):
        self._comm, self._slabs = comm, slabs
        source, target = coords_of(move.source, comm), coords_of(move.target, comm)
        self.target_shape = None if target is None else move.target.local_shape(target)
        self._sends, self._receives, self._kept = [], [], None
        if source is not None:
            self._source_at = move.source.local_box(source).starts
            self._sends = [(place_of(piece.process, comm), piece.box) for piece in move.sends(source)]
        if target is not None:
            self._target_at = move.target.local_box(target).starts
            self._receives = [(place_of(piece.process, comm), piece.box) for piece in move.receives(target)]
            self._kept = move.kept_box(target)
        self._shapes = (
            (0,) * move.source.ndim if source is None else move.source.local_shape(source),
            (0,) * move.source.ndim if target is None else self.target_shape,
        )

    def run(self, arrays: Sequence[np.ndarray] | None, results: Sequence[np.ndarray] | None) -> None:
        """Moves boxes of ``arrays`` into ``results``, one array after the other.  Collective."""
        n = len(arrays if arrays is not None else results)
        for i in range(n):
            array = None if arrays is None else arrays[i]
            result = None if results is None else results[i]
            if self._kept is not None:
                kept = view_of(array, self._kept.relative_to(self._source_at))
                copy_views([(kept, view_of(result, self._kept.relative_to(self._target_at)))])
            self._run_slabs(array, result)

    def _run_slabs(self, array: np.ndarray | None, result: np.ndarray | None) -> None:
        under_way: deque = deque()
        for slab in range(self._slabs):
            steps = send_and_receive(self._comm, self._transfer(slab), array, result, next_tag(self._comm))
            under_way.append((steps, next(steps)))
            if len(under_way) == _UNDER_WAY:
                self._finish(*under_way.popleft())
        for each in under_way:
            self._finish(*each)

    def _finish(self, steps: Iterator, requests: list) -> None:
        self._comm.wait_all(requests)
        next(steps, None)

    def _transfer(self, slab: int) -> Transfer:
        sends = [
            Send(place, cut.relative_to(self._source_at))
            for place, box in self._sends
            for cut in slices_of(box, slab, self._slabs)
        ]
        receives = [
            Receive(place, cut, cut.relative_to(self._target_at))
            for place, box in self._receives
            for cut in slices_of(box, slab, self._slabs)
        ]
        return Transfer("pairwise", self._comm.rank, self._comm.size, *self._shapes, tuple(sends), tuple(receives), 0)

    def retire(self) -> None:
        """Nothing is kept.  Local."""
