"""A plan bound to processes: its exchanges made ready, and the arrays between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.channel import READ, STAGED, STRAIGHT, Channel
from spmd_grid.exchange.channel_rows import Taken
from spmd_grid.exchange.paths import INLINE, MESSAGE, PACKED, chosen_path
from spmd_grid.grid.cells import Cells
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.kernels import slots as at
from spmd_grid.reduction_kind import as_reduction, identity
from spmd_grid.reshard.members import coords_of, place_of
from spmd_grid.reshard.native import NativeExchange, is_native
from spmd_grid.reshard.plan import Plan
from spmd_grid.reshard.redistribute import Redistribution
from spmd_grid.reshard.slabs import SlabExchange
from spmd_grid.reshard.steps import Step
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["BoundPlan"]

# Boxes of at least this size are read where they lie; smaller ones come out of staging, which saves an answer.
_READ_BYTES = 1 << 14


class BoundPlan:
    """A plan on the processes of ``comm``, ready to run.  Collective over them when made, and when run."""

    def __init__(self, plan: Plan, grid: ProcessGrid, comm: Communicator, activity=None):
        self.plan = plan
        self._grid = grid
        self._exchanges = [self._bind(part, move, comm, activity) for part, move in zip(plan.parts, plan.moves)]
        self._may_run_in_place = len(self._exchanges) != 1 or self._exchanges[0].keeps_places
        self._between: list[list[np.ndarray]] | None = None
        coords = coords_of(plan.target, comm)
        self._has_result = coords is not None
        self._result_shape = plan.target.local_shape(coords) if self._has_result else None
        self._outside = list(outside(plan.target, coords)) if self._has_result else []

    def _bind(self, part: Step, move: Redistribution, comm: Communicator, activity):
        """The part ready to run, in the way that suits it: alike on all processes."""
        if self.plan.slabs > 1:
            return SlabExchange(move, self.plan.dtypes, comm, self.plan.slabs)
        if is_native(part, comm, _by_memory()):
            return NativeExchange(part, self.plan.dtypes, comm, self._grid)
        return BoundExchange(move, self.plan.dtypes, comm, activity)

    def run(self, arrays: Sequence[np.ndarray] | None, outs: Sequence[np.ndarray] | None) -> list[np.ndarray] | None:
        """The arrays in the target's layout, in ``outs`` where given; None on a process outside the target.

        Collective.  ``arrays`` is None on a process outside the source.  They may be ``outs``.
        """
        results = self._allocate(self._result_shape) if outs is None else list(outs)
        if not self._exchanges:
            if arrays is not None:
                for array, result in zip(arrays, results, strict=True):
                    np.copyto(result, array)
            return results if self._has_result else None
        if outs is not None and arrays is not None and not self._may_run_in_place:
            # What stays on this process would be written over before it has been read.
            pairs = zip(arrays, outs, strict=True)
            arrays = [array.copy() if np.may_share_memory(array, out) else array for array, out in pairs]
        stops = [arrays, *self._kept_between(), results]
        for exchange, before, after in zip(self._exchanges, stops, stops[1:]):
            exchange.run(before, after)
        if not self._has_result:
            return None
        for result in results if self._outside else ():
            for cells in self._outside:
                result[cells] = 0
        return results

    def _allocate(self, shape: Shape | None) -> list[np.ndarray | None]:
        if shape is None:
            return [None for _ in self.plan.dtypes]
        return [self._grid.allocate(shape, dtype) for dtype in self.plan.dtypes]

    def _kept_between(self) -> list[list[np.ndarray | None]]:
        """The arrays between steps, made once: the first touch of memory costs more than the bytes that pass."""
        if self._between is None:
            self._between = [self._allocate(exchange.target_shape) for exchange in self._exchanges[:-1]]
        return self._between

    def describe(self) -> list[str]:
        """How each exchange goes, as this process sees it.  Local."""
        return [exchange.describe() for exchange in self._exchanges]

    def retire(self) -> None:
        """Gives back what it holds, once no neighbour needs it.  Local."""
        for exchange in self._exchanges:
            exchange.retire()
        self._between = None


class BoundExchange:
    """One exchange of boxes between the local arrays of two layouts; what arrives of a partial value is folded.

    Collective over ``comm`` when made: a channel to the partners, with buffers and persistent requests.
    """

    def __init__(self, move: Redistribution, dtypes: Sequence[np.dtype], comm: Communicator, activity=None):
        self._move, self._dtypes, self._comm = move, tuple(dtypes), comm
        source, target = coords_of(move.source, comm), coords_of(move.target, comm)
        self._has_source, self._has_target = source is not None, target is not None
        self.target_shape = move.target.local_shape(target) if self._has_target else None
        self._hides = move.hidden is not None
        ndim = move.source.ndim + self._hides
        given, self._rows, gives, takes = (0,) * ndim, 1, [], []
        if self._has_source:
            given, origin = self._lent_by(source)
            for piece in move.sends(source):
                gives.append((place_of(piece.process, comm), Cells.of_box(piece.box.relative_to(origin))))
        if self._has_target:
            wanted = move.target_box(target)
            self._rows = wanted.stops[0] - wanted.starts[0] if self._hides else 1
            into = (*[self._rows] * self._hides, *self.target_shape)
            corner = (*wanted.starts[: self._hides], *move.target.local_box(target).starts)
            pieces = [(comm.processes[comm.rank], kept)] if (kept := move.kept_box(target)) is not None else []
            for process, box in (*pieces, *move.receives(target)):
                grid = move.source.grid
                shape, origin = self._lent_by(grid.multi_index(grid.device_of_process(process)))
                cells = [Cells.of_box(box.relative_to(start)) for start in (corner, origin)]
                takes.append(Taken(place_of(process, comm), *cells, shape))
        else:
            into = (0,) * ndim
        self._channel = Channel(
            comm,
            given,
            dtypes,
            sorted(gives, key=lambda give: give[0]),
            sorted(takes, key=lambda take: take.place),
            into_shape=into,
            memory=_by_memory(),
            read_from=(_READ_BYTES, 0),
            activity=activity,
        )
        if (path := chosen_path()) in (READ, STAGED, PACKED, STRAIGHT):
            self._channel.choose(path)
        kept = self._channel.own
        self.keeps_places = all(take.source == take.target for take in kept) and given[-ndim:] == into[-ndim:]
        self._empty = [np.empty(shape, dtype) for shape in (given, into) for dtype in dtypes]
        self._given_shape, self._into_shape = given, into
        self._calls: dict = {}
        self._kind = as_reduction(move.source.sharding.partial_kind)
        if not move.source.sharding.partial_axes:
            self._kind = as_reduction(move.target.sharding.partial_kind)

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
        channel = self._channel
        if channel.run(at.UPDATE, self._call(given, into)):
            channel.raise_ended()
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

    def describe(self) -> str:
        """The partners and how cells go to and from them, in words.  Local."""
        channel = self._channel
        ways = {channel.way_to(place) for place in {*channel.takes, *channel.gives}}
        partners = len({*channel.takes, *channel.gives})
        return f"{partners} partners, {' and '.join(sorted(ways)) or 'nothing is sent'}"

    def retire(self) -> None:
        """Gives the channel back.  Local."""
        self._channel.retire()


def _by_memory() -> bool:
    """Whether processes of a node may meet in memory.  Local."""
    return chosen_path() not in (MESSAGE, PACKED, STRAIGHT, INLINE)


def outside(layout: Layout, coords: MultiIndex) -> Iterator[tuple[slice, ...]]:
    """The cells of a local array that lie outside the domain, as indices of slabs.  Local."""
    inside = layout.in_domain_local(coords)
    shape = layout.local_shape(coords)
    for dim, (start, stop) in enumerate(zip(inside.starts, inside.stops, strict=True)):
        for low, high in ((0, start), (max(stop, start), shape[dim])):
            if low < high:
                yield (*[slice(None)] * dim, slice(low, high))
