"""One program run under many seeds: does what it does depend on who comes first?

A correct program prints the same on every rank, whatever the order in which ranks go on, which message a receive from
anybody takes, and whether senders are kept waiting.  What ranks print is compared rank by rank, so that interleaving
between ranks does not count.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spmd_grid.transport.simulated.output import Kept
from spmd_grid.transport.simulated.program import run_program

__all__ = ["Outcome", "Seeds", "run_seeds"]


@dataclass(frozen=True)
class Outcome:
    """What a program did under one seed: what each rank printed, and how it failed, if it did.

    ``labels``: what ranks are called.
    """

    seed: int
    printed: dict[int | None, str]
    labels: dict[int | None, str]
    failure: BaseException | None

    def agrees_with(self, other: Outcome) -> bool:
        """Whether both end alike."""
        return self._end == other._end and (self.failure is not None or self.printed == other.printed)

    @property
    def _end(self) -> str:
        """How it failed; which rank did so first may differ from run to run."""
        if self.failure is None:
            return ""
        return re.sub(r"\d+", "", f"{type(self.failure).__name__}: {str(self.failure).splitlines()[:1]}")


@dataclass(frozen=True)
class Seeds:
    """The ``outcomes`` by seed; ``again``: that of seed 0, once more."""

    outcomes: list[Outcome]
    again: Outcome

    @property
    def is_repeatable(self) -> bool:
        """Whether the same seed does the same; else the program's own doings differ: times, addresses, random bits."""
        return self.again.agrees_with(self.outcomes[0])

    @property
    def differing(self) -> list[Outcome]:
        """Those that are not as seed 0."""
        return [outcome for outcome in self.outcomes if not outcome.agrees_with(self.outcomes[0])]

    @property
    def failing(self) -> list[Outcome]:
        """Those that fail."""
        return [outcome for outcome in self.outcomes if outcome.failure is not None]


def run_seeds(path: str, args: Sequence[str], ranks: int, n_seeds: int) -> Seeds:
    """Runs the program file under the seeds from 0, one run after the other, each with all that it prints kept.

    Local.  Modules that lie beside the program are imported anew in each run; all others are shared, with whatever
    state they keep.
    """
    outcomes = [_run(path, args, ranks, seed) for seed in range(n_seeds)]
    return Seeds(outcomes, _run(path, args, ranks, 0))


def _run(path: str, args: Sequence[str], ranks: int, seed: int) -> Outcome:
    out, err, failure = Kept(sys.stdout), Kept(sys.stderr), None
    with _as_before(Path(path).resolve().parent):
        try:
            run_program(path, args, ranks, seed, kept=(out, err))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failure = error
    return Outcome(seed, out.texts, out.labels, failure)


@contextmanager
def _as_before(folder: Path) -> Iterator[None]:
    """Forgets what a run leaves behind: modules from the program's folder, where it went, what it told its children."""
    modules, place, environment = set(sys.modules), os.getcwd(), dict(os.environ)
    try:
        yield
    finally:
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).resolve().is_relative_to(folder):
                del sys.modules[name]
        os.chdir(place)
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
