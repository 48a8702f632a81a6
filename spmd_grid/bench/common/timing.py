"""Interleaved timing on all ranks of a job: contenders take turns in an order that changes from round to round."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

__all__ = ["Alone", "Batch", "Ranks", "Times", "calls_of", "calls_per_batch", "measure", "measure_once"]

Batch = Callable[[int], None]  # makes the given number of calls
Name = TypeVar("Name", bound=Hashable)

_FEWEST_ROUNDS = 5
_TRIAL_SECONDS = 5e-4


class Ranks(Protocol):
    """The two operations of a communicator that timing needs."""

    def Barrier(self) -> None: ...

    def allgather(self, sendobj: Any, /) -> list[Any]: ...


class Alone:
    """The communicator of a process that measures by itself."""

    def Barrier(self) -> None:
        pass

    def allgather(self, sendobj: Any, /) -> list[Any]:
        return [sendobj]


class Times(Generic[Name]):
    """Seconds per call of each contender in each round, on the slowest rank."""

    def __init__(self, seconds: dict[Name, np.ndarray], calls: dict[Name, int]) -> None:
        self.seconds = seconds
        self.calls = calls

    def median(self, name: Name) -> float:
        return float(np.median(self.seconds[name]))

    def percentile(self, name: Name, percent: float) -> float:
        return float(np.percentile(self.seconds[name], percent))

    @property
    def rounds(self) -> int:
        return len(next(iter(self.seconds.values())))


def measure(
    comm: Ranks,
    contenders: Mapping[str, Batch],
    rounds: int,
    batch_seconds: float = 3e-3,
    at_most_seconds: float = float("inf"),
    seed: int = 0,
    trial_seconds: float = _TRIAL_SECONDS,
    alike: bool = False,
) -> Times[str]:
    """Time batches of all ``contenders`` in turns, ``rounds`` times, in an order shuffled from ``seed``.

    Collective.  A batch takes about ``batch_seconds``.  Stops early, after at least 5 rounds, once ``at_most_seconds``
    have passed.  ``trial_seconds``: of the trials that say how many calls are a batch; where ranks share cores, longer
    than a rank's turn.  ``alike``: all contenders make the same number of calls, the largest that any needs: if calls
    overlap, the time of a call depends on how many follow one another.
    """
    names = list(contenders)
    order = np.random.default_rng(seed)
    calls = {name: calls_per_batch(comm, contenders[name], batch_seconds, trial_seconds) for name in names}
    if alike:
        calls = dict.fromkeys(names, max(calls.values(), default=1))
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
    comm: Ranks,
    jobs: Mapping[Name, Callable[[], object]],
    rounds: int,
    prepare: Callable[[Name, int], None],
    seed: int = 0,
) -> Times[Name]:
    """Time one call of each of ``jobs`` in turns, ``rounds`` times, each after an untimed ``prepare(name, round)``.

    Collective; for jobs that take milliseconds.  One more round, before the others, warms up.
    """
    names = list(jobs)
    order = np.random.default_rng(seed)
    taken = np.empty((len(names), rounds + 1))
    with _no_collections():
        for i in range(rounds + 1):
            for which in order.permutation(len(names)):
                prepare(names[which], i)
                taken[which, i] = _seconds(comm, _batch_of_one(jobs[names[which]]), 1)
    return _of_slowest_rank(comm, names, taken[:, 1:], dict.fromkeys(names, 1))


def calls_of(function: Callable[[], object] | None) -> Batch:
    """The batch that calls ``function``; an empty loop without one."""

    def batch(n: int) -> None:
        for _ in range(n):
            if function is not None:
                function()

    return batch


def _batch_of_one(job: Callable[[], object]) -> Batch:
    def batch(n: int) -> None:
        job()

    return batch


def calls_per_batch(comm: Ranks, batch: Batch, seconds: float, trial_seconds: float = _TRIAL_SECONDS) -> int:
    """Number of calls that take about ``seconds``, the same on all ranks.  Collective.  It also warms up."""
    batch(1)
    n = 1
    while (taken := max(comm.allgather(_seconds(comm, batch, n)))) < trial_seconds:
        n *= 4
    for _ in range(2):  # first calls learn, and the first trial may have been disturbed
        batch(max(1, round(seconds * n / taken)))
        taken = min(taken, max(comm.allgather(_seconds(comm, batch, n))))
    return max(1, round(seconds * n / taken))


def _of_slowest_rank(comm: Ranks, names: list[Name], taken: np.ndarray, calls: dict[Name, int]) -> Times[Name]:
    slowest = np.max(comm.allgather(taken), axis=0)
    return Times(dict(zip(names, slowest)), calls)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Collect Python's garbage now, and not again until the end."""
    gc.collect()
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _seconds(comm: Ranks, batch: Batch, n: int) -> float:
    comm.Barrier()
    start = time.perf_counter()
    batch(n)
    return time.perf_counter() - start
