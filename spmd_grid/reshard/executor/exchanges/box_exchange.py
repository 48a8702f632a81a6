"""An exchange of boxes between processes, made once for two layouts and run many times: most steps run as one.

On one node, boxes too large for staging are read out of the sender's array if all members' arrays allow it; if not,
they are staged piece by piece, in rounds.  Between nodes, cells that several processes of a node need cross once, in
lanes: each receives one lane, and copies the others from their results (`NodeSharing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.meeting import Meeting
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.agreement.relay import RelayProgram
from spmd_grid.exchange.channel.calls import ChannelCall
from spmd_grid.exchange.channel.channel import Channel
from spmd_grid.exchange.channel.copy_table import Taken
from spmd_grid.exchange.channel.shared_block import LINE_PAIR_BYTES
from spmd_grid.exchange.paths import PACKED, READ, STAGED, STRAIGHT, allows_memory, chosen_path
from spmd_grid.exchange.transfer.execute import next_tag, send_and_receive
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.exchange.transfer.transfer import Transfer
from spmd_grid.grid.cells import Cells
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.reduction_kind import as_reduction, identity
from spmd_grid.reshard.executor.exchanges.local_boxes import LocalBoxes, copies_of
from spmd_grid.reshard.executor.exchanges.node_sharing import NodeSharing
from spmd_grid.reshard.executor.exchanges.relayed_boxes import RelayedBoxes
from spmd_grid.reshard.executor.exchanges.relayed_folds import RelayedFolds
from spmd_grid.reshard.executor.exchanges.shared_copies import SharedCopies
from spmd_grid.reshard.executor.exchanges.staged_rounds import Rounds, Stacked, n_pieces, own_in_boxes
from spmd_grid.reshard.executor.members import coords_of
from spmd_grid.reshard.geometry.messages import Piece, Redistribution
from spmd_grid.transport.communicator import Communicator

__all__ = ["MOST_STAGED_BYTES", "BoxExchange"]

# On one node, no process holds more than this besides its arrays: staging, twice, and stacks of contributions.  With
# less, more rounds would be needed, in which processes that share a processor wait for one another.
MOST_STAGED_BYTES = 2 << 20

# The most bytes of a result that one compiled call copies, which keeps the interpreter's lock.
_MOST_COPIED = 1 << 24

# Boxes of at least this size are read out of the sender's array.  Smaller ones pass through staging: one more pass over
# memory, but lines that a neighbour has read are expensive to write to until they have left the caches.
_READ_BYTES = 3 << 20

# Far processors stage even those, past the caches, unless they are so large that no cache holds them.
_LEFT_CACHES = 1 << 24


class BoxExchange:
    """One exchange of boxes between the local arrays of two layouts; contributions to a partial value are folded.

    Collective over ``comm`` when made: a channel to the partners, with buffers and persistent requests.  Large boxes
    between processes that share no memory bypass it, as messages that are not packed where memory is contiguous.
    ``capacity``: on one node, the most bytes that it may hold besides the arrays.  ``follows``: whether another
    exchange of the plan runs before it without a meeting in between: a relay then holds a meeting of its own.
    """

    def __init__(
        self,
        move: Redistribution,
        dtypes: Sequence[np.dtype],
        comm: Communicator,
        activity: CollectiveCall | None = None,
        capacity: int = MOST_STAGED_BYTES,
        follows: bool = False,
    ):
        self._move, self._dtypes, self._comm = move, tuple(dtypes), comm
        self._itemsize = sum(dtype.itemsize for dtype in dtypes)
        source, target = coords_of(move.source, comm), coords_of(move.target, comm)
        self._has_source, self._has_target = source is not None, target is not None
        self.target_shape = None if target is None else move.target.local_shape(target)
        self._hides = move.hidden is not None
        self._sharing = NodeSharing.of(move, comm)
        boxes = LocalBoxes(move, comm, self._itemsize, self._sharing)
        given, into, gives, takes = boxes.given_shape, boxes.into_shape, boxes.gives, boxes.takes
        self._rows = boxes.rows
        self._folds = self._has_target and self._hides and self._rows != 1
        partial = move.source if move.source.sharding.partial_axes else move.target
        self._kind = as_reduction(partial.sharding.partial_kind)
        self._follows = follows
        self._relay = self._relay_of(boxes)
        self._distance = False, False
        if self._relay is not None:
            capacity //= 2  # the ring has the other half of what all exchanges of a plan may hold
        self._rounds = self._agree_on_rounds(gives, takes, prod(into) if self._folds else 0, capacity)
        self._channel = Channel(
            comm,
            given,
            dtypes,
            gives,
            takes if self._rounds is None else self._rounds.takes,
            into_shape=into,
            memory=allows_memory(chosen_path()),
            read_from=(_READ_BYTES, 0),
            rounds=self._rounds or (),
            activity=activity,
        )
        if self._rounds is not None:
            self._channel.choose(READ if self._are_read else STAGED)
        elif (path := chosen_path()) in (READ, STAGED, PACKED, STRAIGHT):
            self._channel.choose(path)
        self._shared = None
        if self._sharing is not None:
            shared = self._sharing.copies(boxes.result_of)
            self._shared = SharedCopies(comm, into, dtypes, *shared, MOST_STAGED_BYTES, activity)
        ends = comm.rank, comm.size, given, into
        beside = Transfer("pairwise", *ends, tuple(boxes.sends), tuple(boxes.receives), 0)
        self._beside = beside if boxes.sends or boxes.receives else None
        # Not in rounds or steps, nor with messages beside the channel: boxes arrive while others are still to be sent.
        stays = all(take.source == take.target for take in self._channel.own)
        at_once = self._rounds is None and (self._relay is None or self._relay.packs_first)
        self.works_in_place = stays and self._beside is None and at_once
        self._empty = [np.empty(shape, dtype) for shape in (given, into) for dtype in dtypes]
        self._into_shape = into
        self._calls: dict[tuple, ChannelCall] = {}
        self._stacked: list[np.ndarray] | None = None

    def _relay_of(self, boxes: LocalBoxes) -> RelayedBoxes | None:
        """The relay that may move the boxes, where all members share memory; alike on all members.  Collective."""
        comm = self._comm
        may = len(self._dtypes) == 1 and allows_memory(chosen_path()) and chosen_path() not in (READ, STAGED)
        if not may or comm.shares_objects or not comm.shares_memory:
            return None
        meeting = meeting_of(comm)
        if not isinstance(meeting, MemoryMeeting):
            return None
        if meeting.most(int(self._folds)):
            return RelayedFolds.of(comm, meeting, boxes, self._dtypes[0], self._kind)
        return RelayedBoxes(comm, meeting, boxes, self._itemsize)

    def _agree_on_rounds(
        self, gives: list[tuple[int, Cells]], takes: list[Taken], stacked: int, capacity: int
    ) -> Rounds | None:
        """The rounds of boxes that do not fit into ``capacity`` all at once, alike on all members.

        Collective.  ``stacked``: cells of the contributions that this process folds.  None where they fit, or not all
        members are on one node.
        """
        comm, n_bytes = self._comm, self._itemsize
        if not allows_memory(chosen_path()) or comm.shares_objects or not comm.shares_memory:
            return None
        meeting, given = meeting_of(comm), [prod(cells.shape) for _, cells in gives]
        if meeting.most((2 * sum(given) + stacked) * n_bytes + 2 * LINE_PAIR_BYTES * len(given)) <= capacity:
            return None
        largest = meeting.most(max(given, default=0) * n_bytes)
        self._are_read = {READ: True, STAGED: False}.get(chosen_path(), largest >= _READ_BYTES)
        self._must_be_read = chosen_path() is READ or largest > _LEFT_CACHES
        self._all_at_once = self._reads_at_once = self._are_read and not meeting.most(int(self._folds))
        if self._folds:
            takes = own_in_boxes(takes, comm.rank)
        boxes = max(meeting.most(2 * len(gives) + (len(takes) if self._folds else 0)), 1)
        most = max((capacity // boxes - LINE_PAIR_BYTES) // n_bytes, 1)
        count = meeting.most(max([n_pieces(cells, most) for _, cells in gives], default=1))
        if self._folds:
            return Stacked(gives, takes, comm.rank, most, count, self._rows)
        return Rounds(gives, takes, comm.rank, most, count)

    def run(self, arrays: Sequence[np.ndarray] | None, results: Sequence[np.ndarray] | None) -> None:
        """Move boxes of ``arrays`` into ``results``.  Collective; each is ignored where this process has no part."""
        n = len(self._dtypes)
        given: Sequence[np.ndarray] = self._empty[:n]
        into: Sequence[np.ndarray] = self._empty[n:]
        if arrays is not None and self._has_source:
            given = [array[None] for array in arrays] if self._hides else arrays
        if results is not None and self._rows and not self._folds:
            into = [result[None] for result in results] if self._hides else results
        if self._relay is not None and self._is_relayed(self._relay, given, into):
            if self._follows:
                self._relay.meeting.swap()
            if isinstance(self._relay, RelayedFolds):
                self._relay.fold(given[0], None if results is None else results[0])
            else:
                self._relay.run(given[0], into[0])
        else:
            self._run_by_channel(given, into, results)
        if self._relay is not None and not self._follows:
            self._relay.meeting.note_end()

    def _is_relayed(self, relay: RelayedBoxes, given: Sequence[np.ndarray], into: Sequence[np.ndarray]) -> bool:
        """Whether the relay moves the boxes of such arrays; alike on all members.  Collective."""
        return relay.is_certain if self._follows else relay.suits(lambda: self._all_can_be_read(given, into))

    def _run_by_channel(
        self, given: Sequence[np.ndarray], into: Sequence[np.ndarray], results: Sequence[np.ndarray] | None
    ) -> None:
        if self._comm.meeting is not None:
            self._choose_by_distance(self._comm.meeting)
        if self._rounds is not None and not (self._reads_at_once and self._all_can_be_read(given, into)):
            self._run_in_rounds(self._rounds, given, into, results)
            return
        if self._folds and self._rows:
            into = self._stacks(self._into_shape)
        channel, comm = self._channel, self._comm
        tags = [next_tag(comm) for _ in self._dtypes]  # on all members, with large boxes or without
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
        if self._shared is not None:
            self._shared.run(into)
        if self._folds and results is not None:
            for stack, result in zip(into, results, strict=True):
                self._fold(stack, result)

    def _choose_by_distance(self, meeting: Meeting) -> None:
        """Set whether boxes are staged past the caches, and whether any are read out of arrays.

        Local, alike on all members.
        """
        far, streams = meeting.is_far, meeting.streams
        if (far, streams) == self._distance:
            return
        self._distance = far, streams
        self._channel.stage_past_caches(streams)
        if self._rounds is not None and self._are_read and not self._must_be_read:
            self._reads_at_once = self._all_at_once and not far
            self._channel.choose(STAGED if far else READ)

    def _all_can_be_read(self, given: Sequence[np.ndarray], into: Sequence[np.ndarray]) -> bool:
        """Whether all members' arrays are in memory that the others can read.  Collective."""
        offsets = self._call(given, into).words[at.CALL_FIELDS + at.F_OFFSET :: at.FIELD_WORDS]
        return not meeting_of(self._comm).most(int(bool(self._channel.readers) and min(offsets.tolist()) < 0))

    def _run_in_rounds(
        self,
        rounds: Rounds,
        given: Sequence[np.ndarray],
        into: Sequence[np.ndarray],
        results: Sequence[np.ndarray] | None,
    ) -> None:
        """Move the boxes piece by piece.  Collective."""
        if results is None or not isinstance(rounds, Stacked):
            call = self._call(given, into, in_rounds=True)
            for number in range(rounds.count):
                self._channel.run_round(number, call)
            return
        if not self._rows:
            for stack, result in zip(into, results, strict=True):
                self._fold(stack, result)
        into = self._stacks((rounds.most_stacked,))
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

    def _stacks(self, shape: Sequence[int]) -> list[np.ndarray]:
        """Memory in which contributions are stacked: one array per dtype, kept between runs.

        The first touch of memory costs more than the copies into it.  Cells that no box fills, of halos, stay 0.
        """
        if self._stacked is None:
            self._stacked = [np.zeros(shape, dtype) for dtype in self._dtypes]
        return self._stacked

    @property
    def sent(self) -> Sequence[Piece]:
        """The pieces that this process gives to others: to other nodes, and on its own.  Local."""
        if self._sharing is not None:
            return [*self._sharing.sends(), *self._sharing.gives()]
        source = coords_of(self._move.source, self._comm)
        return () if source is None else self._move.sends(source)

    @property
    def relay(self) -> RelayedBoxes | None:
        """The relay by which boxes may pass, through the ring of the group."""
        return self._relay

    def program(self, x: np.ndarray | None, result: np.ndarray | None) -> RelayProgram | None:
        """The relay by which compiled runs move the boxes of such arrays, if they do; alike on all members."""
        if self._relay is None or not self._relay.is_compiled:
            return None
        return self._relay.program(*self._ends(x, result))

    def copies(self, x: np.ndarray | None, result: np.ndarray | None) -> list[kernels.BoxRow] | None:
        """The copies, if a process alone makes them and they are few; else None.  Local."""
        if self._comm.size > 1 or len(self._dtypes) > 1 or self._folds:
            return None
        given, into = self._ends(x, result)
        return None if into.nbytes > _MOST_COPIED else copies_of(self._channel.own, given, into)

    def _ends(self, x: np.ndarray | None, result: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The arrays that cells leave and arrive in, or others of their shapes."""
        given, into = ([] if each is None else [each[None] if self._hides else each] for each in (x, result))
        return (given or self._empty)[0], (into or self._empty[-1:])[0]

    @property
    def staging_bytes(self) -> int:
        """Bytes held besides the arrays: cells packed for others of the node, twice, and stacks of contributions.

        A relay's ring, which all exchanges of a group share, is not counted.
        """
        staging = self._channel.staging_bytes + (0 if self._shared is None else self._shared.staging_bytes)
        if not self._folds:
            return staging
        stacked = self._rounds.most_stacked if isinstance(self._rounds, Stacked) else prod(self._into_shape)
        return staging + stacked * self._itemsize

    def _call(self, given: Sequence[np.ndarray], into: Sequence[np.ndarray], in_rounds: bool = False) -> ChannelCall:
        """The channel's call for these arrays, kept for the next run with the same ones."""
        key = in_rounds, *[(kernels.address_of(x), x.strides) for side in (given, into) for x in side]
        found = self._calls.get(key)
        if found is None:
            if len(self._calls) >= 64:
                self._calls.clear()
            found = self._calls[key] = self._channel.call(given, into, in_rounds)
        return found

    def _fold(self, stack: np.ndarray, result: np.ndarray) -> None:
        """Combine the contributions, in their order."""
        if not len(stack):
            coords = coords_of(self._move.target, self._comm)
            if coords is not None:
                inside = view_of(result, self._move.target.in_domain_local(coords))
                inside[...] = identity(self._kind, result.dtype)
            return
        flat = result.reshape(-1) if result.flags.c_contiguous else np.empty(result.size, result.dtype)
        kernels.fold(self._kind.name, stack.reshape(len(stack), -1), flat)
        if not result.flags.c_contiguous:
            result[...] = flat.reshape(result.shape)

    def retire(self) -> None:
        """Give the channel back.  Local."""
        self._channel.retire()
        if self._shared is not None:
            self._shared.retire()
        self._stacked = None
