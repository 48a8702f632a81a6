"""Interleaved measurement on all ranks of a job: who is timed when changes from round to round, alike on all ranks."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

__all__ = ["Alone", "Batch", "Times", "calls_per_batch", "measure", "measure_once"]

Batch = Callable[[int], None]  # runs so many calls

_FEWEST_ROUNDS = 5
_TRIAL_SECONDS = 5e-4


class Alone:
    """The communicator of a process that measures by itself."""

    def Barrier(self) -> None:
        pass

    def allgather(self, value) -> list:
        return [value]


class Times:
    """Seconds per call of each contender, per round: that of the slowest rank."""

    def __init__(self, seconds: dict[Hashable, np.ndarray], calls: dict[Hashable, int]):
        self.seconds = seconds
        self.calls = calls

    def median(self, name: Hashable) -> float:
        return float(np.median(self.seconds[name]))

    def percentile(self, name: Hashable, percent: float) -> float:
        return float(np.percentile(self.seconds[name], percent))


def measure(
    comm,
    contenders: Mapping[str, Batch],
    rounds: int,
    batch_seconds: float = 3e-3,
    at_most_seconds: float = float("inf"),
    seed: int = 0,
) -> Times:
    """Times batches of all ``contenders`` in turns, ``rounds`` times, in an order that changes by a seeded shuffle.

    Collective; ``comm`` has ``Barrier`` and ``allgather``.  Batches take about ``batch_seconds``.  Fewer rounds are
    made where they take longer than ``at_most_seconds``.
    """
    names = list(contenders)
    order = np.random.default_rng(seed)
    calls = {name: calls_per_batch(comm, contenders[name], batch_seconds) for name in names}
    taken = np.empty((len(names), rounds))
    end = time.perf_counter() + at_most_seconds
    with _no_collections():
        for i in range(rounds):
            for which in order.permutation(len(names)):
                n = calls[names[which]]
                taken[which, i] = _seconds(comm, contenders[names[which]], n) / n
            if i + 1 >= _FEWEST_ROUNDS and any(comm.allgather(time.perf_counter() > end)):
                taken = taken[:, : i + 1]
                break
    return _of_slowest_rank(comm, names, taken, calls)


def measure_once(
    comm,
    jobs: Mapping[Hashable, Callable[[], object]],
    rounds: int,
    prepare: Callable[[Hashable, int], None],
    seed: int = 0,
) -> Times:
    """Times one call of each of ``jobs`` in turns, ``rounds`` times, each after an untimed ``prepare(name, round)``.

    Collective; for jobs that take milliseconds.  A round before the first warms up.
    """
    names = list(jobs)
    order = np.random.default_rng(seed)
    taken = np.empty((len(names), rounds + 1))
    with _no_collections():
        for i in range(rounds + 1):
            for which in order.permutation(len(names)):
                name = names[which]
                prepare(name, i)
                taken[which, i] = _seconds(comm, lambda _, job=jobs[name]: job(), 1)
    return _of_slowest_rank(comm, names, taken[:, 1:], dict.fromkeys(names, 1))


def calls_per_batch(comm, batch: Batch, seconds: float) -> int:
    """How many calls take about ``seconds``, agreed by all ranks.  Collective; warms up, too."""
    batch(1)
    n = 1
    while (taken := max(comm.allgather(_seconds(comm, batch, n)))) < _TRIAL_SECONDS:
        n *= 4
    taken = min(taken, max(comm.allgather(_seconds(comm, batch, n))))  # the first may have been disturbed
    return max(1, round(seconds * n / taken))


def _of_slowest_rank(comm, names: list, taken: np.ndarray, calls: dict) -> Times:
    slowest = np.max(comm.allgather(taken), axis=0)
    return Times(dict(zip(names, slowest)), calls)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Python's garbage is collected before, not within."""
    gc.collect()
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _seconds(comm, batch: Batch, n: int) -> float:
    comm.Barrier()
    start = time.perf_counter()
    batch(n)
    return time.perf_counter() - start
