"""Random numbers of simulated ranks that run one at a time: each has states of its own, as processes have."""

from __future__ import annotations

import random

import numpy as np

__all__ = ["RandomStates"]


class RandomStates:
    """The states of ``random`` and ``numpy.random`` for ``size`` ranks, seeded by their ranks, the same in every run.

    ``enter(rank)`` is called by whoever goes on; ``leave`` gives the process its own states back.  Generators that a
    program makes itself are its own affair.
    """

    def __init__(self, size: int):
        self._outside = _states()
        self._states: list = [None] * size
        self._now: int | None = None

    def enter(self, rank: int) -> None:
        """Changes to the states of ``rank``.  Local; one rank at a time."""
        if rank == self._now:
            return
        if self._now is not None:
            self._states[self._now] = _states()
        self._now = rank
        if self._states[rank] is None:
            random.seed(rank)
            np.random.seed(rank)
        else:
            _set(self._states[rank])

    def leave(self) -> None:
        """The end of the run.  Local."""
        _set(self._outside)


def _states() -> tuple:
    return random.getstate(), np.random.get_state()


def _set(states: tuple) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
