"""Copies from large arrays of other members that lie outside the node's memory: the system makes them, in one pass."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.header import Facts, encode_facts, given_results
from spmd_grid.exchange.agreement.memory_meeting import MOST_COMPILED, MemoryMeeting
from spmd_grid.exchange.channel.copy_table import c_strides
from spmd_grid.exchange.paths import DIRECT
from spmd_grid.exchange.transfer.fetch import FetchProgram
from spmd_grid.exchange.transfer.memory_reads import MemoryReads
from spmd_grid.exchange.transfer.transfer import Receive, Transfer
from spmd_grid.kernels import BoxRow
from spmd_grid.kernels.copy.tables import ALWAYS
from spmd_grid.ops.calls.bounded_cache import keep
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.loops.work import LoopWork
from spmd_grid.transport.communicator import Frames
from spmd_grid.typing import Shape

__all__ = ["FetchedCopies"]

# Bytes of the shortest runs, on average, that are fetched: the system looks each of them up.
_LEAST_RUN = 1 << 14


class FetchedCopies:
    """Moves the boxes of ``transfer`` out of the other members' arrays, where the system lets this process read them.

    Each member reads what it needs.  None packs anything, but all wait until all have read.
    """

    def __init__(self, call: CollectiveCall, facts: Sequence[Facts], transfer: Transfer):
        self._call, self._facts, self._transfer = call, facts, transfer
        self._most = max(fact.nbytes for fact in facts)
        self._key = call.fingerprint, self._most, given_results(facts)
        # A member may have forgotten this object and made it anew, alone: the meeting keeps what all have agreed on.
        self._short_key = call.fingerprint, b"".join(map(encode_facts, facts))
        self._readable: dict[bytes | None, bool] = {}
        self._programs: dict[Hashable, FetchProgram] = {}

    def suits(self, frames: Frames) -> bool:
        """Whether this beats relaying the arrays, of which not all lie in the node's memory.

        Collective; the same on all members.  The meeting's `note_end` follows each run.
        """
        meeting = self._call.meeting
        if self._call.path is not DIRECT or not isinstance(meeting, MemoryMeeting) or not meeting.may_fetch(self._most):
            return False
        readable = self._readable.get(frames.locations)
        if readable is None:
            readable = meeting.addresses(frames, self._facts) is not None and meeting.fetches()
            keep(self._readable, frames.locations, readable)
        if not readable or meeting.kept_most(self._short_key, self._has_short_runs):
            return False
        return meeting.better_fetched(self._most, self._key)

    def run(self, target: np.ndarray | None, frames: Frames) -> None:
        """Copy all boxes to ``target``.  Collective."""
        meeting = self._call.meeting
        assert isinstance(meeting, MemoryMeeting)
        addresses = meeting.addresses(frames, self._facts)
        assert addresses is not None  # `suits` has seen them
        into, processes = () if target is None else target.strides, tuple(found.process for found in addresses)
        program = self._programs.get((into, processes))
        if program is None:
            program = self._program(meeting, into, processes)
            keep(self._programs, (into, processes), program)
        program.sources[:] = [found.address for found in addresses]
        meeting.fetch(program, target)

    def loop_work(self, relayed: LoopWork | None, into: Shape) -> LoopWork | None:
        """Return what compiled runs do for results with such strides; ``relayed`` is for relays alone.

        Local.  Until it is known whether the system copies, for arrays alone that all can be read.
        """
        meeting = self._call.meeting
        if not (isinstance(meeting, MemoryMeeting) and self._call.lets_read and meeting.may_fetch(self._most)):
            return relayed
        ways, processes, are_short = (
            meeting.fetch_ways(self._key),
            meeting.processes,
            meeting.known_most(self._short_key),
        )
        if processes == [] or are_short:
            return relayed
        if processes is None or are_short is None:
            return relayed._replace(ways=ways) if relayed is not None and relayed.read is not None else None
        has_array = [member for member, fact in enumerate(self._facts) if fact.nbytes]
        away = [processes[i] if i in has_array and i != self._transfer.rank else 0 for i in range(len(processes))]
        work = LoopWork() if relayed is None else relayed
        return work._replace(fetch=self._program(meeting, into, away), ways=ways, unless_read=has_array)

    def reading(self, into: Shape) -> FetchProgram | None:
        """The copies that make a result with strides ``into``, of arrays that all can be read where they lie.

        Local.  None where compiled runs do not make them.
        """
        meeting = self._call.meeting
        if not isinstance(meeting, MemoryMeeting) or self._most > MOST_COMPILED:
            return None
        return self._program(meeting, into, [0] * self._transfer.size)

    def _program(self, meeting: MemoryMeeting, into: Shape, processes: Sequence[int]) -> FetchProgram:
        """The copies that make a result with strides ``into``, from this member's own array first.

        Large results, past the caches, come in the same order everywhere: one fetch from memory serves all.
        """
        size, streams = self._transfer.size, kernels.streams_for(self._n_bytes)
        first = 0 if streams == ALWAYS and not any(processes) else self._transfer.rank
        rows: list[BoxRow] = []
        reads: list[tuple[int, int, np.ndarray]] = []
        for receive in sorted(self._transfer.receives, key=lambda receive: (receive.peer - first) % size):
            row, peer = self._row(receive, into), receive.peer
            if row is not None and processes[peer]:
                reads.append((peer, processes[peer], _runs_of(row)))
            elif row is not None:
                rows.append(row._replace(source_base=peer))
        n_bytes = sum(int(runs[:, 2].sum()) for *_, runs in reads) if reads else self._n_bytes
        is_long = n_bytes > MOST_COMPILED
        return FetchProgram(meeting.address, self._transfer.readers, rows, MemoryReads(reads), streams, is_long)

    def _has_short_runs(self) -> bool:
        """Whether what this member needs is in short runs.  Local."""
        receives, shape = self._transfer.receives, self._transfer.target_shape
        if not receives or shape is None:
            return False
        strides = c_strides(shape, self._facts[receives[0].peer].array()[1].itemsize)
        rows = [self._row(receive, strides) for receive in receives if receive.peer != self._transfer.rank]
        runs = [_runs_of(row) for row in rows if row is not None]
        return sum(int(each[:, 2].sum()) for each in runs) < _LEAST_RUN * sum(map(len, runs))

    @property
    def _n_bytes(self) -> int:
        """Number of bytes of this member's result."""
        return sum(
            receive.box.size * self._facts[receive.peer].array()[1].itemsize for receive in self._transfer.receives
        )

    def _row(self, receive: Receive, into: Shape) -> BoxRow | None:
        """The row that copies a box of a contiguous array."""
        shape, dtype = self._facts[receive.peer].array()
        given = c_strides(shape, dtype.itemsize)
        source, target = receive.source_box, receive.box
        start, end = (
            sum(first * stride for first, stride in zip(box.starts, strides, strict=True))
            for box, strides in ((source, given), (target, into))
        )
        return kernels.box_row(source.shape, dtype.itemsize, given, start, into, end)


def _runs_of(row: BoxRow) -> np.ndarray:
    """The runs that a row copies: offset in the source, offset in the target, bytes."""
    starts = np.array([[row.source_offset, row.target_offset]])
    for extent, source, target in row.dims[:-1]:
        steps = np.arange(extent)[:, None] * (source, target)
        starts = (starts[:, None, :] + steps).reshape(-1, 2)
    return np.append(starts, np.full((len(starts), 1), row.dims[-1][0]), axis=1)
