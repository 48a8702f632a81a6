"""The measured distance of processors: what a read of memory costs that another processor has written.

A line of cache that another processor has read is slow to write again, and may be slow to fetch.  Processors that share
no cache can therefore be quicker with a relay than with reads in place, and with a relay that writes past the caches.
Processors that exchange a word quickly share a cache.  Processors that exchange it slowly may share one too: a cache of
many cores answers late.  Their members time a small array each way, now and then, and take the quickest.
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
# Members are far apart if a read in place takes this many times as long as a relay.  Between them relays stream unless
# that takes this many times as long as a relay through the caches, which large arrays leave.
_WORTH = 1.25


class Distance:
    """The distance that the members of a meeting have measured, the same on all of them.

    ``roll``: makes all members wait for one another a number of times, and gives the largest of their values.
    ``is_far``: whether a relay is quicker than a read in place, if the owner's next write counts too; ``streams``:
    whether a relay is quicker past the caches; ``is_late``: whether words are slow but members are not far apart, so
    that the trial says nothing about arrays of other sizes.
    """

    def __init__(self, roll: Callable[[int, int], int], members: int):
        self._roll, self._further = roll, max(members - 2, 0) * _FURTHER_WORD
        self._found = True, True  # when the ways were last tried
        self._due = 0.0  # when they are to be tried again
        self.is_far = self.streams = self.is_late = False

    def ask(self, mine: int = 0, theirs: int = 0) -> float:
        """Measure the distance anew, and return the seconds that a word takes between two members.  Collective.

        ``mine``, ``theirs``: the addresses of memory of this member and of the next one that no process uses now; 0 if
        there is none.
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
        """The nanoseconds that a read in place, a relay, and a relay past the caches take.  Collective."""
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
