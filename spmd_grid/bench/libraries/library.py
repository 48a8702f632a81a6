"""The interface to another library, which takes part in a benchmark if it is installed."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from spmd_grid.bench.common.contenders import Contender
from spmd_grid.bench.common.machine import free_bytes
from spmd_grid.bench.common.rows import Figure

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["AbsentError", "DeclinedError", "PeerLibrary"]


class AbsentError(Exception):
    """The library cannot be used here; the message says why."""


class DeclinedError(Exception):
    """The library is skipped in this row; the message says why.  Raised on all ranks, with the same message."""


class PeerLibrary(ABC):
    """A library, opened once for all rows.

    Subclasses set ``name``, with which the names of its contenders begin; ``package`` and ``distribution``, its names
    in Python and for pip; ``extra``, the extra of this package that installs it; and ``copies``, the number of copies
    of the global array that it holds in memory, over all ranks.
    """

    name: str
    package: str
    distribution: str
    extra: str = "bench"
    copies: int = 3

    def __init__(self, comm: Intracomm) -> None:
        self.comm = comm

    def missing(self) -> str:
        """The reason why the library cannot take part, or "" if it is installed.  Local."""
        if find_spec(self.package) is None:
            return f"{self.distribution} is not installed (pip install 'spmd-grid[{self.extra}]')"
        return ""

    def open(self) -> None:
        """Load the library.  Collective.  Raises `AbsentError` on all ranks if it cannot be loaded on one of them."""
        reason = self.missing()
        if not any(self.comm.allgather(reason)):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # imports may warn about the library's own code
                    self.load()
            except Exception as error:
                reason = f"{self.distribution} cannot be loaded ({type(error).__name__}: {error})"
        first_reason = next(filter(None, self.comm.allgather(reason)), None)
        if first_reason is not None:
            raise AbsentError(first_reason)

    def version(self) -> str:
        return version(self.distribution)

    def check_memory(self, case: Any) -> None:
        """Raise `DeclinedError` if the library's copies of the global array do not fit into memory.  Collective."""
        needed, free = self.copies * case.n_bytes, self.comm.bcast(free_bytes())
        if needed > free:
            raise DeclinedError(f"needs {needed >> 30} GiB of memory, of which {free >> 30} are free")

    @abstractmethod
    def load(self) -> None:
        """Import the library and start what it needs for all rows.  Collective."""

    @contextmanager
    def contenders(self, case: Any, source: np.ndarray, target: np.ndarray) -> Iterator[dict[str, Contender]]:
        """Contenders that are timed in turns with all others, by name.  Collective.  May raise `DeclinedError`.

        ``source``, ``target``: this rank's blocks of doubles: before and after a resharding, or of both operands.
        """
        yield {}

    def own_figures(self, case: Any, rounds: int, at_most_seconds: float) -> dict[str, Figure]:
        """Figures of contenders that cannot take turns, by name.  Collective.  May raise `DeclinedError`."""
        return {}

    def close(self) -> None:
        """Stop what `load` started.  Collective."""
