"""Waits that take too long, between processes: who notices, how the states of all come together, and who prints them.

Every process looks at its own recorder.  Whoever has waited longer than the limit sounds the alarm: every process
answers once, to all, with what it does.  One whose second thread gets no chance to run (the program computes in C and
keeps the interpreter's lock) cannot answer; the first of its node that does reads its records from memory, and tells
the others.  The lowest rank that answers prints the picture and ends the job; should it fail to, the next one does.

Where a process is being debugged, or still prepares an operation, nobody waits too long: its answer calls the alarm
off, and all clocks start anew.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from spmd_grid.transport.communicator import Process
from spmd_grid.watch.call_site import call_site, main_frame
from spmd_grid.watch.clocks import stops_clocks
from spmd_grid.watch.hang_report import RankState, ended_state, picture, read_state, unknown_state

__all__ = ["HangWatch", "Report"]

# Seconds from the alarm: who has not answered by then is silent; the picture is printed without those of whom nobody
# knows; and from one rank to the next that would print it.
_SILENT, _COMPLETE, _NEXT = 0.4, 0.8, 0.6


@dataclass
class Report:
    """What ranks do, in answer to alarm number ``alarm``; nothing, from whoever is about to print the picture."""

    alarm: int
    states: dict[int, RankState]


class HangWatch:
    """The watch of one process; only its watching thread uses it.

    ``post_all`` sends bytes to all others, ``end`` prints a text and ends the job; ``departed`` has those that have
    ended; ``memory_of(rank)`` is the memory of the recorder of a process of this node, None of others.  ``limit``:
    seconds that a process may wait, None for any number.
    """

    limit: float | None = None

    def __init__(self, process: Process, post_all, end, departed, memory_of: Callable[[int], np.ndarray | None]):
        self._process = process
        self._post_all, self._end, self._departed, self._memory_of = post_all, end, departed, memory_of
        self._over = 0  # the number of the last alarm that was called off
        self._alarm = 0  # and of the present one; the same where there is none
        self._rang = 0.0
        self._states: dict[int, RankState] = {}
        self._has_read = False
        self._patience = 0.0  # while another rank prints
        self._clocks_from = self._stopped_at = float("-inf")

    @property
    def is_alarmed(self) -> bool:
        return self._alarm != self._over

    def look(self) -> None:
        """Whether this process waits too long; or, after an alarm, what is to be done next."""
        recorder, limit = self._process.recorder, self.limit
        if limit is None or recorder is None:
            return
        now = time.monotonic()
        if stops_clocks(main_frame()):
            self._stopped_at = now
        if self.is_alarmed:
            self._go_on(now - self._rang)
        elif min(recorder.waited(now), now - self._clocks_from) > limit:
            self._answer(self._over + 1)

    def hear(self, report: Report) -> None:
        """Somebody has told what ranks do."""
        if report.alarm <= self._over or self.limit is None or self._process.recorder is None:
            return
        if not self.is_alarmed:
            self._answer(report.alarm)
        if not report.states:
            self._patience += 2.0
        self._learn(report.states)

    def _answer(self, alarm: int) -> None:
        process, now = self._process, time.monotonic()
        self._alarm, self._rang, self._states = alarm, now, {}
        self._has_read, self._patience = False, 0.0
        stopped = now - self._stopped_at < self.limit
        state = RankState.of(process.label(), process.recorder, call_site(main_frame()), stopped)
        self._tell({process.rank: state})

    def _tell(self, states: dict[int, RankState]) -> None:
        self._post_all(pickle.dumps(Report(self._alarm, states)))
        self._learn(states)

    def _learn(self, states: dict[int, RankState]) -> None:
        for rank, state in states.items():
            if state.answers or rank not in self._states:
                self._states[rank] = state
        if any(state.stops_clocks for state in states.values()):
            self._over = self._alarm
            self._clocks_from = time.monotonic()

    def _go_on(self, elapsed: float) -> None:
        me, known = self._process.rank, self._states
        missing = [rank for rank in range(self._process.size) if rank not in known and rank not in self._departed]
        answering = sorted(rank for rank, state in known.items() if state.answers and rank not in self._departed)
        if missing and elapsed > _SILENT and not self._has_read:
            self._has_read = True
            self._read_silent(missing, answering)
        elif elapsed > _COMPLETE + self._patience + _NEXT * answering.index(me) or (
            not missing and answering[0] == me and not self._patience
        ):
            self._print(missing)

    def _read_silent(self, missing: Collection[int], answering: Collection[int]) -> None:
        me = self._process.rank
        if any(rank < me and self._memory_of(rank) is not None for rank in answering):
            return  # the first of the node that answers does it
        memories = {rank: self._memory_of(rank) for rank in missing}
        read = {rank: read_state(rank, memory) for rank, memory in memories.items() if memory is not None}
        if read:
            self._tell(read)

    def _print(self, missing: Collection[int]) -> None:
        self._post_all(pickle.dumps(Report(self._alarm, {})))
        states = self._states | {rank: unknown_state(rank) for rank in missing}
        states |= {rank: ended_state(departure.label) for rank, departure in self._departed.items()}
        self._end(picture(states, self.limit))
