"""The libraries that reshardings are measured against, where they are installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np

from spmd_grid.bench.common.contenders import Contender
from spmd_grid.bench.common.rows import Figure
from spmd_grid.bench.reshard.cases import ReshardCase
from spmd_grid.bench.reshard.dtensor import DTensorPeer
from spmd_grid.bench.reshard.heat import HeatPeer
from spmd_grid.bench.reshard.jax import JaxPeer
from spmd_grid.bench.reshard.library import AbsentError, DeclinedError, Peer
from spmd_grid.bench.reshard.mpi4py_fft import PencilPeer

__all__ = ["PEERS", "Peers"]

PEERS = PencilPeer, HeatPeer, DTensorPeer, JaxPeer  # as `rows.LIBRARIES` lists their names


class Peers:
    """Those of the wanted libraries that are there, ready; ``skipped`` says why the others are not.  Collective."""

    def __init__(self, comm, wanted: Sequence[str]):
        self.present: list[Peer] = []
        self.skipped: dict[str, str] = {}
        for kind in PEERS:
            if kind.name in wanted:
                peer = kind(comm)
                try:
                    peer.open()
                    self.present.append(peer)
                except AbsentError as reason:
                    self.skipped[peer.name] = str(reason)

    @property
    def versions(self) -> dict[str, str]:
        return {peer.name: peer.version() for peer in self.present}

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, *_) -> None:
        for peer in self.present:
            peer.close()

    def contenders(
        self, case: ReshardCase, source: np.ndarray, target: np.ndarray, made: ExitStack, skipped: dict[str, str]
    ) -> dict[str, Contender]:
        """All that take turns in this row, as long as ``made`` is open; ``skipped`` learns who declined, and why."""
        return self._all(skipped, case, lambda peer: made.enter_context(peer.contenders(case, source, target)))

    def own_figures(
        self, case: ReshardCase, rounds: int, at_most_seconds: float, skipped: dict[str, str]
    ) -> dict[str, Figure]:
        """The figures of all that cannot take turns."""
        return self._all(skipped, case, lambda peer: peer.own_figures(case, rounds, at_most_seconds))

    def _all(self, skipped: dict[str, str], case: ReshardCase, ask: Callable[[Peer], dict]) -> dict:
        found = {}
        for peer in self.present:
            if peer.name in skipped:
                continue
            try:
                peer.check_memory(case)
                found |= ask(peer)
            except DeclinedError as reason:
                skipped[peer.name] = str(reason)
        return found
