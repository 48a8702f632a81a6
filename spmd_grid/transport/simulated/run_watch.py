"""Waits that take too long among simulated ranks: looked for by the thread that waits for them all.

Where a rank computes in C and keeps the interpreter's lock, that thread cannot look, nor can anybody go on.  After a
while `faulthandler` ends the process: it needs no interpreter, and shows where every thread is.
"""

from __future__ import annotations

import faulthandler
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

from spmd_grid.errors import HangError
from spmd_grid.watch.call_site import call_site
from spmd_grid.watch.clocks import stops_clocks
from spmd_grid.watch.hang_report import RankState, ended_state, picture

__all__ = ["RunWatch"]

# After so many limits in which nobody could look.
_LAST_RESORT = 3


class RunWatch:
    """The watch of one run: of a `ThreadWorld`, whose ranks run in ``threads`` (identifiers by rank, while they run).

    While any rank is being debugged, or prepares an operation, nobody waits too long, and all clocks start anew.
    """

    def __init__(self, world, threads: Mapping[int, int]):
        self._world, self._threads = world, threads
        self._clocks_from = float("-inf")
        self._armed_at = 0.0  # 0: not armed

    def look(self) -> None:
        """Ends the run if a rank waits for longer than the limit.  Raises nothing: the run fails."""
        limit = self._world.watched.timeout
        if limit is None:
            return
        now, frames = time.monotonic(), sys._current_frames()
        at = {rank: frames[thread] for rank, thread in dict(self._threads).items() if thread in frames}
        if any(map(stops_clocks, at.values())):
            self._clocks_from = now
        waits = [process.recorder.waited(now) for process in self._world.processes if process.recorder is not None]
        longest = min(max(waits, default=0.0), now - self._clocks_from)
        self._arm(limit, now)
        if longest > limit:
            self._world.scheduler.stop(HangError(picture(self._states(at), limit)))

    def close(self) -> None:
        """The run is over."""
        if self._armed_at:
            faulthandler.cancel_dump_traceback_later()

    def _states(self, frames: Mapping[int, object]) -> dict[int, RankState]:
        states = {}
        for process in self._world.processes:
            if self._world.scheduler.has_ended(process.rank):
                states[process.rank] = ended_state(process.label())
            else:
                frame = frames.get(process.rank)
                at = "" if frame is None else call_site(frame)
                states[process.rank] = RankState.of(process.label(), process.recorder, at)
        return states

    def _arm(self, limit: float, now: float) -> None:
        if self._world.size > 1 and (not self._armed_at or now - self._armed_at > limit / 2):
            with suppress(OSError, ValueError, AttributeError):  # no standard error
                faulthandler.dump_traceback_later(_LAST_RESORT * limit, exit=True, file=sys.__stderr__)
                self._armed_at = now
