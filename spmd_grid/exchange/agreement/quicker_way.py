"""The quicker of two ways to do something, found by trying both."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import perf_counter_ns

__all__ = ["TRIED_AGAIN_AFTER", "TRIES", "QuickerWay", "QuickerWays"]

TRIES = 3  # of each way, of which the quickest counts: others may have waited for a late member
TRIED_AGAIN_AFTER = 256  # runs, since virtual processors move

_NEVER = (1 << 62) - 1  # nanoseconds
_MOST_KEPT = 64


class QuickerWay:
    """Chooses one of two ways for each run, alike on all members: by turns at first, then the quicker one."""

    def __init__(self) -> None:
        self._runs = 0
        self._least = [_NEVER, _NEVER]  # nanoseconds of the quickest run of each way
        self._way = 0
        self._began = 0

    def begin(self, most: Callable[[int], int]) -> int:
        """The way of the run that begins, 0 or 1.  Collective over the members.

        ``most``: finds the largest of the members' numbers.
        """
        number, self._runs = self._runs, (self._runs + 1) % TRIED_AGAIN_AFTER
        if number == 0:
            self._least = [_NEVER, _NEVER]
        if number < 2 * TRIES:
            self._way = number % 2
            self._began = perf_counter_ns()
        elif number == 2 * TRIES:
            first, second = most(self._least[0]), most(self._least[1])
            self._way = int(second < first)
        return self._way

    def end(self) -> None:
        """Note the time of the run that ends, if it is one of those that try.  Local."""
        if self._began:
            self._least[self._way] = min(self._least[self._way], perf_counter_ns() - self._began)
            self._began = 0


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
