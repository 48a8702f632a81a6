"""The contenders of a row: each is checked once, then all take turns, and the source is rewritten before every call.

Rewriting alone is timed in the same turns, and its median is subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spmd_grid.bench.common.rows import Figure, figures_of, is_disturbed
from spmd_grid.bench.common.timing import Batch, Times, measure
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.paths import forced_path
from spmd_grid.transport.launch import current_world

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["Contender", "Race", "check", "measure_with_hop", "race", "refuse_wrong_cells", "rewriting"]


class Contender(NamedTuple):
    """A call that moves the cells of ``source`` into ``target``, or returns them if that is None."""

    call: Callable[[], object]
    source: np.ndarray
    target: np.ndarray | None = None
    path: str | None = None  # forced on the calls, for variants of ours
    loop: Batch | None = None  # a compiled loop that rewrites the source before each call

    def within(self) -> AbstractContextManager[object]:
        """The context to make the calls in."""
        return nullcontext() if self.path is None else forced_path(self.path)

    def batch(self, n: int) -> None:
        call, source = self.call, self.source
        if self.loop is not None:
            self.loop(n)
            return
        with self.within():
            for value in range(n):
                source.fill(value)
                call()


def check(
    name: str, contender: Contender, row: str, sent: np.ndarray, expected: np.ndarray | None, comm: Intracomm
) -> None:
    """Check that a call with ``sent`` in the source gives ``expected``; None: this rank gets nothing.

    Collective.  ``sent`` must differ from call to call, so that no result is left over from another contender.
    """
    contender.source[...] = sent
    if contender.target is not None:
        contender.target.fill(np.nan)
    comm.Barrier()
    with contender.within():
        result = contender.call()
    wrong = 0
    if expected is not None:
        arrived = np.asarray(result if contender.target is None else contender.target)
        wrong = int((arrived != expected).sum()) if arrived.shape == expected.shape else expected.size
    refuse_wrong_cells(name, row, wrong, comm)


def refuse_wrong_cells(name: str, row: str, n_wrong: int, comm: Intracomm) -> None:
    """Raise an error on all ranks if any rank found wrong cells.  Collective.  ``n_wrong``: those of this rank."""
    by_rank = comm.allgather(n_wrong)
    if any(by_rank):
        raise RuntimeError(f"{name} gives a wrong result in '{row}': wrong cells by rank: {by_rank}")


class Race(NamedTuple):
    """The outcome of all turns: figures by contender, the times of rewriting, and how far they can be trusted."""

    figures: dict[str, Figure]
    rewriting_us: dict[str, float]
    rounds: int
    disturbed: bool
    hop_ns: float | None


def race(
    comm: Intracomm,
    contenders: Mapping[str, Contender],
    sources: Mapping[str, np.ndarray],
    rounds: int,
    at_most_seconds: float,
    loops: Mapping[str, Batch] = MappingProxyType({}),
) -> Race:
    """Time all contenders in turns.  Collective.

    ``sources``: their source arrays, by the name of the rewriting; ``loops``: those that compiled loops make, by name.
    """
    batches = {name: rewriting(source) for name, source in sources.items()} | dict(loops)
    batches |= {name: contender.batch for name, contender in contenders.items()}
    times, hop_ns = measure_with_hop(comm, batches, rounds, at_most_seconds)
    names = {id(source): name for name, source in sources.items()}
    bases = {name: names[id(contender.source)] for name, contender in contenders.items()}
    return Race(
        figures_of(times, bases),
        {name: 1e6 * times.median(name) for name in sources},
        times.rounds,
        is_disturbed(times),
        hop_ns,
    )


def measure_with_hop(
    comm: Intracomm, batches: Mapping[str, Batch], rounds: int, at_most_seconds: float
) -> tuple[Times[str], float | None]:
    """`measure`, and the nanoseconds of a word between processors, the longer ones of before and after.  Collective."""
    before = _hop_ns()
    times = measure(comm, batches, rounds, at_most_seconds=at_most_seconds)
    after = _hop_ns()
    return times, None if before is None or after is None else max(before, after)


def _hop_ns() -> float | None:
    """Nanoseconds of a word from one processor to another.  Collective."""
    seconds = meeting_of(current_world()).ask_distance()
    return None if seconds is None else 1e9 * seconds


def rewriting(source: np.ndarray) -> Batch:
    """The batch that rewrites ``source`` and makes no calls."""

    def batch(n: int) -> None:
        for value in range(n):
            source.fill(value)

    return batch
