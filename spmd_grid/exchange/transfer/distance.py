"""The distance of processors: what it costs that one reads what another one has written.

Lines of cache that another processor has read are slow to write to again, and may be slow to fetch.  Between processors
that share no cache it can be quicker to pass arrays on than to read them where they lie, and to write past the caches
what is passed on.  A quick word shows that nothing of this is so.  A slow one does not show that it is: many cores may
share a cache that answers late.  Then members pass a few bytes each way, now and then, and compare the times.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from time import perf_counter, perf_counter_ns

import numpy as np

from spmd_grid import kernels
from spmd_grid.kernels.copy.tables import ALWAYS, BY_LINES, NEVER

__all__ = ["SLOW_WORD", "Distance"]

# Seconds of a word between two processors within one cache, at most; and of fetching the word of each further member.
SLOW_WORD = 170e-9
_FURTHER_WORD = 40e-9
_ROLL_CALLS, _ROLLS = 8, 3

_QUICK, _SLOW, _DUE = 0, 1, 2  # a word; and the ways are to be tried

# The bytes that are read or passed on; how often, of which the quickest counts; the share of all time that it takes.
_BYTES, _TRIES, _SHARE = 1 << 16, 5, 1 / 200
_SOURCE, _RESULT, _SLOTS = 0, _BYTES, (2 * _BYTES, 3 * _BYTES)  # bytes from the start of a member's memory
_WORTH = 1.25  # times as long as to pass it on: far enough, and between far processors a large relay should stream


class Distance:
    """The findings of the members of a meeting about their distance, alike on all.

    ``roll``: makes all members wait for one another a number of times, and gives the largest of their values.
    ``is_far``: whether arrays are quicker passed on than read where they lie, the owner's next write included;
    ``streams``: whether what is passed on is quicker written past the caches; ``is_late``: whether they are not far
    apart, though words are slow: what suits other sizes than those that were tried is not known then.
    """

    def __init__(self, roll: Callable[[int, int], int], members: int):
        self._roll, self._further = roll, max(members - 2, 0) * _FURTHER_WORD
        self._found = True, True  # when the ways were last tried
        self._due = 0.0  # when they are to be tried again
        self.is_far = self.streams = self.is_late = False

    def ask(self, mine: int = 0, theirs: int = 0) -> float:
        """Seconds that a word takes between two members; the rest is found anew.  Collective.

        ``mine``, ``theirs``: the addresses of memory of this member and of the next one, which no process uses now,
        where members have such memory.
        """
        seconds = min(self._time_words() for _ in range(_ROLLS)) - self._further
        state = _QUICK if seconds <= SLOW_WORD else _SLOW
        if state == _SLOW and mine and perf_counter() >= self._due:
            state = _DUE
        state = self._roll(1, state)
        if state == _DUE:
            began = perf_counter()
            in_place, cached, streamed = (self._roll(1, least) for least in self._time_ways(mine, theirs))
            is_far = in_place > _WORTH * min(cached, streamed)
            self._found = is_far, streamed < (_WORTH if is_far else 1.0) * cached
            now = perf_counter()
            self._due = now + (now - began) / _SHARE
        self.is_far, self.streams = (False, False) if state == _QUICK else self._found
        self.is_late = state != _QUICK and not self.is_far
        return seconds

    def _time_words(self) -> float:
        began = perf_counter()
        self._roll(_ROLL_CALLS, 0)
        return (perf_counter() - began) / _ROLL_CALLS

    def _time_ways(self, mine: int, theirs: int) -> list[int]:
        """Nanoseconds to read in place, to pass on, and to pass on past the caches.  Collective."""
        least = [1 << 62] * 3
        for _ in range(_TRIES):
            for way, packs in enumerate((None, NEVER, ALWAYS)):
                slot = _SOURCE if packs is None else _SLOTS[way - 1]
                self._roll(1, 0)
                began = perf_counter_ns()
                if packs is not None:
                    self._copy(mine + _SOURCE, mine + slot, packs)
                self._roll(1, 0)
                self._copy(theirs + slot, mine + _RESULT, BY_LINES)
                self._roll(1, 0)
                self._copy(mine + _RESULT, mine + _SOURCE, BY_LINES)  # the owner writes, as most programs do
                least[way] = min(least[way], perf_counter_ns() - began)
        return least

    def _copy(self, source: int, target: int, how: int) -> None:
        kernels.copy_table(kernels.address_of(self._table), self._table.shape[1], 1, source, target, how)

    @cached_property
    def _table(self) -> np.ndarray:
        return kernels.build_table([kernels.box_row((_BYTES,), 1, (1,), 0, (1,), 0)])
