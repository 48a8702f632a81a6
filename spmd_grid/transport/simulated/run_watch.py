"""Waits of simulated ranks that take too long, found by the thread that waits for all ranks.

Ranks that have ended wait for the others, unless one of these has begun an operation lately.

If a rank computes in C and holds the interpreter's lock, no other thread can run.  After a while `faulthandler` ends
the process: it needs no interpreter, and prints the position of every thread.
"""

from __future__ import annotations

import faulthandler
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType
from typing import TypeVar

from spmd_grid.errors import HangError
from spmd_grid.transport.simulated.world import ThreadWorld
from spmd_grid.watch.call_site import call_site
from spmd_grid.watch.clocks import stops_clocks
from spmd_grid.watch.frames import look_at_frames
from spmd_grid.watch.hang_report import RankState, ended_state, picture

__all__ = ["RunWatch"]

# The number of time limits after which `faulthandler` ends a process in which no thread could look.
_LAST_RESORT = 3

Result = TypeVar("Result")


class RunWatch:
    """The watch of one run; ``threads``: identifiers of the ranks' threads, by rank, while they run.

    While any rank is being debugged, or prepares an operation, no wait is too long, and all clocks restart.
    """

    def __init__(self, world: ThreadWorld, threads: Mapping[int, int]):
        self._world, self._threads = world, threads
        self._clocks_from = self._moved_at = float("-inf")
        self._done: list[int] | None = None  # the numbers of operations of all ranks, once one has ended
        self._armed_at = 0.0  # 0: not armed

    def look(self) -> None:
        """Makes the run fail if a rank waits for longer than the limit."""
        limit = self._world.watched.timeout
        if limit is None:
            return
        now, stops = time.monotonic(), self._of_ranks(stops_clocks)
        if any(stops.values()):
            self._clocks_from = now
        waits = [process.recorder.waited(now) for process in self._world.processes if process.recorder is not None]
        longest = min(max(*waits, self._waited_at_end(now), 0.0), now - self._clocks_from)
        self._arm(limit, now)
        if longest > limit:
            self._world.scheduler.stop(HangError(picture(self._states(), limit)))

    def _waited_at_end(self, now: float) -> float:
        """Seconds since which ranks that have ended wait for others, and these have not begun an operation."""
        world = self._world
        if not any(world.scheduler.has_ended(process.rank) for process in world.processes):
            return 0.0
        done = [0 if process.recorder is None else process.recorder.number for process in world.processes]
        if done != self._done:
            self._done, self._moved_at = done, now
        return now - self._moved_at

    def close(self) -> None:
        """Ends the watch of a run that is over."""
        if self._armed_at:
            faulthandler.cancel_dump_traceback_later()

    def _of_ranks(self, look: Callable[[FrameType], Result]) -> dict[int, Result]:
        """Each rank's result of ``look``, called with its innermost frame."""
        threads = dict(self._threads)
        return look_at_frames(
            lambda frames: {rank: look(frames[thread]) for rank, thread in threads.items() if thread in frames}
        )

    def _states(self) -> dict[int, RankState]:
        states, sites = {}, self._of_ranks(call_site)
        for process in self._world.processes:
            if self._world.scheduler.has_ended(process.rank):
                states[process.rank] = ended_state(process.label())
            else:
                states[process.rank] = RankState.of(process.label(), process.recorder, sites.get(process.rank, ""))
        return states

    def _arm(self, limit: float, now: float) -> None:
        stream = sys.__stderr__
        if stream is not None and self._world.size > 1 and (not self._armed_at or now - self._armed_at > limit / 2):
            with suppress(OSError, ValueError, AttributeError):  # not a file
                faulthandler.dump_traceback_later(_LAST_RESORT * limit, exit=True, file=stream)
                self._armed_at = now
