"""Copies out of the members' own memory, after a meeting, that one compiled call makes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.transfer.memory_reads import MemoryReads
from spmd_grid.kernels import BoxRow
from spmd_grid.kernels.protocol import slots as at

__all__ = ["FetchProgram"]


class FetchProgram:
    """A fetch for the compiled run, into arrays with certain strides.

    ``state``: the address of the state of the meeting; ``rows`` copy arrays that this process can see, ``reads``
    others; both name their sources by the members' indices.  ``sources``: the addresses of the members' arrays, each in
    its own process, to be filled before each run.  ``readers``: a word for each member, not 0 if it reads this member's
    array.  ``is_long``: whether other threads of Python run meanwhile.
    """

    def __init__(
        self, state: int, readers: np.ndarray, rows: Sequence[BoxRow], reads: MemoryReads, streams: int, is_long: bool
    ):
        table, self.reads = kernels.build_table(rows), reads
        self.sources = np.zeros(len(readers), np.int64)
        self._words = words = np.zeros(at.FETCH_WORDS, np.int64)
        self._alive = table, readers
        words[at.FETCH_READERS] = kernels.address_of(readers)
        words[at.FETCH_STATE], words[at.FETCH_SOURCES] = state, kernels.address_of(self.sources)
        words[at.FETCH_COPY], words[at.FETCH_TABLE] = kernels.copy_address, kernels.address_of(table)
        words[at.FETCH_COLUMNS], words[at.FETCH_COPIES] = table.shape[1], len(table)
        words[at.FETCH_STREAMS], words[at.FETCH_IS_LONG] = streams, is_long
        words[at.FETCH_READS], words[at.FETCH_CALLS] = reads.address, reads.rows
        self.address = kernels.address_of(words)

    def run(self, result: np.ndarray | None) -> bool:
        """Run the fetch after a meeting; False if a wait was given up.  Collective over its members.

        Raises TransportError where the system refuses a copy.
        """
        into = 0 if result is None else kernels.address_of(result)
        while True:
            code = kernels.fetch(self.address, into)
            if code != at.UNREAD:
                return bool(code == at.FINE)
            done = int(self._words[at.FETCH_DONE])
            self._words[at.FETCH_DONE] = 0
            self.reads.make_again(done)
            self._words[at.FETCH_DONE] = done + 1
