"""Runs of bytes that the system copies from the memory of other processes, as tables for compiled code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid import kernels
from spmd_grid.kernels.copy import tables as at
from spmd_grid.transport.other_memory import MemoryCall, calls_for

__all__ = ["MemoryReads"]


class MemoryReads:
    """Copies from arrays of other processes to an array here, by as few calls of the system as can be, all compiled.

    ``reads``: for each array that is read its index among the sources, the system's id of its process, and runs: each
    an offset in that array, one in the array here, and a length in bytes.  ``address`` and ``rows`` are those of the
    table for ``kernels/copy/system_copies.py``.
    """

    def __init__(self, reads: Sequence[tuple[int, int, np.ndarray]]):
        numbered = [(source, call) for source, process, runs in reads for call in calls_for(process, runs)]
        self._calls = [call for _, call in numbered]
        self._table = np.array([_row(call, source) for source, call in numbered], np.int64)
        self.address, self.rows = kernels.address_of(self._table), len(numbered)

    def copy(self, sources: np.ndarray, into: int) -> None:
        """Copy all runs from the arrays at the addresses ``sources`` to the one at ``into``.  Local.

        Raises TransportError, with the reason, where the system refuses to.
        """
        done, addresses = 0, kernels.address_of(sources)
        while done < self.rows:
            row = self.address + done * at.READ_WORDS * sources.itemsize
            done += kernels.read_memory(row, self.rows - done, addresses, into)
            if done < self.rows:
                self.make_again(done)
                done += 1

    def make_again(self, number: int) -> None:
        """Make a call again that did not copy all its bytes; raises TransportError with the reason.  Local."""
        self._calls[number].make()


def _row(call: MemoryCall, source: int) -> list[int]:
    runs = [kernels.address_of(call.here), len(call.here), kernels.address_of(call.there), len(call.there)]
    return [call.process, *runs, call.n_bytes, source, 0, 0]
