"""The pace of the machine while rows are measured: a plain exchange of ranks, plain copies, and a barrier of each node.

Machines of which others have a part are now faster and now slower, by a fifth and more, for seconds or minutes.  What
a model says holds for the pace at which it was measured: where the pace has changed, a model is measured anew, so that
a row compares the model with the clock at one pace.  Nothing of the engine or of the model is in what says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spmd_grid.bench.common.mpi import mpi, wait_asleep
from spmd_grid.links.model import LinkModel

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["STEADY", "Moments", "Pace", "PaceOf"]

STEADY = 1.15  # times as long as before, or as short: a pace that has not changed
_BATCHES, _BATCH_SECONDS, _NAP = 5, 0.012, 1e-4


class Pace(NamedTuple):
    """Seconds of an exchange of all ranks, of copies, and of a barrier of each node, by MPI and numpy.

    Of each the median of some batches of the slowest rank.
    """

    exchange: float
    copies: float
    barrier: float

    def change(self, other: Pace) -> float:
        """The larger factor, either way, between these and those of another moment."""
        return max(max(one / two, two / one) for one, two in zip(self, other, strict=True))


class PaceOf:
    """The exchange, copies and barriers of all ranks of ``comm`` that tell the pace; ``n_bytes``: of a large array."""

    def __init__(self, comm: Intracomm, n_bytes: int):
        self._comm = comm
        half = comm.size // 2  # ranks of other nodes are half of all ranks away
        to, whence = (comm.rank + half) % comm.size, (comm.rank - half) % comm.size
        sent, received = np.ones(n_bytes // 16, np.uint8), np.empty(n_bytes // 16, np.uint8)
        source, target = np.ones(n_bytes // 2, np.uint8), np.empty(n_bytes // 2, np.uint8)

        def exchange() -> None:
            requests = [comm.Irecv(received, whence), comm.Isend(sent, to)]
            while not all([each.Test() for each in requests]):
                os.sched_yield()  # ranks may share cores

        def copy() -> None:
            np.copyto(target, source)

        node = comm.Split_type(mpi().COMM_TYPE_SHARED)

        def meet() -> None:
            request = node.Ibarrier()
            while not request.Test():
                os.sched_yield()

        self._calls: list[tuple[Callable[[], None], int]] = []
        for call in (exchange, copy, meet):
            call()
            self._calls.append((call, max(1, round(_BATCH_SECONDS / self._median(call, 2)))))

    def now(self) -> Pace:
        """The pace of this moment.  Collective."""
        return Pace(*[self._median(call, n) for call, n in self._calls])

    def _median(self, call: Callable[[], None], n: int) -> float:
        found = []
        for _ in range(_BATCHES):
            wait_asleep(self._comm, _NAP)
            self._comm.Barrier()
            began = perf_counter()
            for _ in range(n):
                call()
            found.append((perf_counter() - began) / n)
        return float(np.median(np.max(self._comm.allgather(found), axis=0)))


class Moments:
    """The models of a benchmark, each measured at the pace that the machine had then.

    ``pace``: says the pace of now; ``measure``: measures a model, both collective; ``most``: models, at most.
    """

    def __init__(self, pace: Callable[[], Pace], measure: Callable[[], LinkModel], most: int):
        self._pace, self._measure, self._most = pace, measure, most
        self.models: list[LinkModel] = []
        self._paces: list[Pace] = []  # of the models
        self._now = pace()
        self._at = self._anew()

    def _anew(self) -> int:
        """Measures a model, and another one as long as the pace changes meanwhile; the number of the last."""
        before = None
        while before is None or (self._now.change(before) > STEADY and len(self.models) < self._most):
            before = self._now
            self.models.append(self._measure())
            self._now = self._pace()
            self._paces.append(self._now)
        return len(self.models) - 1

    def links(self) -> LinkModel:
        """The model of the pace that was found last; where it has changed, one that was measured at such a pace.

        Measured anew where there is none.  Collective.
        """
        if self._now.change(self._paces[self._at]) > STEADY:
            self._at = min(range(len(self.models)), key=lambda at: self._now.change(self._paces[at]))
            if self._now.change(self._paces[self._at]) > STEADY and len(self.models) < self._most:
                self._at = self._anew()
        return self.models[self._at]

    def change(self) -> float:
        """By what factor the pace has changed since the model was measured, before what was done last or after it.

        Collective.
        """
        before, self._now = self._now, self._pace()
        return max(each.change(self._paces[self._at]) for each in (before, self._now))
