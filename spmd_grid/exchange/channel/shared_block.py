"""What neighbours of the node see of a channel: two lines, a word for each reader, and twice the staging.

Whether two neighbours meet in memory is agreed between the two when the channel is made; what they swap then is all
that they need to know of each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.transfer.flat_bytes import flat_bytes
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import Communicator, tag_of

__all__ = ["LINE_PAIR_BYTES", "SharedBlock", "NeighbourRecord", "swap_records"]

LINE_PAIR_BYTES = 128  # bytes that no two writers share: two cache lines, since processors fetch them in pairs


class SharedBlock:
    """This process's part.  ``parts``: where in the staging lies what a reader finds there, by place."""

    def __init__(self, n_fields: int, readers: Sequence[int], staged: Mapping[int, int]):
        """``readers``: who may read it; ``staged``: of whom how many bytes are staged at a time."""
        self.line_text = -(-8 * (at.POSTED_OFFSETS + n_fields) // LINE_PAIR_BYTES) * LINE_PAIR_BYTES
        self.line_bytes = self.line_text + at.TEXT_BYTES
        words_at = 2 * self.line_bytes
        self._words = {place: words_at + LINE_PAIR_BYTES * i for i, place in enumerate(readers)}
        self._staging_at = words_at + LINE_PAIR_BYTES * len(readers)
        self.parts, end = {}, 0
        for place, n_bytes in staged.items():
            self.parts[place] = end
            end += -(-n_bytes // LINE_PAIR_BYTES) * LINE_PAIR_BYTES
        self.staging_bytes = end
        self._memory: np.ndarray | None = None
        self.address = 0

    def allocate(self, arena) -> None:
        """Takes its memory from the arena, if that has some.  Local."""
        self._memory = arena.allocate(self._staging_at + 2 * self.staging_bytes)
        if self._memory is not None:
            self._memory[: self._staging_at] = 0
            self.address = kernels.address_of(self._memory)

    def give_back(self) -> None:
        self._memory = None

    @property
    def staging(self) -> int:
        """Its address, for even exchanges; that for odd ones follows."""
        return self.address + self._staging_at

    def word_of(self, place: int) -> int:
        """The address of the word in which this reader says that it has read."""
        return self.address + self._words[place]

    @property
    def held_bytes(self) -> int:
        """What it holds for cells that are packed."""
        return 0 if self._memory is None else 2 * self.staging_bytes

    def told_to(self, place: int, arena) -> np.ndarray:
        """What a neighbour has to know of it, relative to this process's segment; zeros: there is no block."""
        told = np.zeros(8, np.int64)
        if self._memory is not None:
            start = arena.offset_of(self.address, self._memory.nbytes)
            staging = start + self._staging_at + self.parts.get(place, 0)
            word = start + self._words.get(place, 0)  # one that reads nothing needs none
            told[:6] = 1, start, self.line_bytes, staging, self.staging_bytes, word
        return told


class NeighbourRecord(NamedTuple):
    """What a neighbour has told of its block; ``met``: both can see the other's.

    Addresses are as this process sees them: ``base`` of the neighbour's segment, ``lines``, what is staged for this
    process in even exchanges, and the word in which this process says that it has read (``done``).
    """

    met: bool
    base: int
    lines: int
    line_bytes: int
    staging: int
    staging_bytes: int
    done: int


def swap_records(comm: Communicator, block: SharedBlock, neighbours: Sequence[int]) -> dict[int, NeighbourRecord]:
    """What each neighbour tells this process about its block.  Collective over the neighbours."""
    arena, received, told, requests = comm.process.arena, {}, {}, []
    bases = {place: arena.base_of(comm.processes[place]) for place in neighbours}
    for place in neighbours:
        received[place] = np.zeros(8, np.int64)
        requests += comm.irecv(flat_bytes(received[place]), place, tag_of("records of channels"))
    for place in neighbours:
        told[place] = np.zeros(8, np.int64) if bases[place] is None else block.told_to(place, arena)
        requests += comm.isend(flat_bytes(told[place]), place, tag_of("records of channels"))
    comm.wait_all(requests)

    def record(place: int) -> NeighbourRecord:
        there, start, line_bytes, staging, staging_bytes, done, _, _ = received[place].tolist()
        base = -1 if bases[place] is None else bases[place]
        met = bool(there and told[place][0])
        return NeighbourRecord(met, base, base + start, line_bytes, base + staging, staging_bytes, base + done)

    return {place: record(place) for place in neighbours}
