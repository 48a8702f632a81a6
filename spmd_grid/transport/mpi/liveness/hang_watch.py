"""Waits between processes that take too long: detection, collection of the states of all processes, and the report.

Every process watches its own recorder.  One that has waited longer than the limit raises the alarm, and every process
answers once, to all, with its state.  A process whose second thread cannot run (the program computes in C and keeps the
interpreter's lock) cannot answer; the first of its node that does reads its records from memory, and sends them to the
others.  The lowest rank that answers prints the states of all and ends the job; if it fails to, the next one does.

While a process is being debugged, or prepares an operation, no wait is too long: its answer cancels the alarm, and all
clocks restart.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from spmd_grid.transport.communicator import Process
from spmd_grid.transport.mpi.liveness.departure import Departed
from spmd_grid.transport.mpi.liveness.launcher import end_launcher_later
from spmd_grid.watch.call_site import call_site, main_frame
from spmd_grid.watch.clocks import stops_clocks
from spmd_grid.watch.hang_report import RankState, ended_state, picture, read_state, unknown_state

__all__ = ["HangWatch", "Report"]

# Seconds after the alarm: a process without an answer is silent; the report is printed without the missing states; and
# the time that each further rank waits for the one before it to print.
_SILENT, _COMPLETE, _NEXT = 0.4, 0.8, 0.6


@dataclass
class Report:
    """The states of ranks, in answer to alarm number ``alarm``; empty from a process that is about to print."""

    alarm: int
    states: dict[int, RankState]


class HangWatch:
    """The watch of one process, for its watching thread.

    ``post_all`` sends bytes to all others.  ``end`` prints a text and ends the job.  ``departed``: the processes that
    have ended.  ``memory_of(rank)``: the memory of the recorder of a process of this node, None of others.
    ``host_of(rank)``: the name of its host, empty if there is one alone.  ``limit``: seconds that a process may wait,
    None without a limit.
    """

    limit: float | None = None

    def __init__(
        self,
        process: Process,
        post_all: Callable[[bytes], None],
        end: Callable[[str], None],
        departed: Departed,
        memory_of: Callable[[int], np.ndarray | None],
        host_of: Callable[[int], str],
    ):
        self._process = process
        self._post_all, self._end, self._departed, self._memory_of = post_all, end, departed, memory_of
        self._host_of = host_of
        self._cancelled = 0  # the number of the last alarm that was cancelled
        self._alarm = 0  # the number of the present alarm; the same if there is none
        self._alarm_time = 0.0
        self._states: dict[int, RankState] = {}
        self._has_read = False
        self._patience = 0.0  # further seconds to wait while another rank prints
        self._clocks_from = self._stopped_at = float("-inf")

    @property
    def is_alarmed(self) -> bool:
        return self._alarm != self._cancelled

    def look(self) -> None:
        """Raises the alarm if this process waits too long; after an alarm, takes the next step."""
        recorder, limit = self._process.recorder, self.limit
        if limit is None or recorder is None:
            return
        now = time.monotonic()
        if stops_clocks(main_frame()):
            self._stopped_at = now
        if self.is_alarmed:
            self._continue(now - self._alarm_time, limit)
        elif min(recorder.waited(now), now - self._clocks_from) > limit:
            self._answer(self._cancelled + 1, limit)

    def receive(self, report: Report) -> None:
        """Takes in the states that another process has sent."""
        if report.alarm <= self._cancelled or self.limit is None or self._process.recorder is None:
            return
        if not self.is_alarmed:
            self._answer(report.alarm, self.limit)
        if not report.states:
            self._patience += 2.0
            self._see_to_launcher()
        self._learn(report.states)

    def _answer(self, alarm: int, limit: float) -> None:
        process, now = self._process, time.monotonic()
        self._alarm, self._alarm_time, self._states = alarm, now, {}
        self._has_read, self._patience = False, 0.0
        stopped = now - self._stopped_at < limit
        state = RankState.of(process.label(), process.recorder, call_site(main_frame()), stopped)
        self._send({process.rank: state})

    def _send(self, states: dict[int, RankState]) -> None:
        self._post_all(pickle.dumps(Report(self._alarm, states)))
        self._learn(states)

    def _learn(self, states: dict[int, RankState]) -> None:
        for rank, state in states.items():
            if state.answers or rank not in self._states:
                self._states[rank] = state
        if any(state.stops_clocks for state in states.values()):
            self._cancelled = self._alarm
            self._clocks_from = time.monotonic()

    def _missing(self) -> list[int]:
        return [rank for rank in range(self._process.size) if rank not in self._states and rank not in self._departed]

    def _answering(self) -> list[int]:
        return sorted(rank for rank, state in self._states.items() if state.answers and rank not in self._departed)

    def _is_first_of_node(self) -> bool:
        """Whether no lower rank of this node answers."""
        me = self._process.rank
        return not any(rank < me and self._memory_of(rank) is not None for rank in self._answering())

    def _see_to_launcher(self) -> None:
        """Makes sure that the launcher ends with the job, though a host may be gone."""
        if self._missing() and self._is_first_of_node():
            end_launcher_later()

    def _continue(self, elapsed: float, limit: float) -> None:
        missing, answering, me = self._missing(), self._answering(), self._process.rank
        if missing and elapsed > _SILENT and not self._has_read:
            self._has_read = True
            self._read_silent(missing)
        elif elapsed > _COMPLETE + self._patience + _NEXT * answering.index(me) or (
            not missing and answering[0] == me and not self._patience
        ):
            self._print(missing, limit)

    def _read_silent(self, missing: Collection[int]) -> None:
        if not self._is_first_of_node():
            return
        memories = {rank: self._memory_of(rank) for rank in missing}
        read = {rank: read_state(rank, memory) for rank, memory in memories.items() if memory is not None}
        if read:
            self._send(read)

    def _print(self, missing: Collection[int], limit: float) -> None:
        self._see_to_launcher()
        self._post_all(pickle.dumps(Report(self._alarm, {})))
        states = self._states | {rank: unknown_state(rank, self._host_of(rank)) for rank in missing}
        states |= {rank: ended_state(departure.label) for rank, departure in self._departed.items()}
        self._end(picture(states, limit))
