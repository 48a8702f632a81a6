"""What the benchmarks know of another library that is measured beside ours, if it is installed."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np

from spmd_grid.bench.common.contenders import Contender
from spmd_grid.bench.common.machine import free_bytes
from spmd_grid.bench.common.rows import Figure
from spmd_grid.bench.reshard.cases import ReshardCase

__all__ = ["AbsentError", "DeclinedError", "Peer"]


class AbsentError(Exception):
    """The library cannot be used here; the text says why."""


class DeclinedError(Exception):
    """The library takes no part in this row; the text says why, alike on all ranks."""


class Peer(ABC):
    """A library, opened once for all rows.

    Subclasses give ``name``, how the names of its contenders begin; ``package`` and ``distribution``, how Python and
    pip call it; ``extra``, that installs it; and ``copies``, how many times the global array it needs in memory.
    """

    name: str
    package: str
    distribution: str
    extra: str = "bench"
    copies: int = 3

    def __init__(self, comm):
        self.comm = comm

    def missing(self) -> str:
        """Why it cannot take part, in words; empty if it is there.  Local."""
        if find_spec(self.package) is None:
            return f"{self.distribution} is not installed (pip install 'spmd-grid[{self.extra}]')"
        return ""

    def open(self) -> None:
        """Loads the library.  Collective.  Raises `AbsentError`, on all ranks, where one cannot."""
        reason = self.missing()
        if not any(self.comm.allgather(reason)):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of the library about itself
                    self.load()
            except Exception as error:
                reason = f"{self.distribution} cannot be loaded ({type(error).__name__}: {error})"
        for told in filter(None, self.comm.allgather(reason)):
            raise AbsentError(told)

    def version(self) -> str:
        return version(self.distribution)

    def check_memory(self, case: ReshardCase) -> None:
        """Collective.  Raises `DeclinedError` where its copies of the global array may not fit."""
        needed, free = self.copies * case.n_bytes, self.comm.bcast(free_bytes())
        if needed > free:
            raise DeclinedError(f"needs {needed >> 30} GiB of memory, of which {free >> 30} are free")

    @abstractmethod
    def load(self) -> None:
        """Imports the library and makes what it needs once.  Collective."""

    @contextmanager
    def contenders(self, case: ReshardCase, source: np.ndarray, target: np.ndarray) -> Iterator[dict[str, Contender]]:
        """Those that take turns with all others, by name.  Collective.

        ``source``, ``target``: this rank's blocks of doubles before and after.  Raises `DeclinedError`.
        """
        yield {}

    def own_figures(self, case: ReshardCase, rounds: int, at_most_seconds: float) -> dict[str, Figure]:
        """Those that cannot take turns with the others, measured alone.  Collective.  Raises `DeclinedError`."""
        return {}

    def close(self) -> None:
        """Ends what the library has started.  Collective."""
