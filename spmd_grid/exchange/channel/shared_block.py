"""The memory of a channel that its neighbours on the node see: two lines, a word for each reader, twice the staging.

Whether two neighbours exchange in memory is agreed between the two when the channel is made; the records that they
swap then hold all that they need to know of each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.transfer.flat_bytes import flat_bytes
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.arena import Arena
from spmd_grid.transport.communicator import Communicator, tag_of

__all__ = ["LINE_PAIR_BYTES", "SharedBlock", "NeighbourRecord", "swap_records"]

LINE_PAIR_BYTES = 128  # bytes that no two writers share: two cache lines, since processors fetch them in pairs


class SharedBlock:
    """The block of this process.  ``parts``: the offset in the staging of each reader's cells."""

    def __init__(self, n_fields: int, readers: Sequence[int], staged: Mapping[int, int]):
        """``readers``: the members that may read it; ``staged``: bytes staged at a time for each of them."""
        self.line_bytes = -(-8 * (at.POSTED_OFFSETS + n_fields) // LINE_PAIR_BYTES) * LINE_PAIR_BYTES
        words_at = 2 * self.line_bytes
        self._words = {member: words_at + LINE_PAIR_BYTES * i for i, member in enumerate(readers)}
        self._staging_at = words_at + LINE_PAIR_BYTES * len(readers)
        self.parts: dict[int, int] = {}
        end = 0
        for member, n_bytes in staged.items():
            self.parts[member] = end
            end += -(-n_bytes // LINE_PAIR_BYTES) * LINE_PAIR_BYTES
        self.staging_bytes = end
        self._memory: np.ndarray | None = None
        self.address = 0

    def allocate(self, arena: Arena) -> None:
        """Takes its memory from the arena, if that has space.  Local."""
        self._memory = arena.allocate(self._staging_at + 2 * self.staging_bytes)
        if self._memory is not None:
            self._memory[: self._staging_at] = 0
            self.address = kernels.address_of(self._memory)

    def give_back(self) -> None:
        """Frees its memory.  Local."""
        self._memory = None

    @property
    def staging(self) -> int:
        """Address of the staging of even exchanges; that of odd ones follows."""
        return self.address + self._staging_at

    def word_of(self, member: int) -> int:
        """Address of the word in which this reader notes what it has read."""
        return self.address + self._words[member]

    @property
    def held_bytes(self) -> int:
        """Number of bytes allocated for packed cells."""
        return 0 if self._memory is None else 2 * self.staging_bytes

    def record_for(self, member: int, arena: Arena) -> np.ndarray:
        """The record of it for a neighbour, with offsets in this process's segment; zeros: there is no block."""
        record = np.zeros(8, np.int64)
        if self._memory is not None:
            start = arena.offset_of(self.address, self._memory.nbytes)
            staging = start + self._staging_at + self.parts.get(member, 0)
            word = start + self._words.get(member, 0)  # one that reads nothing needs none
            record[:6] = 1, start, self.line_bytes, staging, self.staging_bytes, word
        return record


class NeighbourRecord(NamedTuple):
    """A neighbour's description of its block; ``met``: each of the two sees the other's.

    Addresses are as this process sees them: ``base`` of the neighbour's segment, ``lines``, the ``staging`` for this
    process in even exchanges, and the word in which this process notes what it has read (``done``).
    """

    met: bool
    base: int
    lines: int
    line_bytes: int
    staging: int
    staging_bytes: int
    done: int


def swap_records(comm: Communicator, block: SharedBlock, neighbours: Sequence[int]) -> dict[int, NeighbourRecord]:
    """Each neighbour's record of its block.  Collective over the neighbours."""
    arena, requests = comm.process.arena, []
    received: dict[int, np.ndarray] = {}
    sent: dict[int, np.ndarray] = {}
    bases = {member: arena.base_of(comm.processes[member]) for member in neighbours}
    for member in neighbours:
        received[member] = np.zeros(8, np.int64)
        requests += comm.irecv(flat_bytes(received[member]), member, tag_of("records of channels"))
    for member in neighbours:
        sent[member] = np.zeros(8, np.int64) if bases[member] is None else block.record_for(member, arena)
        requests += comm.isend(flat_bytes(sent[member]), member, tag_of("records of channels"))
    comm.wait_all(requests)

    def record(member: int) -> NeighbourRecord:
        there, start, line_bytes, staging, staging_bytes, done, _, _ = received[member].tolist()
        known = bases[member]
        base = -1 if known is None else known
        met = bool(there and sent[member][0])
        return NeighbourRecord(met, base, base + start, line_bytes, base + staging, staging_bytes, base + done)

    return {member: record(member) for member in neighbours}
