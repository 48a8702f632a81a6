"""Random numbers of simulated ranks that run one at a time: each rank has states of its own, as processes have."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

__all__ = ["RandomStates"]


class RandomStates:
    """The states of ``random`` and ``numpy.random`` for ``size`` ranks, seeded by their ranks, the same in every run.

    ``enter(rank)`` is called by each rank that goes on; ``leave`` restores the process's own states.  Generators that a
    program makes itself are not affected.
    """

    def __init__(self, size: int):
        self._outside = _states()
        self._states: list[tuple[Any, Any] | None] = [None] * size
        self._now: int | None = None

    def enter(self, rank: int) -> None:
        """Switches to the states of ``rank``.  Local; one rank at a time."""
        if rank == self._now:
            return
        if self._now is not None:
            self._states[self._now] = _states()
        self._now = rank
        states = self._states[rank]
        if states is None:
            random.seed(rank)
            np.random.seed(rank)
        else:
            _set(states)

    def leave(self) -> None:
        """Restores the process's own states at the end of the run.  Local."""
        _set(self._outside)


def _states() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()


def _set(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
