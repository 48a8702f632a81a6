"""Clean ends under MPI: a process that fails or leaves early ends the job instead of leaving the others waiting.

An uncaught exception aborts the job from ``sys.excepthook``.  A process that ends sends the others its counts of
operations (`Departure`); a watching thread on each of them compares these with what its own main thread waits for.  The
comparison is exact, so no time limit is involved: a process may compute for hours before it joins the others.

When an operation was cut off and the program goes on, the others receive a `CutOff`, and all of them answer before it
continues: from then on no process reads or writes its memory.

Ctrl-C and SIGTERM end the job with one line, wherever the processes wait (`Signals`).  If a process has been killed and
the launcher keeps the others alive, those that wait for it report its death, which the processes of its node notice.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import numpy as np

from spmd_grid.errors import CutOffError, SpmdError, TransportError
from spmd_grid.transport.communicator import Process
from spmd_grid.transport.mpi.liveness.departure import Departed, Departure, WaitedFor
from spmd_grid.transport.mpi.liveness.exit_report import ExitReport, call_site_in, user_traceback
from spmd_grid.transport.mpi.liveness.hang_watch import HangWatch, Report
from spmd_grid.transport.mpi.liveness.host_watch import HostAnswer, HostCall, HostWatch
from spmd_grid.transport.mpi.liveness.messages import CutOff, CutOffAnswer, Message, bytes_of, message_of
from spmd_grid.transport.mpi.liveness.side_channel import SideChannel
from spmd_grid.transport.mpi.liveness.signals import Signals
from spmd_grid.transport.mpi.liveness.standstill import Link, Standstill, error_of
from spmd_grid.transport.mpi.liveness.waker import Waker
from spmd_grid.watch.call_site import call_site, is_ours, main_thread_call_site
from spmd_grid.watch.frames import look_at_main_frame

__all__ = ["Lifeline"]

# Seconds between two looks of the watching thread, without and with an alarm.
_WATCH_SECONDS, _ALARMED_SECONDS = 0.1, 0.02
# The time that the main thread has for its half of a signal's handler, and a launcher to end a job after a death.
_SIGNAL_SECONDS, _DEATH_SECONDS = 0.7, 1.0
# How long a process that was cut off waits for the answers of all others, and how often a waiting one reads messages.
_ANSWER_SECONDS, _NEWS_SECONDS = 2.0, 0.002


class Lifeline:
    """Watches the ends of the other processes of a job, and reports our own.

    The main thread keeps in ``waiting`` what it waits for.  ``take_stock`` fills in the counts of a `Departure`.
    ``watch``: whether MPI lets a second thread call it; without that, processes that leave early or wait longer than
    ``hang.limit`` go unnoticed, except at the end.  ``memory_of(rank)``: see `HangWatch`.  ``neighbours``: the system's
    process numbers of the others of this node, by rank; ``word``: an int64 of their shared memory, None if they share
    none.  ``hosts``: the ranks of each host, by its name.
    """

    def __init__(
        self,
        process: Process,
        control: SideChannel,
        take_stock: Callable[[Departure], None],
        watch: bool,
        memory_of: Callable[[int], np.ndarray | None],
        neighbours: Mapping[int, int],
        word: np.ndarray | None,
        hosts: Mapping[str, Sequence[int]],
    ):
        self.waiting: WaitedFor | None = None
        self.departed: Departed = {}
        self._process = process
        self._control = control
        self._take_stock = take_stock
        self._watches = watch
        self._report = ExitReport(process.rank, word, process.rank == 0 or 0 in neighbours, self._abort)
        names = {rank: name for name, ranks in hosts.items() for rank in ranks} if len(hosts) > 1 else {}
        self.hang = HangWatch(
            process,
            self._post_all,
            self._report.insist,
            self._report.note,
            self.departed,
            take_stock,
            memory_of,
            neighbours,
            lambda rank: names.get(rank, ""),
        )
        self._hosts = HostWatch(process.rank, process.label, hosts, self._post, self._report.note)
        self._standstill = Standstill(
            process.rank, self._post, take_stock, lambda: self.waiting, self._what_waits, self._on_standstill
        )
        self._stops = False
        self._collecting = threading.RLock()
        self._next_news = 0.0
        self._unanswered: list[int] = []  # processes that wait for the answer to a `CutOff`
        self._answered: set[int] = set()
        self._author = process.size  # of the gate's text: the lowest process that was cut off
        self._waker = Waker()
        for other, number in neighbours.items():
            self._waker.watch(other, number)
        self._death_known: float | None = None
        self._looks_in_ours = 0  # number of successive looks that found the main thread in this package
        self._signals: Signals | None = None
        self._owner = os.getpid()
        self._previous_hook = sys.excepthook
        sys.excepthook = self._on_exception
        self._thread = threading.Thread(target=self._watch, name="spmd_grid lifeline", daemon=True)
        self._thread.start()

    def take_signals(self) -> None:
        """Handles Ctrl-C and SIGTERM from now on, unless another lifeline or the program does.  Local."""
        if self._signals is None:
            self._signals = Signals.install(self._waker, lambda frame: self._on_term(call_site(frame)))

    def close(self, compare: Callable[[Departure, Departed], str]) -> None:
        """Announces the end of this process, waits for those of all, and reports what ``compare`` finds wrong."""
        try:
            self._leave(compare)
        except KeyboardInterrupt:
            _ignore_signals()
            self._report_interrupt("the end of the program")
        if self._signals is not None:
            self._signals.remove()
        self._waker.close()
        sys.excepthook = self._previous_hook

    def _leave(self, compare: Callable[[Departure, Departed], str]) -> None:
        self._stops = True
        self._waker.wake()
        self._thread.join()
        self.hang.begin_end()
        departure = Departure(self._process.label())
        self._take_stock(departure)
        self._post_all(departure)
        sys.stdout.flush()
        nap = 1e-5
        while len(self.departed) < self._process.size - 1 or not self._control.all_sent():
            self._collect()
            self._answer()
            if not self._process.gate.text:
                # Others may wait for this process's part in operations that it has started.
                self._process.progress()
            self._waker.wait(0)
            self._look_for_the_dead(is_waiting=True)
            self._hosts.look(True, lambda: "the end of the program")
            self.hang.look()
            time.sleep(nap)
            nap = min(2 * nap, 0.02)
        if problem := compare(departure, self.departed):
            self._report.say(problem)
        self._hosts.take_last_answers(self._collect)

    def _collect(self) -> None:
        if not self._collecting.acquire(blocking=False):
            return  # another thread does
        try:
            for source, message in self._control.poll():
                self._receive(source, message_of(message, source, self._process.size))
        except TransportError as error:
            self._report.insist(f"{error}; {self._process.label()} ends the job")
        finally:
            self._collecting.release()

    def _post(self, message: Message, other: int) -> None:
        self._control.post(bytes_of(message), other)

    def _post_all(self, message: Message) -> None:
        self._control.post_all(bytes_of(message))

    def _receive(self, source: int, message: Message) -> None:
        if isinstance(message, Report):
            self.hang.receive(message)
        elif isinstance(message, CutOff):
            self._bar(message.text, source, message.kind)
            self._unanswered.append(source)
        elif isinstance(message, CutOffAnswer):
            self._answered.add(source)
        elif isinstance(message, HostCall):
            self._post(HostAnswer(), source)
        elif isinstance(message, HostAnswer):
            self._hosts.answered()
        elif isinstance(message, Departure):
            self.departed[source] = message
        else:
            self._standstill.receive(source, message)

    # -- operations that are cut off ---------------------------------------------------------------------------

    def listen(self) -> None:
        """Reads messages of the side channel now and then; for the main thread, while it waits."""
        now = time.monotonic()
        if now > self._next_news:
            self._next_news = now + _NEWS_SECONDS
            self._collect()

    def cut_off(self, text: str) -> None:
        """Bars the gates of all processes.  Returns when all have answered, or after two seconds."""
        self._bar(text, self._process.rank)
        while self._collecting._is_owned():  # type: ignore[attr-defined]  # the operation that was cut off may have left it locked
            self._collecting.release()
        self._post_all(CutOff(text))
        deadline = time.monotonic() + _ANSWER_SECONDS
        while len(self._answered | self.departed.keys()) < self._process.size - 1 and time.monotonic() < deadline:
            self._collect()
            self._answer(is_quiet=True)  # the only operation under way is the one that was cut off
            time.sleep(1e-4)

    def _bar(self, text: str, source: int, kind: type[SpmdError] = CutOffError) -> None:
        """Bars the gate.  If several processes are cut off at once, the text of the lowest counts: each of them knows
        of the others once it has their answers.
        """
        gate = self._process.gate
        if source < self._author:
            self._author = source
            if gate.text:
                gate.text, gate.kind = text, kind
        gate.bar(text, kind)

    def _answer(self, is_quiet: bool = False) -> None:
        while self._unanswered and (is_quiet or self._process.gate.is_quiet):
            self._post(CutOffAnswer(), self._unanswered.pop())

    def _watch(self) -> None:
        suspect = None
        while True:
            is_busy = self.hang.is_alarmed or self._unanswered or self._standstill.has_news
            signals = self._waker.wait(_ALARMED_SECONDS if is_busy else _WATCH_SECONDS)
            if self._stops:
                return
            self._look_for_ends(signals)
            if not self._watches:
                continue
            self._collect()
            self._answer()
            if self._process.gate.text:
                continue  # every wait ends by itself
            self._standstill.look()
            self.hang.look()
            if not self.hang.is_alarmed:
                self._hosts.look(self._looks_in_ours > 2 or self.waiting is not None, self._where)
            waiting = self.waiting
            gone = None if waiting is None or not self.departed else waiting.ended_partner(self.departed)
            # Only if the last look found the same: MPI may still complete a send that will not be received.
            if gone is not None and waiting is suspect and self.waiting is waiting:
                self._end_job(self.departed[gone].label)
            suspect = None if gone is None else waiting

    def _end_job(self, who: str) -> None:
        self._report.say(
            f"{who} of {self._process.size} ended (it returned from the program or called sys.exit) while"
            f" {self._process.label()} waits for it in {self._where()}; the job is ended"
        )

    def _where(self) -> str:
        activity = self._process.activity
        return f"{'a collective' if activity is None else activity.describe()} at {main_thread_call_site()}"

    # -- waits of processes for one another --------------------------------------------------------------------

    def _what_waits(self) -> str:
        return f"{self._process.label()}: {self._where()}"

    def _on_standstill(self, links: Sequence[Link]) -> None:
        """Ends all operations, of which some wait for one another; every process raises the same error."""
        error = error_of(links)
        self._post_all(CutOff(str(error), type(error)))
        self._bar(str(error), self._process.rank, type(error))

    # -- ends that come from outside -------------------------------------------------------------------------

    def _look_for_ends(self, received: bytes) -> None:
        """Ends the job if the main thread waits in this package, and cannot handle a signal or has a dead partner."""
        now = time.monotonic()
        is_stuck = look_at_main_frame(lambda frame: frame is not None and is_ours(frame))
        self._looks_in_ours = self._looks_in_ours + 1 if is_stuck else 0
        self._look_for_the_dead(is_waiting=self._looks_in_ours > 2)
        signals = self._signals
        if signals is None:
            return
        signals.note(received)
        interrupts = signals.unhandled()
        # Outside this package it may compute in C, and have something to save afterwards, unless interrupted twice.
        if interrupts and (
            (is_stuck and now - interrupts[0] > _SIGNAL_SECONDS) or interrupts[-1] - interrupts[0] > _SIGNAL_SECONDS
        ):
            self._report_interrupt(main_thread_call_site())
        if signals.term_time is not None and now - signals.term_time > _SIGNAL_SECONDS:
            self._on_term(main_thread_call_site())

    def _look_for_the_dead(self, is_waiting: bool) -> None:
        if not self._waker.dead:
            return
        now = time.monotonic()
        if self._death_known is None:
            self._death_known = now
        if is_waiting and now - self._death_known > _DEATH_SECONDS:
            who = ", ".join(f"rank {rank}" for rank in sorted(self._waker.dead))
            self._report.say(
                f"{who} of {self._process.size} died (killed from outside, or crashed) while {self._process.label()}"
                f" waits in {self._where()}; the job is ended"
            )

    def _report_interrupt(self, where: str) -> None:
        self._report.say(f"interrupted (Ctrl-C) at {where} on {self._process.label()}", 128 + signal.SIGINT)

    def _on_term(self, where: str) -> None:
        _ignore_signals()
        self._report.say(
            f"{self._process.label()} of {self._process.size} was told to end (SIGTERM) at {where}; the job is ended",
            128 + signal.SIGTERM,
        )

    def _on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() != self._owner:  # a forked child
            self._previous_hook(kind, error, trace)
            return
        _ignore_signals()
        if issubclass(kind, KeyboardInterrupt):
            self._report_interrupt(call_site_in(trace))
        failed = f"{self._process.label()} of {self._process.size} failed"
        if isinstance(error, SpmdError) and error.is_shared:
            text = f"{failed}, and all others of its group alike\n{user_traceback(error)}"
            self._report.say(text, after_another=self._author not in (self._process.rank, self._process.size))
        self._report.insist(f"{failed}\n{user_traceback(error)}")

    def _abort(self, code: int) -> None:
        if self._watches or threading.current_thread() is threading.main_thread():
            self._control.abort(code)
        os._exit(code)  # MPI allows no second thread


def _ignore_signals() -> None:
    """Ignores further signals, since the job is being ended."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
