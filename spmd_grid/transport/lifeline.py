"""Clean ends under MPI: a process that fails or leaves early ends the job instead of leaving the others waiting.

An uncaught exception aborts the job from ``sys.excepthook``.  A process that ends tells the others how often it took
part in what (`Departure`); a watching thread on each of them compares that with what its own main thread waits for.
The comparison is exact, so no time limit is involved: a process may compute for hours before it joins the others.
"""

from __future__ import annotations

import pickle
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from spmd_grid.transport.communicator import Process
from spmd_grid.watch.call_site import main_thread_call_site

__all__ = ["Departure", "Lifeline"]

_WATCH_SECONDS = 0.1


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


class Lifeline:
    """Watches the ends of the other processes of a job, and reports our own.

    ``control`` has ``post_all``, ``poll``, ``all_sent`` and ``abort``.  The main thread keeps in ``waiting`` what it
    waits for: an object whose ``hopeless(departed)`` names the process that will never come, or None.  ``watch``:
    whether MPI lets a second thread look; without it a process that leaves early is noticed by nobody.
    """

    def __init__(self, process: Process, control, take_stock: Callable[[Departure], None], watch: bool):
        self.waiting = None
        self.departed: dict[int, Departure] = {}
        self._process = process
        self._control = control
        self._take_stock = take_stock
        self._stop = threading.Event()
        self._previous_hook = sys.excepthook
        sys.excepthook = self._on_exception
        self._thread = threading.Thread(target=self._watch, name="spmd_grid lifeline", daemon=True)
        if watch:
            self._thread.start()

    def close(self) -> None:
        """Tells the others that this process ends, and waits for their ends; the last act before MPI is left."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        departure = Departure(self._process.label())
        self._take_stock(departure)
        self._control.post_all(pickle.dumps(departure))
        sys.stdout.flush()
        nap = 1e-5
        while len(self.departed) < self._process.size - 1 or not self._control.all_sent():
            self._collect()
            self._process.progress()  # operations that were started and not waited for: others may wait for their part
            time.sleep(nap)
            nap = min(2 * nap, 0.02)
        sys.excepthook = self._previous_hook

    def _collect(self) -> None:
        for source, message in self._control.poll():
            self.departed[source] = pickle.loads(message)

    def _watch(self) -> None:
        suspect = None
        while not self._stop.wait(_WATCH_SECONDS):
            self._collect()
            waiting = self.waiting
            gone = None if waiting is None or not self.departed else waiting.hopeless(self.departed)
            # Only a wait that was in vain at the last look too: MPI may yet buffer what nobody will take.
            if gone is not None and waiting is suspect and self.waiting is waiting:
                self._end_job(self.departed[gone].label)
            suspect = None if gone is None else waiting

    def _end_job(self, who: str) -> None:
        activity = self._process.activity
        where = "a collective" if activity is None else activity.describe()
        sys.stdout.flush()
        print(
            f"spmd_grid: {who} of {self._process.size} ended (it returned from the program or called sys.exit) while"
            f" {self._process.label()} waits for it in {where} at {main_thread_call_site()}; the job is ended",
            file=sys.stderr,
            flush=True,
        )
        self._control.abort()

    def _on_exception(self, kind, error, trace) -> None:
        sys.stdout.flush()
        text = "".join(traceback.format_exception(kind, error, trace))
        print(f"spmd_grid: {self._process.label()} of {self._process.size} failed\n{text}", file=sys.stderr, flush=True)
        self._control.abort()
