"""Runs of one program under many seeds, to find results that depend on timing.

A correct program prints the same on every rank, whatever the order in which ranks go on, which message a receive from
any rank takes, and whether senders are kept waiting.  Output is compared rank by rank, so its interleaving does not
count.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spmd_grid.transport.simulated.output import KeptOutput
from spmd_grid.transport.simulated.program import run_program

__all__ = ["Outcome", "Seeds", "run_seeds"]


@dataclass(frozen=True)
class Outcome:
    """The result of a program under one seed: the output of each rank, and the failure, if it failed.

    ``labels``: the labels of ranks in reports.
    """

    seed: int
    printed: dict[int | None, str]
    labels: dict[int | None, str]
    failure: BaseException | None

    def agrees_with(self, other: Outcome) -> bool:
        """Whether both ended with the same failure, or with the same output."""
        return self._end == other._end and (self.failure is not None or self.printed == other.printed)

    @property
    def _end(self) -> str:
        """The failure, without numbers: the rank that fails first may differ from run to run."""
        if self.failure is None:
            return ""
        return re.sub(r"\d+", "", f"{type(self.failure).__name__}: {str(self.failure).splitlines()[:1]}")


@dataclass(frozen=True)
class Seeds:
    """The ``outcomes`` by seed; ``again``: the outcome of a second run under seed 0."""

    outcomes: list[Outcome]
    again: Outcome

    @property
    def is_repeatable(self) -> bool:
        """Whether the same seed gives the same outcome; else the program depends on times, addresses or random bits."""
        return self.again.agrees_with(self.outcomes[0])

    @property
    def differing(self) -> list[Outcome]:
        """The outcomes that differ from that of seed 0."""
        return [outcome for outcome in self.outcomes if not outcome.agrees_with(self.outcomes[0])]

    @property
    def failing(self) -> list[Outcome]:
        """The outcomes with a failure."""
        return [outcome for outcome in self.outcomes if outcome.failure is not None]


def run_seeds(path: str, args: Sequence[str], ranks: int, n_seeds: int) -> Seeds:
    """Runs the program file under the seeds from 0, one after the other, and keeps the output of each run.

    Local.  Modules in the program's folder are imported anew in each run; all others are shared, with their state.
    """
    outcomes = [_run(path, args, ranks, seed) for seed in range(n_seeds)]
    return Seeds(outcomes, _run(path, args, ranks, 0))


def _run(path: str, args: Sequence[str], ranks: int, seed: int) -> Outcome:
    out, err = KeptOutput(sys.stdout), KeptOutput(sys.stderr)
    failure: BaseException | None = None
    with _restored(Path(path).resolve().parent):
        try:
            run_program(path, args, ranks, seed, kept=(out, err))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failure = error
    return Outcome(seed, out.texts, out.labels, failure)


@contextmanager
def _restored(folder: Path) -> Iterator[None]:
    """Undoes the effects of a run: modules of the program's folder, the working directory, the environment."""
    modules, directory, environment = set(sys.modules), os.getcwd(), dict(os.environ)
    try:
        yield
    finally:
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).resolve().is_relative_to(folder):
                del sys.modules[name]
        os.chdir(directory)
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
