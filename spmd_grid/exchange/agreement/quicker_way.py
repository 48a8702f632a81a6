"""The quicker of two ways to do something, found by trying both."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import perf_counter_ns
from weakref import WeakValueDictionary

import numpy as np

from spmd_grid.kernels.protocol import slots as at

__all__ = ["TRIED_AGAIN_AFTER", "TRIES", "WATCHED", "QuickerWay", "QuickerWays"]

TRIES = 3  # of each way, of which the quickest counts: others may have waited for a late member
WATCHED = 16  # runs after which members compare their times with those before
TRIED_AGAIN_AFTER = 256  # runs, since virtual processors move

_CHANGED = 1.5  # times as long, or as short, as before
_NEVER = (1 << 62) - 1  # nanoseconds
_MOST_KEPT = 256


class QuickerWay:
    """Chooses one of two ways for each run, alike on all members: by turns at first, then the quicker one.

    Both are tried again after a number of runs, and as soon as the times of the way that is taken have changed.
    ``words`` has the numbers by which compiled code makes and times runs in between, and counts them
    (kernels/protocol/loop_run.py): see WAYS_* in kernels/protocol/slots.py.
    """

    def __init__(self) -> None:
        self.words = np.zeros(at.WAYS_WORDS, np.int64)
        self._least = self.words[at.WAYS_LEAST : at.WAYS_LEAST + 2]
        self._usual = 0  # nanoseconds of the slowest member's quickest run of the way that is taken, when first watched
        self._began = 0

    def begin(self, most: Callable[[int], int]) -> int:
        """The way of the run that begins, 0 or 1.  Collective over the members.

        ``most``: finds the largest of the members' numbers.
        """
        words = self.words
        runs, way = int(words[at.WAYS_RUNS]) % TRIED_AGAIN_AFTER, int(words[at.WAYS_WAY])
        after_tries = runs - 2 * TRIES
        if after_tries == 0:
            way = self._choose(most)
        elif after_tries > 0 and after_tries % WATCHED == 0 and self._has_changed(most, way):
            runs = 0
        if runs == 0:
            self._forget_times()
        if runs < 2 * TRIES:
            way = runs % 2
        words[at.WAYS_RUNS], words[at.WAYS_WAY] = runs + 1, way
        watched = runs - (runs - 2 * TRIES) % WATCHED + WATCHED
        words[at.WAYS_UNTIL] = 0 if runs < 2 * TRIES else min(watched, TRIED_AGAIN_AFTER)
        self._began = perf_counter_ns()
        return way

    def end(self) -> None:
        """Note the time of the run that ends.  Local."""
        way = self.words[at.WAYS_WAY]
        self._least[way] = min(self._least[way], perf_counter_ns() - self._began)

    def begin_anew(self) -> None:
        """Leave the next runs to Python, which tries both ways as at first.  Local; alike on all members."""
        self.words[[at.WAYS_RUNS, at.WAYS_UNTIL, at.WAYS_WAY]] = self._usual = 0

    def _choose(self, most: Callable[[int], int]) -> int:
        first, second = [most(int(least)) for least in self._least]
        self._usual = 0
        self._forget_times()
        return int(second < first)

    def _has_changed(self, most: Callable[[int], int], way: int) -> bool:
        """Whether the runs since it was asked last took other times than usual, which are those when first asked."""
        lately = most(int(self._least[way]))
        self._forget_times()
        self._usual = self._usual or lately
        return max(lately, self._usual) > _CHANGED * min(lately, self._usual)

    def _forget_times(self) -> None:
        self._least[:] = _NEVER


class QuickerWays:
    """A `QuickerWay` for each key; all members use the same keys, one after the other.

    Where there are too many, all are forgotten.  Compiled runs hold on to theirs, which begins anew if its key comes
    again: as one that is made then, on members that have no such runs.
    """

    def __init__(self) -> None:
        self._ways: dict[Hashable, QuickerWay] = {}
        self._held: WeakValueDictionary[Hashable, QuickerWay] = WeakValueDictionary()
        self._tried: QuickerWay | None = None

    def begin(self, key: Hashable, most: Callable[[int], int]) -> int:
        """The way of the run that begins, as `QuickerWay.begin`.  Collective."""
        tried = self._ways.get(key)
        if tried is None:
            if len(self._ways) >= _MOST_KEPT:
                for forgotten in self._ways.values():
                    forgotten.begin_anew()
                self._ways.clear()
            tried = self._ways[key] = self._held[key] = self._held.get(key) or QuickerWay()
        self._tried = tried
        return tried.begin(most)

    def find(self, key: Hashable) -> QuickerWay | None:
        """The ways of runs with this key, if there have been any.  Local."""
        return self._ways.get(key)

    def end(self) -> None:
        """Note the end of the last run that began, once.  Local."""
        if self._tried is not None:
            self._tried.end()
            self._tried = None
