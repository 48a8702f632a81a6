"""The quicker of two ways to do something, found by trying both."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import perf_counter_ns

__all__ = ["TRIED_AGAIN_AFTER", "TRIES", "WATCHED", "QuickerWay", "QuickerWays"]

TRIES = 3  # of each way, of which the quickest counts: others may have waited for a late member
WATCHED = 16  # runs after which members compare their times with those before
TRIED_AGAIN_AFTER = 256  # runs, since virtual processors move

_CHANGED = 1.5  # times as long, or as short, as before
_NEVER = (1 << 62) - 1  # nanoseconds
_MOST_KEPT = 64


class QuickerWay:
    """Chooses one of two ways for each run, alike on all members: by turns at first, then the quicker one.

    Both are tried again after a number of runs, and as soon as the times of the way that is taken have changed.
    """

    def __init__(self) -> None:
        self._runs = 0
        self._least = [_NEVER, _NEVER]  # nanoseconds of the quickest run of each way, lately
        self._way = 0
        self._usual = 0  # nanoseconds of the slowest member's quickest run of the way that is taken, when first watched
        self._began = 0

    def begin(self, most: Callable[[int], int]) -> int:
        """The way of the run that begins, 0 or 1.  Collective over the members.

        ``most``: finds the largest of the members' numbers.
        """
        after_tries = self._runs - 2 * TRIES
        if after_tries == 0:
            self._choose(most)
        elif after_tries > 0 and after_tries % WATCHED == 0 and self._has_changed(most):
            self._runs = 0
        if self._runs == 0:
            self._forget_times()
        if self._runs < 2 * TRIES:
            self._way = self._runs % 2
        self._runs = (self._runs + 1) % TRIED_AGAIN_AFTER
        self._began = perf_counter_ns()
        return self._way

    def end(self) -> None:
        """Note the time of the run that ends.  Local."""
        self._least[self._way] = min(self._least[self._way], perf_counter_ns() - self._began)

    def _choose(self, most: Callable[[int], int]) -> None:
        first, second = most(self._least[0]), most(self._least[1])
        self._way, self._usual = int(second < first), 0
        self._forget_times()

    def _has_changed(self, most: Callable[[int], int]) -> bool:
        """Whether the runs since it was asked last took other times than usual, which are those when first asked."""
        lately = most(self._least[self._way])
        self._forget_times()
        self._usual = self._usual or lately
        return max(lately, self._usual) > _CHANGED * min(lately, self._usual)

    def _forget_times(self) -> None:
        self._least = [_NEVER, _NEVER]


class QuickerWays:
    """A `QuickerWay` for each key; all members use the same keys, one after the other."""

    def __init__(self) -> None:
        self._ways: dict[Hashable, QuickerWay] = {}
        self._tried: QuickerWay | None = None

    def begin(self, key: Hashable, most: Callable[[int], int]) -> int:
        """The way of the run that begins, as `QuickerWay.begin`.  Collective."""
        tried = self._ways.get(key)
        if tried is None:
            if len(self._ways) >= _MOST_KEPT:
                self._ways.clear()
            tried = self._ways[key] = QuickerWay()
        self._tried = tried
        return tried.begin(most)

    def end(self) -> None:
        """Note the end of the last run that began, once.  Local."""
        if self._tried is not None:
            self._tried.end()
            self._tried = None
