"""The tasks of a carrier in a fold over nodes, in order and bound to memory, so that they can be run again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.transfer.flat_bytes import flat_bytes
from spmd_grid.ops.reduction.crossing.fold_tasks import FoldTask
from spmd_grid.ops.reduction.folding import Folding
from spmd_grid.transport.communicator import Communicator, tag_of

__all__ = ["FoldSchedule", "Parts"]

_TAG = tag_of("blocking movements")
_LINE = 128  # bytes: parts of a buffer share no line


class Parts:
    """Parts of a buffer for cells of messages, one after the other; without ``memory``, only counted in ``n_bytes``."""

    def __init__(self, memory: np.ndarray | None = None):
        self.n_bytes = 0
        self._memory = memory

    def take(self, n_bytes: int) -> np.ndarray:
        """The next part."""
        start = self.n_bytes
        self.n_bytes += -(-n_bytes // _LINE) * _LINE
        return np.empty(n_bytes, np.uint8) if self._memory is None else self._memory[start : start + n_bytes]


class FoldSchedule:
    """The tasks of one member, sorted; valid as long as all arrays lie where they lay."""

    def __init__(self, tasks: Sequence[FoldTask[np.ndarray]], folding: Folding):
        self._folding, tasks = folding, sorted(tasks, key=lambda task: task.key)
        received = [(sent, sender, i, cells) for i, task in enumerate(tasks) for sent, sender, cells in task.receives]
        received.sort(key=lambda each: each[0])
        self._receives = [(sender, i, flat_bytes(cells)) for _, sender, i, cells in received]
        self._steps = []
        for task in tasks:
            rows = np.array([kernels.address_of(row) for row in task.rows], np.int64) if task.rows else None
            self._steps.append((task.is_last, rows, task.into, [(to, flat_bytes(cells)) for to, cells in task.sends]))

    def run(self, comm: Communicator) -> None:
        """Do all tasks.  Collective over the carriers of the same lanes."""
        waits: list[list[Any]] = [[] for _ in self._steps]
        for sender, i, cells in self._receives:
            waits[i] += comm.irecv(cells, sender, _TAG)
        sends: list[Any] = []
        for requests, (is_last, rows, into, out) in zip(waits, self._steps, strict=True):
            if requests:
                comm.wait_all(requests)
            if rows is not None and into is not None:
                self._folding.partly(rows, into)
                if is_last:
                    self._folding.divide(into)
            for member, cells in out:
                sends += comm.isend(cells, member, _TAG)
        comm.wait_all(sends)
