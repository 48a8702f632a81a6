"""The quicker of two ways to do something, found by trying both."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import perf_counter_ns
from weakref import WeakValueDictionary

import numpy as np

from spmd_grid.kernels.protocol import slots as at

__all__ = ["IN_A_ROW", "TRIED", "TRIED_AGAIN_AFTER", "WATCHED", "QuickerWay", "QuickerWays"]

# Runs in a row by one way, of which the first finds the caches as the other way has left them, and does not count.  Of
# the others the quickest counts: some may have waited for a late member.
IN_A_ROW = 4
TRIED = 2 * IN_A_ROW  # runs by which both ways are tried
WATCHED, _WATCHED_MOST = 16, 128  # runs after which members compare their times with those before: least and most
TRIED_AGAIN_AFTER = 256  # runs, since virtual processors move

_CHANGED = 1.5  # times as long, or as short, as before
_NEVER = (1 << 62) - 1  # nanoseconds
_BETWEEN = 2  # times as long as a run, the most time between two that counts: longer ones vary by more than runs differ
_MOST_KEPT = 256


class QuickerWay:
    """Chooses one of two ways for each run, alike on all members: each for some at first, then the quicker one.

    The time between two runs that are tried counts too, if it is not long: lines that others have read are slow to
    write again, so a run's way decides in part how long the program takes before the next one.  ``outside``: what runs
    of other keys take in between does not count.

    Both are tried again after a number of runs, and as soon as the times of the way that is taken have changed.  Each
    time that the same way is found again, members compare times half as often: tries cost runs by the slower way.
    ``words`` has the numbers by which compiled code makes and times runs in between, and counts them
    (kernels/protocol/loop_run.py): see WAYS_* in kernels/protocol/slots.py.
    """

    def __init__(self, outside: Outside | None = None) -> None:
        self.words = np.zeros(at.WAYS_WORDS, np.int64)
        self._outside = outside or Outside()
        self._least = self.words[at.WAYS_LEAST : at.WAYS_LEAST + 2]
        self._watched, self._chosen = WATCHED, -1  # runs after which members compare times; the way that tries chose
        self._usual = 0  # nanoseconds of the slowest member's quickest run of the way that is taken, when first watched
        self._began = self._ended = 0
        self._between = [_NEVER, _NEVER]  # nanoseconds between two runs by each way, at least, in tries

    def begin(self, most: Callable[[int], int], stays: bool = True) -> int:
        """The way of the run that begins, 0 or 1.  Collective over the members.

        ``most``: finds the largest of the members' numbers; ``stays``: whether caches may hold the arrays until
        they are written again, so that the time between runs counts.
        """
        words = self.words
        runs, way = int(words[at.WAYS_RUNS]) % TRIED_AGAIN_AFTER, int(words[at.WAYS_WAY])
        after_tries = runs - TRIED
        if after_tries == 0:
            way = self._choose(most, stays)
        elif after_tries > 0 and after_tries % self._watched == 0 and self._has_changed(most, way):
            runs = 0
        if runs == 0:
            self._forget_times()
        if runs < TRIED:
            way = runs // IN_A_ROW
        words[at.WAYS_RUNS], words[at.WAYS_WAY] = runs + 1, way
        watched = runs - (runs - TRIED) % self._watched + self._watched
        words[at.WAYS_UNTIL] = 0 if runs < TRIED else min(watched, TRIED_AGAIN_AFTER)
        self._began = perf_counter_ns()
        if runs < TRIED and runs % IN_A_ROW:
            self._between[way] = min(self._between[way], self._outside.now(self._began) - self._ended)
        return way

    def end(self) -> None:
        """Note the time of the run that ends.  Local."""
        runs, way, now = self.words[at.WAYS_RUNS] - 1, self.words[at.WAYS_WAY], perf_counter_ns()
        if runs >= TRIED or runs % IN_A_ROW:
            self._least[way] = min(self._least[way], now - self._began)
        self._ended = self._outside.pass_over(self._began, now)

    def begin_anew(self) -> None:
        """Leave the next runs to Python, which tries both ways as at first.  Local; alike on all members."""
        self.words[[at.WAYS_RUNS, at.WAYS_UNTIL, at.WAYS_WAY]] = self._usual = 0
        self._watched, self._chosen = WATCHED, -1

    def _choose(self, most: Callable[[int], int], stays: bool) -> int:
        first, second, after_first, after_second = [most(int(least)) for least in (*self._least, *self._between)]
        if stays and max(after_first, after_second) <= _BETWEEN * min(first, second):
            first, second = first + after_first, second + after_second
        self._usual = 0
        self._forget_times()
        chosen = int(second < first)
        self._watched = min(2 * self._watched, _WATCHED_MOST) if chosen == self._chosen else WATCHED
        self._chosen = chosen
        return chosen

    def _has_changed(self, most: Callable[[int], int], way: int) -> bool:
        """Whether the runs since it was asked last took other times than usual, which are those when first asked."""
        lately = most(int(self._least[way]))
        self._forget_times()
        self._usual = self._usual or lately
        return max(lately, self._usual) > _CHANGED * min(lately, self._usual)

    def _forget_times(self) -> None:
        self._least[:], self._between = _NEVER, [_NEVER, _NEVER]


class Outside:
    """The time outside of the runs of a group's ways, in nanoseconds."""

    def __init__(self) -> None:
        self._within = 0

    def now(self, now: int) -> int:
        """The time outside until ``now``."""
        return now - self._within

    def pass_over(self, began: int, ended: int) -> int:
        """Note a run; the time outside until its end."""
        self._within += ended - began
        return ended - self._within


class QuickerWays:
    """A `QuickerWay` for each key; all members use the same keys, one after the other.

    Where there are too many, all are forgotten.  Compiled runs hold on to theirs, which begins anew if its key comes
    again: as one that is made then, on members that have no such runs.
    """

    def __init__(self) -> None:
        self._ways: dict[Hashable, QuickerWay] = {}
        self._held: WeakValueDictionary[Hashable, QuickerWay] = WeakValueDictionary()
        self._tried: QuickerWay | None = None
        self._outside = Outside()

    def begin(self, key: Hashable, most: Callable[[int], int], stays: bool = True) -> int:
        """The way of the run that begins, as `QuickerWay.begin`.  Collective."""
        tried = self._ways.get(key)
        if tried is None:
            if len(self._ways) >= _MOST_KEPT:
                for forgotten in self._ways.values():
                    forgotten.begin_anew()
                self._ways.clear()
            tried = self._ways[key] = self.keep(key)
        self._tried = tried
        return tried.begin(most, stays)

    def keep(self, key: Hashable) -> QuickerWay:
        """The ways of runs with this key, of which there need not have been any yet.  Local; the caller keeps it."""
        return self._held.setdefault(key, QuickerWay(self._outside))

    def find(self, key: Hashable) -> QuickerWay | None:
        """The ways of runs with this key, if there have been any.  Local."""
        return self._ways.get(key)

    def end(self) -> None:
        """Note the end of the last run that began, once.  Local."""
        if self._tried is not None:
            self._tried.end()
            self._tried = None
