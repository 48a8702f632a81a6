"""An exchange of boxes between processes, made once for two layouts: what most parts of a plan are when they run.

On one node, boxes too large for staging are read where they lie if all members' arrays can be; if not, they are staged
piece by piece, in rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.channel.channel import READ, STAGED, STRAIGHT, Channel
from spmd_grid.exchange.channel.copy_table import Taken
from spmd_grid.exchange.channel.shared_block import LINE_PAIR_BYTES
from spmd_grid.exchange.paths import INLINE, MESSAGE, PACKED, chosen_path
from spmd_grid.exchange.transfer.execute import next_tag, send_and_receive
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.grid.cells import Cells
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.reduction_kind import as_reduction, identity
from spmd_grid.reshard.executor.members import coords_of, place_of
from spmd_grid.reshard.executor.staged_rounds import Rounds, Stacked, n_pieces, own_in_boxes
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["STAGING_BYTES", "BoxExchange", "by_memory"]

# On one node, no process holds more than this beside its arrays: staging, twice, and stacks of what is folded.  Less
# would make more rounds, in which processes that have to share a processor wait for one another; more, miss the caches.
STAGING_BYTES = 2 << 20

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
    ``room``: on one node, the most bytes that it may hold beside the arrays.
    """

    def __init__(
        self,
        move: Redistribution,
        dtypes: Sequence[np.dtype],
        comm: Communicator,
        activity=None,
        room: int = STAGING_BYTES,
    ):
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
        self._folds = self._has_target and self._hides and self._rows != 1
        gives, takes = sorted(gives, key=lambda give: give[0]), sorted(takes, key=lambda take: take.member)
        self._rounds = self._agree_on_rounds(gives, takes, prod(into) if self._folds else 0, room)
        self._channel = Channel(
            comm,
            given,
            dtypes,
            gives,
            takes if self._rounds is None else self._rounds.takes,
            into_shape=into,
            memory=by_memory(),
            read_from=(_READ_BYTES, 0),
            rounds=self._rounds or (),
            activity=activity,
        )
        if self._rounds is not None:
            self._channel.choose(READ if self._are_read else STAGED)
        elif (path := chosen_path()) in (READ, STAGED, PACKED, STRAIGHT):
            self._channel.choose(path)
        ends = comm.rank, comm.size, given, into
        self._beside = Transfer("pairwise", *ends, tuple(sends), tuple(receives), 0) if sends or receives else None
        # Not in rounds, and not beside the channel: there boxes land while others are still to be given.
        stays = all(take.source == take.target for take in self._channel.own)
        self.keeps_places = stays and self._beside is None and self._rounds is None
        self._empty = [np.empty(shape, dtype) for shape in (given, into) for dtype in dtypes]
        self._into_shape = into
        self._calls: dict = {}
        self._stacked: list[np.ndarray] | None = None
        self._kind = as_reduction(move.source.sharding.partial_kind)
        if not move.source.sharding.partial_axes:
            self._kind = as_reduction(move.target.sharding.partial_kind)

    def _agree_on_rounds(self, gives, takes, stacked: int, room: int) -> Rounds | None:
        """The rounds in which boxes go that all at once would not fit into ``room``, alike on all members.

        Collective.  ``stacked``: cells of the contributions that this process folds.  None: they fit, or not all
        members are on one node.
        """
        comm, n_bytes = self._comm, self._itemsize
        if not by_memory() or comm.shares_objects or not comm.shares_memory:
            return None
        meeting, given = meeting_of(comm), [prod(cells.shape) for _, cells in gives]
        if meeting.most((2 * sum(given) + stacked) * n_bytes + 2 * LINE_PAIR_BYTES * len(given)) <= room:
            return None
        largest = meeting.most(max(given, default=0) * n_bytes)
        self._are_read = {READ: True, STAGED: False}.get(chosen_path(), largest >= _READ_BYTES)
        self._all_at_once = self._are_read and not meeting.most(int(self._folds))
        if self._folds:
            takes = own_in_boxes(takes, comm.rank)
        boxes = max(meeting.most(2 * len(gives) + (len(takes) if self._folds else 0)), 1)
        most = max((room // boxes - LINE_PAIR_BYTES) // n_bytes, 1)
        count = meeting.most(max([n_pieces(cells, most) for _, cells in gives], default=1))
        if self._folds:
            return Stacked(gives, takes, comm.rank, most, count, self._rows)
        return Rounds(gives, takes, comm.rank, most, count)

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
        if self._has_target and self._rows and not self._folds:
            into = [result[None] for result in results] if self._hides else results
        if self._rounds is not None and not (self._all_at_once and self._all_can_be_read(given, into)):
            self._run_in_rounds(given, into, results)
            return
        if self._folds and self._rows:
            shape = self._into_shape
            into = [np.zeros(shape, dtype) if self._has_halos else np.empty(shape, dtype) for dtype in self._dtypes]
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
        if self._folds:
            for stack, result in zip(into, results, strict=True):
                self._fold(stack, result)

    def _all_can_be_read(self, given: Sequence[np.ndarray], into: Sequence[np.ndarray]) -> bool:
        """Whether all members' arrays lie where the others can read them.  Collective."""
        offsets = self._call(given, into).words[at.CALL_FIELDS + at.F_OFFSET :: at.FIELD_WORDS]
        return not meeting_of(self._comm).most(int(bool(self._channel.readers) and min(offsets.tolist()) < 0))

    def _run_in_rounds(self, given: Sequence[np.ndarray], into: Sequence[np.ndarray], results) -> None:
        """Moves the boxes piece by piece.  Collective."""
        rounds = self._rounds
        if not self._folds:
            call = self._call(given, into, in_rounds=True)
            for number in range(rounds.count):
                self._channel.run_round(number, call)
            return
        if not self._rows:
            for stack, result in zip(into, results, strict=True):
                self._fold(stack, result)
        into = self._stacks()
        call = self._call(given, into, in_rounds=True)
        for number in range(rounds.count):
            self._channel.run_round(number, call)
            for start, cells in rounds.stacks(number):
                for flat, result in zip(into, results, strict=True):
                    rows = flat[start : start + self._rows * cells.size].reshape(self._rows, cells.size)
                    part = view_of(result, cells)
                    if part.flags.c_contiguous:
                        kernels.fold(self._kind.name, rows, part.reshape(-1))
                    else:
                        kernels.fold(self._kind.name, rows, rows[0])
                        part[...] = rows[0].reshape(part.shape)

    def _stacks(self) -> list[np.ndarray]:
        """Memory in which every round stacks contributions: one array per field, kept between runs."""
        if self._stacked is None:
            self._stacked = [np.empty(self._rounds.most_stacked, dtype) for dtype in self._dtypes]
        return self._stacked

    @property
    def staging_bytes(self) -> int:
        """What it holds beside the arrays: cells packed for others of the node, twice, and stacks of what it folds."""
        if not self._folds:
            return self._channel.staging_bytes
        stacked = prod(self._into_shape) if self._rounds is None else self._rounds.most_stacked
        return self._channel.staging_bytes + stacked * self._itemsize

    @property
    def _has_halos(self) -> bool:
        return self._move.target.sharding.halo_sizes is not None

    def _call(self, given: Sequence[np.ndarray], into: Sequence[np.ndarray], in_rounds: bool = False):
        """What the channel has to know of these arrays, kept for the next time they come."""
        key = in_rounds, *[(kernels.address_of(x), x.strides) for side in (given, into) for x in side]
        found = self._calls.get(key)
        if found is None:
            if len(self._calls) >= 64:
                self._calls.clear()
            found = self._calls[key] = self._channel.call(given, into, in_rounds)
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
        self._stacked = None
