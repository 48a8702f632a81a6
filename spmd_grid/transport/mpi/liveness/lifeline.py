"""Clean ends under MPI: a process that fails or leaves early ends the job instead of leaving the others waiting.

An uncaught exception aborts the job from ``sys.excepthook``.  A process that ends tells the others how often it took
part in what (`Departure`); a watching thread on each of them compares that with what its own main thread waits for.
The comparison is exact, so no time limit is involved: a process may compute for hours before it joins the others.

Where an operation was cut off and the program goes on, the others are told (`CutOff`), and all of them answer before it
does: from then on nobody reads or writes its memory.

Ctrl-C and SIGTERM end the job with one line, from wherever it waits (`Signals`).  Where the launcher lets the others
live when a process has been killed, those that wait name it; processes of one node know of one another's deaths.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spmd_grid.errors import PlanError, SpmdError
from spmd_grid.transport.communicator import Process
from spmd_grid.transport.mpi.liveness.exit_report import LastWords
from spmd_grid.transport.mpi.liveness.hang_watch import HangWatch, Report
from spmd_grid.transport.mpi.liveness.signals import Bell, Signals
from spmd_grid.watch.call_site import PACKAGE, call_site, is_ours, main_frame, main_thread_call_site

__all__ = ["Departure", "Lifeline"]

_WATCH_SECONDS, _ALARMED_SECONDS = 0.1, 0.02
# How long the main thread has for its half of a signal's handler before the watching one speaks for it, and a launcher
# to end a job of which a process has died.
_SIGNAL_SECONDS, _DEATH_SECONDS = 0.7, 1.0
# How long a process that was cut off waits for the answers of all others, and how often one that waits looks for news.
_ANSWER_SECONDS, _NEWS_SECONDS = 2.0, 0.002


@dataclass
class Departure:
    """What a process that ended had taken part in.

    By group: meetings entered, frames sent to and had from each member; by wire: exchanges begun.
    """

    label: str
    entered: dict[tuple[int, ...], int] = field(default_factory=dict)
    sent: dict[tuple[int, ...], list[int]] = field(default_factory=dict)
    received: dict[tuple[int, ...], list[int]] = field(default_factory=dict)
    exchanged: dict[tuple, int] = field(default_factory=dict)


@dataclass
class CutOff:
    """Tells that no operation goes through any gate of this program any more, and why."""

    text: str


@dataclass
class Heard:
    """The answer to `CutOff`: no operation is under way here."""


class Lifeline:
    """Watches the ends of the other processes of a job, and reports our own.

    ``control`` has ``post``, ``post_all``, ``poll``, ``all_sent`` and ``abort``.  The main thread keeps in
    ``waiting`` what it waits for: an object whose ``hopeless(departed)`` names the process that will never come, or
    None.  ``watch``: whether MPI lets a second thread look; without it a process that leaves early is noticed by
    nobody, nor one that waits longer than ``hang.limit``.  ``memory_of(rank)``: see `HangWatch`.  ``neighbours``: the
    process numbers of those of this node in the system; ``word``: an int64 of their memory, None where they share none.
    """

    def __init__(
        self,
        process: Process,
        control,
        take_stock: Callable[[Departure], None],
        watch: bool,
        memory_of,
        neighbours: Mapping[int, int],
        word,
    ):
        self.waiting = None
        self.departed: dict[int, Departure] = {}
        self._process = process
        self._control = control
        self._take_stock = take_stock
        self._watches = watch
        self._words = LastWords(process.rank, word, process.rank == 0 or 0 in neighbours, self._abort)
        self.hang = HangWatch(process, control.post_all, self._words.insist, self.departed, memory_of)
        self._stops = False
        self._collecting = threading.RLock()
        self._next_news = 0.0
        self._asked: list[int] = []  # those that wait for an answer to `CutOff`
        self._heard: set[int] = set()
        self._author = process.size  # of the text at the gate: the least of the processes that were cut off
        self._bell = Bell()
        for other, number in neighbours.items():
            self._bell.attend(other, number)
        self._death_known: float | None = None
        self._looks_in_ours = 0
        self._signals: Signals | None = None
        self._owner = os.getpid()
        self._previous_hook = sys.excepthook
        sys.excepthook = self._on_exception
        self._thread = threading.Thread(target=self._watch, name="spmd_grid lifeline", daemon=True)
        self._thread.start()

    def take_signals(self) -> None:
        """Speaks for Ctrl-C and SIGTERM from now on, unless another lifeline or the program does.  Local."""
        if self._signals is None:
            self._signals = Signals.install(self._bell, self._on_term)

    def close(self) -> None:
        """Tells the others that this process ends, and waits for their ends; the last act before MPI is left."""
        try:
            self._leave()
        except KeyboardInterrupt:
            _take_no_more_signals()
            self._say_interrupted("the end of the program")
        if self._signals is not None:
            self._signals.remove()
        self._bell.close()
        sys.excepthook = self._previous_hook

    def _leave(self) -> None:
        self._stops = True
        self._bell.ring()
        self._thread.join()
        self.hang.limit = None
        departure = Departure(self._process.label())
        self._take_stock(departure)
        self._control.post_all(pickle.dumps(departure))
        sys.stdout.flush()
        nap = 1e-5
        while len(self.departed) < self._process.size - 1 or not self._control.all_sent():
            self._collect()
            self._answer()
            if not self._process.gate.text:
                # Operations that were started and not waited for: others may wait for their part.
                self._process.progress()
            self._bell.wait(0)
            self._look_for_the_dead(is_waiting=True)
            time.sleep(nap)
            nap = min(2 * nap, 0.02)

    def _collect(self) -> None:
        collecting = self._collecting  # this one: `cut_off` in another thread may put a new one there meanwhile
        if not collecting.acquire(blocking=False):
            return  # another thread does
        try:
            for source, message in self._control.poll():
                self._hear(source, pickle.loads(message))
        finally:
            collecting.release()

    def _hear(self, source: int, said: Report | CutOff | Heard | Departure) -> None:
        if isinstance(said, Report):
            self.hang.hear(said)
        elif isinstance(said, CutOff):
            self._bar(said.text, source)
            self._asked.append(source)
        elif isinstance(said, Heard):
            self._heard.add(source)
        else:
            self.departed[source] = said

    # -- operations that are cut off ---------------------------------------------------------------------------

    def listen(self) -> None:
        """Looks for news; of the main thread, while it waits.  The caller looks at the gate then."""
        now = time.monotonic()
        if now > self._next_news:
            self._next_news = now + _NEWS_SECONDS
            self._collect()

    def cut_off(self, text: str) -> None:
        """Bars the gates of all processes.  Returns when they have answered, or after two seconds."""
        self._bar(text, self._process.rank)
        while self._collecting._is_owned():  # the operation that was cut off may have left it locked
            self._collecting.release()
        self._control.post_all(pickle.dumps(CutOff(text)))
        deadline = time.monotonic() + _ANSWER_SECONDS
        while len(self._heard | self.departed.keys()) < self._process.size - 1 and time.monotonic() < deadline:
            self._collect()
            self._answer(is_quiet=True)  # what is under way here is the operation that was cut off
            time.sleep(1e-4)

    def _bar(self, text: str, source: int) -> None:
        """Shuts the gate.  Of several processes that were cut off at once the first says why: each of them has heard
        of the others when it has their answers.
        """
        gate = self._process.gate
        if source < self._author:
            self._author = source
            if gate.text:
                gate.text = text
        gate.bar(text)

    def _answer(self, is_quiet: bool = False) -> None:
        while self._asked and (is_quiet or self._process.gate.is_quiet):
            self._control.post(pickle.dumps(Heard()), self._asked.pop())

    def _watch(self) -> None:
        suspect = None
        while True:
            rung = self._bell.wait(_ALARMED_SECONDS if self.hang.is_alarmed or self._asked else _WATCH_SECONDS)
            if self._stops:
                return
            self._look_after_ends(rung)
            if not self._watches:
                continue
            self._collect()
            self._answer()
            if self._process.gate.text:
                continue  # nobody waits
            self.hang.look()
            waiting = self.waiting
            gone = None if waiting is None or not self.departed else waiting.hopeless(self.departed)
            # Only a wait that was in vain at the last look too: MPI may yet buffer what nobody will take.
            if gone is not None and waiting is suspect and self.waiting is waiting:
                self._end_job(self.departed[gone].label)
            suspect = None if gone is None else waiting

    def _end_job(self, who: str) -> None:
        self._words.say(
            f"{who} of {self._process.size} ended (it returned from the program or called sys.exit) while"
            f" {self._process.label()} waits for it in {self._where()}; the job is ended"
        )

    def _where(self) -> str:
        activity = self._process.activity
        return f"{'a collective' if activity is None else activity.describe()} at {main_thread_call_site()}"

    # -- ends that come from outside -------------------------------------------------------------------------

    def _look_after_ends(self, rung: bytes) -> None:
        """Whether the main thread is stuck, in a wait of ours, with a signal to come to or with a dead partner."""
        frame, now = main_frame(), time.monotonic()
        is_stuck = frame is not None and is_ours(frame)
        self._looks_in_ours = self._looks_in_ours + 1 if is_stuck else 0
        self._look_for_the_dead(is_waiting=self._looks_in_ours > 2)
        signals = self._signals
        if signals is None:
            return
        signals.note(rung)
        interrupts = signals.unseen()
        # Elsewhere it may compute in C, and have something to save when it comes back; unless asked a second time.
        if interrupts and (
            (is_stuck and now - interrupts[0] > _SIGNAL_SECONDS) or interrupts[-1] - interrupts[0] > _SIGNAL_SECONDS
        ):
            self._say_interrupted(call_site(frame))
        if signals.term_came is not None and now - signals.term_came > _SIGNAL_SECONDS:
            self._on_term(frame)

    def _look_for_the_dead(self, is_waiting: bool) -> None:
        if not self._bell.dead:
            return
        now = time.monotonic()
        if self._death_known is None:
            self._death_known = now
        if is_waiting and now - self._death_known > _DEATH_SECONDS:
            who = ", ".join(f"rank {rank}" for rank in sorted(self._bell.dead))
            self._words.say(
                f"{who} of {self._process.size} died (killed from outside, or crashed) while {self._process.label()}"
                f" waits in {self._where()}; the job is ended"
            )

    def _say_interrupted(self, where: str) -> None:
        self._words.say(f"interrupted (Ctrl-C) at {where} on {self._process.label()}", 128 + signal.SIGINT)

    def _on_term(self, frame) -> None:
        _take_no_more_signals()
        self._words.say(
            f"{self._process.label()} of {self._process.size} was told to end (SIGTERM) at {call_site(frame)}; the job"
            " is ended",
            128 + signal.SIGTERM,
        )

    def _on_exception(self, kind, error, trace) -> None:
        if os.getpid() != self._owner:  # a forked child
            self._previous_hook(kind, error, trace)
            return
        _take_no_more_signals()
        if issubclass(kind, KeyboardInterrupt):
            self._say_interrupted(_raised_at(trace))
        failed = f"{self._process.label()} of {self._process.size} failed"
        if isinstance(error, SpmdError) and error.is_shared:
            self._words.say(f"{failed}, and all others of its group alike\n{_users_part(kind, error, trace)}")
        self._words.insist(f"{failed}\n{_users_part(kind, error, trace)}")

    def _abort(self, code: int) -> None:
        if self._watches or threading.current_thread() is threading.main_thread():
            self._control.abort(code)
        os._exit(code)  # MPI bears no second thread


def _users_part(kind, error, trace) -> str:
    """A traceback; where it ends in an error of the user's, without the lines of this package, which add nothing."""
    shown = traceback.TracebackException(kind, error, trace)
    if isinstance(error, SpmdError) and not isinstance(error, PlanError):
        of_user = [frame for frame in shown.stack if not frame.filename.startswith(PACKAGE)]
        shown.stack = traceback.StackSummary.from_list(of_user or shown.stack)
    return "".join(shown.format())


def _take_no_more_signals() -> None:
    """The job is being ended: a second Ctrl-C has nothing to add."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _raised_at(trace) -> str:
    """The innermost line of a traceback outside this package."""
    where = call_site(None if trace is None else trace.tb_frame)
    while trace is not None:
        if not is_ours(trace.tb_frame):
            where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return where
