"""The contenders of a row: each is checked once, then all take turns, the source rewritten before every call.

What rewriting takes alone is measured in the same turns, and its median is subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np

from spmd_grid.bench.common.rows import Figure, figures_of, is_disturbed
from spmd_grid.bench.common.timing import Batch, measure
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.paths import forced_path
from spmd_grid.transport.launch import current_world

__all__ = ["Contender", "Race", "check", "race"]


class Contender(NamedTuple):
    """``call`` brings what is in ``source`` into ``target``, or returns it where that is None."""

    call: Callable[[], object]
    source: np.ndarray
    target: np.ndarray | None = None
    path: str | None = None  # of ours: the one to force

    def within(self):
        """The context to call in."""
        return nullcontext() if self.path is None else forced_path(self.path)

    def batch(self, n: int) -> None:
        call, source = self.call, self.source
        with self.within():
            for value in range(n):
                source.fill(value)
                call()


def check(name: str, contender: Contender, row: str, sent: np.ndarray, wanted: np.ndarray | None, comm) -> None:
    """One call with ``sent`` in the source must bring ``wanted``; None: nothing is due on this rank.

    Collective.  The caller sends what no other contender has brought before.
    """
    contender.source[...] = sent
    if contender.target is not None:
        contender.target.fill(np.nan)
    comm.Barrier()
    with contender.within():
        result = contender.call()
    wrong = 0
    if wanted is not None:
        arrived = np.asarray(result if contender.target is None else contender.target)
        wrong = int((arrived != wanted).sum()) if arrived.shape == wanted.shape else wanted.size
    by_rank = comm.allgather(wrong)
    if any(by_rank):
        raise RuntimeError(f"{name} gets '{row}' wrong: wrong cells by rank: {by_rank}")


class Race(NamedTuple):
    """What turns gave: figures by contender, what rewriting took, and how far they can be trusted."""

    figures: dict[str, Figure]
    rewriting_us: dict[str, float]
    rounds: int
    disturbed: bool
    hop_ns: float | None


def race(
    comm, contenders: Mapping[str, Contender], sources: Mapping[str, np.ndarray], rounds: int, at_most_seconds: float
) -> Race:
    """Times all in turns.  Collective.  ``sources``: every contender's source, by the name of its rewriting."""
    batches = {name: _rewriting(source) for name, source in sources.items()}
    batches |= {name: contender.batch for name, contender in contenders.items()}
    before = _hop_ns()
    times = measure(comm, batches, rounds, at_most_seconds=at_most_seconds)
    after = _hop_ns()
    rewriting = {id(source): name for name, source in sources.items()}
    bases = {name: rewriting[id(contender.source)] for name, contender in contenders.items()}
    return Race(
        figures_of(times, bases),
        {name: 1e6 * times.median(name) for name in sources},
        len(next(iter(times.seconds.values()))),
        is_disturbed(times),
        None if before is None or after is None else max(before, after),
    )


def _hop_ns() -> float | None:
    """The nanoseconds that a word takes from one processor to another.  Collective."""
    seconds = meeting_of(current_world()).ask_distance()
    return None if seconds is None else 1e9 * seconds


def _rewriting(source: np.ndarray) -> Batch:
    def batch(n: int) -> None:
        for value in range(n):
            source.fill(value)

    return batch
