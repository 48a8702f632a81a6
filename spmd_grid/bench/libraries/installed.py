"""The libraries that we are compared with, where they are installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from spmd_grid.bench.common.contenders import Contender
from spmd_grid.bench.common.rows import Figure
from spmd_grid.bench.libraries.library import AbsentError, DeclinedError, PeerLibrary

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["Libraries"]

Found = TypeVar("Found", Contender, Figure)


class Libraries:
    """Opens those of the ``requested`` libraries that are installed; a context manager that closes them.  Collective.

    ``types``: the libraries of the benchmark.
    ``present``: the open libraries; ``skipped``: by name, the reasons why the others cannot be used.
    """

    def __init__(self, comm: Intracomm, requested: Sequence[str], types: Sequence[type[PeerLibrary]]) -> None:
        self.present: list[PeerLibrary] = []
        self.skipped: dict[str, str] = {}
        for library_type in types:
            if library_type.name in requested:
                library = library_type(comm)
                try:
                    library.open()
                    self.present.append(library)
                except AbsentError as reason:
                    self.skipped[library.name] = str(reason)

    @property
    def versions(self) -> dict[str, str]:
        return {library.name: library.version() for library in self.present}

    def __enter__(self) -> Libraries:
        return self

    def __exit__(self, *_: object) -> None:
        for library in self.present:
            library.close()

    def contenders(
        self, case: Any, source: np.ndarray, target: np.ndarray, stack: ExitStack, skipped: dict[str, str]
    ) -> dict[str, Contender]:
        """The contenders of a row, valid until ``stack`` is closed; adds libraries that decline it to ``skipped``."""

        def contenders_of(library: PeerLibrary) -> dict[str, Contender]:
            return stack.enter_context(library.contenders(case, source, target))

        return self._from_all(case, contenders_of, skipped)

    def own_figures(self, case: Any, rounds: int, at_most_seconds: float, skipped: dict[str, str]) -> dict[str, Figure]:
        """The figures of contenders that cannot take turns; adds libraries that decline the row to ``skipped``."""
        return self._from_all(case, lambda library: library.own_figures(case, rounds, at_most_seconds), skipped)

    def _from_all(
        self, case: Any, ask: Callable[[PeerLibrary], dict[str, Found]], skipped: dict[str, str]
    ) -> dict[str, Found]:
        """The results of ``ask`` from all libraries that have not been ``skipped`` in this row, nor decline it now."""
        found: dict[str, Found] = {}
        for library in self.present:
            if library.name in skipped:
                continue
            try:
                library.check_memory(case)
                found |= ask(library)
            except DeclinedError as reason:
                skipped[library.name] = str(reason)
        return found
