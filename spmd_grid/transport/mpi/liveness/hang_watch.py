"""Waits between processes that take too long: detection, collection of the states of all processes, and the report.

Every process watches its own recorder.  One that has waited longer than the limit raises the alarm, and every process
answers once, to all, with its state.  A process whose second thread cannot run (the program computes in C and keeps the
interpreter's lock) cannot answer; the first of its node that does reads its records from memory, and sends them to the
others.  The lowest rank that answers prints the states of all and ends the job; if it fails to, the next one does.

While a process is being debugged, or prepares an operation, no wait is too long: its answer cancels the alarm, and all
clocks restart.

A process that has ended waits for all others, and raises the alarm as well.  An answer cancels it that says that its
process has begun an operation lately, and one that does not answer has the limit's time once more: it may be in a
compiled loop.  Without a limit the picture is printed once, as a note, and the job goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from spmd_grid.transport.communicator import Process
from spmd_grid.transport.mpi.liveness.departure import Departed, Departure
from spmd_grid.transport.mpi.liveness.launcher import end_launcher_later
from spmd_grid.watch.call_site import main_thread_call_site
from spmd_grid.watch.clocks import stops_clocks
from spmd_grid.watch.frames import look_at_main_frame
from spmd_grid.watch.hang_report import RankState, ended_state, picture, read_state, unknown_state

__all__ = ["HangWatch", "Report"]

# Seconds after the alarm: a process without an answer is silent; the report is printed without the missing states; and
# the time that each further rank waits for the one before it to print.
_SILENT, _COMPLETE, _NEXT = 0.4, 0.8, 0.6
# Where there is no limit: seconds after which processes that have ended say for whom they wait.
_NOTED_AFTER = 60.0


@dataclass
class Report:
    """The states of ranks, in answer to alarm number ``alarm``; empty from a process that is about to print.

    ``at_end``: whether the alarm is of processes that have ended; ``moves``: whether the sender has begun an operation
    lately.
    """

    alarm: int
    states: dict[int, RankState]
    at_end: bool
    moves: bool = False


class HangWatch:
    """The watch of one process, for its watching thread.

    ``post_all`` sends a report to all others.  ``end`` prints a text and ends the job, ``note`` only prints it.
    ``departed``: the processes that have ended; ``take_stock`` fills in what this one has done.  ``memory_of(rank)``:
    the memory of the recorder of a process of this node, None of others.  ``neighbours``: the system's process numbers
    of the others of this node.  ``host_of(rank)``: the name of its host, empty if there is one alone.  ``limit``:
    seconds that a process may wait, None without a limit.
    """

    limit: float | None = None
    _moved_at: ClassVar[float] = 0.0  # when this process was last seen to have begun operations, in any world

    def __init__(
        self,
        process: Process,
        post_all: Callable[[Report], None],
        end: Callable[[str], None],
        note: Callable[[str], None],
        departed: Departed,
        take_stock: Callable[[Departure], None],
        memory_of: Callable[[int], np.ndarray | None],
        neighbours: Mapping[int, int],
        host_of: Callable[[int], str],
    ):
        self._process = process
        self._post_all, self._end, self._note = post_all, end, note
        self._departed, self._take_stock = departed, take_stock
        self._memory_of, self._neighbours, self._host_of = memory_of, neighbours, host_of
        self._cancelled = 0  # the number of the last alarm that was cancelled
        self._alarm = 0  # the number of the present alarm; the same if there is none
        self._alarm_time = 0.0
        self._at_end = False
        self._states: dict[int, RankState] = {}
        self._has_read = False
        self._patience = 0.0  # further seconds to wait while another rank prints
        self._clocks_from = self._stopped_at = float("-inf")
        self._ended_at: float | None = None
        self._has_noted = False
        self._stock: Departure | None = None  # what this process had done at the last look

    @property
    def is_alarmed(self) -> bool:
        return self._alarm != self._cancelled

    def begin_end(self) -> None:
        """Notes that this process has ended, and waits for the others."""
        self._ended_at = time.monotonic()

    def look(self) -> None:
        """Raises the alarm if this process waits too long; after an alarm, takes the next step."""
        now = time.monotonic()
        if self._departed and self._ended_at is None:
            self._look_whether_it_moves(now)
        if self._ended_at is None and not self.is_alarmed and (self.limit is None or self._process.recorder is None):
            return
        if look_at_main_frame(stops_clocks):
            self._stopped_at = now
        if self.is_alarmed:
            self._continue(now - self._alarm_time)
        elif min(self._waited(now), now - self._clocks_from) > self._longest:
            self._answer(self._cancelled + 1, self._ended_at is not None)

    def receive(self, report: Report) -> None:
        """Takes in the states that another process has sent."""
        if report.alarm <= self._cancelled:
            return
        if report.alarm > self._alarm:
            self._answer(report.alarm, report.at_end)
        self._learn(report)
        if not report.states:
            self._patience += 2.0
            self._see_to_launcher()
            if self.limit is None:
                self._end_note()

    @property
    def _longest(self) -> float:
        return _NOTED_AFTER if self.limit is None else self.limit

    def _waited(self, now: float) -> float:
        """Seconds for which this process has waited: in an operation, or for the end of the others."""
        if self._ended_at is not None:
            return 0.0 if self._has_noted else now - self._ended_at
        recorder = self._process.recorder
        return 0.0 if recorder is None else recorder.waited(now)

    def _look_whether_it_moves(self, now: float) -> None:
        stock = Departure("")
        self._take_stock(stock)
        if self._stock is not None and stock != self._stock:
            HangWatch._moved_at = now
        self._stock = stock

    def _answer(self, alarm: int, at_end: bool) -> None:
        process, now = self._process, time.monotonic()
        self._alarm, self._alarm_time, self._at_end, self._states = alarm, now, at_end, {}
        self._has_read, self._patience = False, 0.0
        stopped = now - self._stopped_at < self._longest or look_at_main_frame(stops_clocks)
        moves = now - self._moved_at < self._longest
        if self._ended_at is not None:
            self._send({process.rank: ended_state(process.label(), stopped)})
        else:
            state = RankState.of(process.label(), process.recorder, main_thread_call_site(), stopped)
            self._send({process.rank: state}, moves)

    def _send(self, states: dict[int, RankState], moves: bool = False) -> None:
        report = Report(self._alarm, states, self._at_end, moves)
        self._post_all(report)
        self._learn(report)

    def _learn(self, report: Report) -> None:
        for rank, state in report.states.items():
            if state.answers or rank not in self._states:
                self._states[rank] = state
        stops = any(state.stops_clocks for state in report.states.values())
        if stops or (self._at_end and report.moves):
            self._cancelled = self._alarm
            if stops or self._ended_at is not None:
                self._clocks_from = time.monotonic()

    def _missing(self) -> list[int]:
        return [rank for rank in range(self._process.size) if rank not in self._states]

    def _some_are_silent(self) -> bool:
        """Whether a process that the system lets run does not answer."""
        return bool(self._missing()) or any(not (each.answers or each.is_stopped) for each in self._states.values())

    def _answering(self) -> list[int]:
        return sorted(rank for rank, state in self._states.items() if state.answers)

    def _is_first_of_node(self) -> bool:
        """Whether no lower rank of this node answers."""
        me = self._process.rank
        return not any(rank < me and rank in self._neighbours for rank in self._answering())

    def _see_to_launcher(self) -> None:
        """Makes sure that the launcher ends with the job, though a host may be gone."""
        if self.limit is not None and self._missing() and self._is_first_of_node():
            end_launcher_later()

    def _continue(self, elapsed: float) -> None:
        missing, answering, me = self._missing(), self._answering(), self._process.rank
        may_move = self._at_end and self._some_are_silent()
        complete = max(_COMPLETE, self._longest) if may_move else _COMPLETE
        if missing and elapsed > _SILENT and not self._has_read:
            self._has_read = True
            self._read_silent(missing)
        elif elapsed > complete + self._patience + _NEXT * answering.index(me) or (
            not missing and not may_move and answering[0] == me and not self._patience
        ):
            self._print(missing)

    def _read_silent(self, missing: Collection[int]) -> None:
        if not self._is_first_of_node():
            return
        silent = {rank: self._neighbours[rank] for rank in missing if rank in self._neighbours}
        read = {rank: read_state(rank, self._memory_of(rank), _is_stopped(pid)) for rank, pid in silent.items()}
        if read:
            self._send(read)

    def _print(self, missing: Collection[int]) -> None:
        self._see_to_launcher()
        self._post_all(Report(self._alarm, {}, self._at_end))
        states = self._states | {rank: unknown_state(rank, self._host_of(rank)) for rank in missing}
        if self.limit is None:
            self._note(picture(states, self._longest, has_limit=False))
            self._end_note()
        else:
            self._end(picture(states, self.limit))

    def _end_note(self) -> None:
        """Ends the alarm that one process has printed a note about; no further one is printed."""
        self._cancelled, self._has_noted = self._alarm, True


def _is_stopped(pid: int) -> bool:
    """Whether a process of this node is stopped, by SIGSTOP or a debugger."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "tT"
    return False
