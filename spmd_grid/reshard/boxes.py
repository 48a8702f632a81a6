"""An exchange of boxes between processes, made once for two layouts: what most parts of a plan are when they run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.channel import READ, STAGED, STRAIGHT, Channel
from spmd_grid.exchange.channel_rows import Taken
from spmd_grid.exchange.execute import next_tag, send_and_receive
from spmd_grid.exchange.paths import INLINE, MESSAGE, PACKED, chosen_path
from spmd_grid.exchange.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.grid.cells import Cells
from spmd_grid.kernels import slots as at
from spmd_grid.reduction_kind import as_reduction, identity
from spmd_grid.reshard.members import coords_of, place_of
from spmd_grid.reshard.redistribute import Redistribution
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["BoxExchange", "by_memory"]

# Boxes of at least this size are read where they lie.  Smaller ones come out of staging: that is a pass more over
# memory, but what a neighbour has read is dear to write to, line by line, until it is out of the caches.
_READ_BYTES = 3 << 20

# Boxes of at least this size go beside the channel where memory is not shared: packing them for persistent requests
# costs more than the requests save.
_LARGE_BYTES = 1 << 22


def by_memory() -> bool:
    """Whether processes of a node may meet in memory.  Local."""
    return chosen_path() not in (MESSAGE, PACKED, STRAIGHT, INLINE)


class BoxExchange:
    """One exchange of boxes between the local arrays of two layouts; what arrives of a partial value is folded.

    Collective over ``comm`` when made: a channel to the partners, with buffers and persistent requests.  Large boxes
    between processes that share no memory go beside it, by messages that are not packed where memory is contiguous.
    """

    def __init__(self, move: Redistribution, dtypes: Sequence[np.dtype], comm: Communicator, activity=None):
        self._move, self._dtypes, self._comm = move, tuple(dtypes), comm
        self._itemsize = sum(dtype.itemsize for dtype in dtypes)
        source, target = coords_of(move.source, comm), coords_of(move.target, comm)
        self._has_source, self._has_target = source is not None, target is not None
        self.target_shape = move.target.local_shape(target) if self._has_target else None
        self._hides = move.hidden is not None
        ndim = move.source.ndim + self._hides
        given, self._rows, gives, takes, sends, receives = (0,) * ndim, 1, [], [], [], []
        if self._has_source:
            given, origin = self._lent_by(source)
            for process, box in move.sends(source):
                place, box = place_of(process, comm), box.relative_to(origin)
                if self._is_large(process, box):
                    sends.append(Send(place, box))
                else:
                    gives.append((place, Cells.of_box(box)))
        if self._has_target:
            wanted = move.target_box(target)
            self._rows = wanted.stops[0] - wanted.starts[0] if self._hides else 1
            into = (*[self._rows] * self._hides, *self.target_shape)
            corner = (*wanted.starts[: self._hides], *move.target.local_box(target).starts)
            pieces = [(comm.processes[comm.rank], kept)] if (kept := move.kept_box(target)) is not None else []
            for process, box in (*pieces, *move.receives(target)):
                grid = move.source.grid
                shape, origin = self._lent_by(grid.multi_index(grid.device_of_process(process)))
                place, here, there = place_of(process, comm), box.relative_to(corner), box.relative_to(origin)
                if self._is_large(process, box):
                    receives.append(Receive(place, there, here))
                else:
                    takes.append(Taken(place, Cells.of_box(here), Cells.of_box(there), shape))
        else:
            into = (0,) * ndim
        self._channel = Channel(
            comm,
            given,
            dtypes,
            sorted(gives, key=lambda give: give[0]),
            sorted(takes, key=lambda take: take.place),
            into_shape=into,
            memory=by_memory(),
            read_from=(_READ_BYTES, 0),
            activity=activity,
        )
        if (path := chosen_path()) in (READ, STAGED, PACKED, STRAIGHT):
            self._channel.choose(path)
        ends = comm.rank, comm.size, given, into
        self._beside = Transfer("pairwise", *ends, tuple(sends), tuple(receives), 0) if sends or receives else None
        kept = self._channel.own
        self.keeps_places = all(take.source == take.target for take in kept) and self._beside is None
        self._empty = [np.empty(shape, dtype) for shape in (given, into) for dtype in dtypes]
        self._into_shape = into
        self._calls: dict = {}
        self._kind = as_reduction(move.source.sharding.partial_kind)
        if not move.source.sharding.partial_axes:
            self._kind = as_reduction(move.target.sharding.partial_kind)

    def _is_large(self, process: int, box: Box) -> bool:
        """Whether a box goes beside the channel: both ends come to the same answer."""
        if process == self._comm.processes[self._comm.rank] or box.size * self._itemsize < _LARGE_BYTES:
            return False
        return not by_memory() or self._comm.process.arena.base_of(process) is None

    def _lent_by(self, coords: MultiIndex) -> tuple[Shape, tuple[int, ...]]:
        """The shape of a source device's local array, and the global coordinates of its first cell."""
        move = self._move
        shape, origin = move.source.local_shape(coords), move.source.local_box(coords).starts
        if not self._hides:
            return shape, origin
        return (1, *shape), (move.source_box(coords).starts[0], *origin)

    def run(self, arrays: Sequence[np.ndarray] | None, results: Sequence[np.ndarray] | None) -> None:
        """Moves boxes of ``arrays`` into ``results``.  Collective; each is ignored where this process has no part."""
        n = len(self._dtypes)
        given, into = self._empty[:n], self._empty[n:]
        if self._has_source:
            given = [array[None] for array in arrays] if self._hides else arrays
        folds = self._has_target and self._hides and self._rows != 1
        if self._has_target and self._rows:
            if folds:
                shape = self._into_shape
                into = [np.zeros(shape, dtype) if self._has_halos else np.empty(shape, dtype) for dtype in self._dtypes]
            else:
                into = [result[None] for result in results] if self._hides else results
        channel, comm = self._channel, self._comm
        tags = [next_tag(comm) for _ in self._dtypes]  # on all members, whoever has large boxes
        under_way = []
        if self._beside is not None:
            for array, result, tag in zip(given, into, tags, strict=True):
                steps = send_and_receive(comm, self._beside, array, result, tag)
                under_way.append((steps, next(steps)))
        if channel.run(at.UPDATE, self._call(given, into)):
            channel.raise_ended()
        for steps, requests in under_way:
            comm.wait_all(requests)
            next(steps, None)
        if folds:
            for stack, result in zip(into, results, strict=True):
                self._fold(stack, result)

    @property
    def _has_halos(self) -> bool:
        return self._move.target.sharding.halo_sizes is not None

    def _call(self, given: Sequence[np.ndarray], into: Sequence[np.ndarray]):
        """What the channel has to know of these arrays, kept for the next time they come."""
        key = tuple([(kernels.address_of(x), x.strides) for side in (given, into) for x in side])
        found = self._calls.get(key)
        if found is None:
            if len(self._calls) >= 64:
                self._calls.clear()
            found = self._calls[key] = self._channel.call(given, into)
        return found

    def _fold(self, stack: np.ndarray, result: np.ndarray) -> None:
        """Combines what has arrived, in the order of the contributions."""
        if not len(stack):
            inside = result[self._inside()]
            inside[...] = identity(self._kind, result.dtype)
            return
        flat = result.reshape(-1) if result.flags.c_contiguous else np.empty(result.size, result.dtype)
        kernels.fold(self._kind.name, stack.reshape(len(stack), -1), flat)
        if not result.flags.c_contiguous:
            result[...] = flat.reshape(result.shape)

    def _inside(self) -> tuple[slice, ...]:
        coords = coords_of(self._move.target, self._comm)
        return (..., *self._move.target.in_domain_local(coords).slices())

    def retire(self) -> None:
        """Gives the channel back.  Local."""
        self._channel.retire()
