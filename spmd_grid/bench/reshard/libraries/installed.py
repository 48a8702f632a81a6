"""The libraries that reshardings are compared with, as far as they are installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from spmd_grid.bench.common.contenders import Contender
from spmd_grid.bench.common.rows import Figure
from spmd_grid.bench.reshard.cases import ReshardCase
from spmd_grid.bench.reshard.libraries.dtensor import DTensor
from spmd_grid.bench.reshard.libraries.heat import Heat
from spmd_grid.bench.reshard.libraries.jax import Jax
from spmd_grid.bench.reshard.libraries.library import AbsentError, DeclinedError, Library
from spmd_grid.bench.reshard.libraries.mpi4py_fft import Mpi4pyFft

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["LIBRARY_TYPES", "Libraries"]

LIBRARY_TYPES: Sequence[type[Library]] = (Mpi4pyFft, Heat, DTensor, Jax)  # in the order of `rows.LIBRARIES`
Found = TypeVar("Found", Contender, Figure)


class Libraries:
    """The requested libraries that are installed, opened.  Collective.

    ``skipped``: the reasons why the others are not there.
    """

    def __init__(self, comm: Intracomm, requested: Sequence[str]) -> None:
        self.present: list[Library] = []
        self.skipped: dict[str, str] = {}
        for library_type in LIBRARY_TYPES:
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
        self, case: ReshardCase, source: np.ndarray, target: np.ndarray, stack: ExitStack, skipped: dict[str, str]
    ) -> dict[str, Contender]:
        """The contenders of this row, valid until ``stack`` is closed; adds those that decline to ``skipped``."""
        return self._all(skipped, case, lambda each: stack.enter_context(each.contenders(case, source, target)))

    def own_figures(
        self, case: ReshardCase, rounds: int, at_most_seconds: float, skipped: dict[str, str]
    ) -> dict[str, Figure]:
        """The figures of contenders that cannot take turns; adds those that decline to ``skipped``."""
        return self._all(skipped, case, lambda each: each.own_figures(case, rounds, at_most_seconds))

    def _all(
        self, skipped: dict[str, str], case: ReshardCase, ask: Callable[[Library], dict[str, Found]]
    ) -> dict[str, Found]:
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
