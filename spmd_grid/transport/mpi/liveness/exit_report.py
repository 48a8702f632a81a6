"""The report of why a job ends: printed once, by one process of a node.

Ctrl-C reaches all processes at the same moment, and several may notice that one of them has died; one report is
enough.  They choose the process that reports through the node's memory, without an atomic operation: a process that
finds a word empty writes its number there, pauses, and reports if the number is still its own (M. Fischer's algorithm,
in L. Lamport, "A fast mutual exclusion algorithm", 1987).  The pause costs nothing: the job is at its end.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

import numpy as np

from spmd_grid.errors import PlanError, SpmdError
from spmd_grid.watch.call_site import PACKAGE, call_site, is_ours

__all__ = ["ExitReport", "call_site_in", "user_traceback", "write_at_once"]

# Far longer than a read and a write of the word take; until processes of other nodes report; until others than the one
# that was cut off do; and until processes that do not report end the job themselves, should the one that does fail to.
_TURN, _OTHER_NODES, _FIRST_CUT_OFF, _PATIENCE = 0.02, 0.5, 1.0, 2.0
_FLUSHING = 0.5  # longest time to write out what was printed


class ExitReport:
    """The report of one process.

    ``word``: an int64 of the node's memory, None if processes share none and each counts as a node of its own.
    ``is_first``: whether process 0 is of this node.  ``abort(code)`` ends the job.
    """

    def __init__(self, rank: int, word: np.ndarray | None, is_first: bool, abort: Callable[[int], None]):
        self._mark = rank + 1
        self._word, self._is_first, self._abort = word, is_first, abort

    def say(self, text: str, code: int = 1, after_another: bool = False) -> None:
        """Prints ``text``, unless another process reports, and ends the job.

        ``after_another``: another process was cut off, and knows better why; unless its program goes on, it reports.
        """
        _flush_output()  # on every process: what it has printed would be lost with it
        if after_another or not self._is_first:
            time.sleep(_FIRST_CUT_OFF * after_another + _OTHER_NODES * (not self._is_first))
        if self._has_turn():
            self._print(text)
        else:
            time.sleep(_PATIENCE)
        self._abort(code)

    def insist(self, text: str) -> None:
        """Prints ``text``, even if another process reports, and ends the job."""
        self.claim()
        self._print(text)
        self._abort(1)

    def note(self, text: str) -> None:
        """Prints ``text``; the job goes on.  From the watching thread."""
        write_at_once(f"spmd_grid: {text}\n")

    def claim(self) -> None:
        """Keeps the others of the node from reporting."""
        if self._word is not None:
            self._word[0] = self._mark

    def _has_turn(self) -> bool:
        if self._word is None:
            return True
        if self._word[0] == 0:
            self._word[0] = self._mark
            time.sleep(_TURN)
        return bool(self._word[0] == self._mark)

    def _print(self, text: str) -> None:
        _flush_output()
        write_at_once(f"spmd_grid: {text}\n")


def _flush_output() -> None:
    """Writes out what this process has printed, in a thread of its own, since another one may be stuck in doing so."""

    def flush() -> None:
        with suppress(Exception):  # closed, absent, or without a reader
            sys.stdout.flush()

    flushing = threading.Thread(target=flush, daemon=True)
    try:
        flushing.start()
    except RuntimeError:  # at the end of the program no threads can be started, and no other thread is in the way
        flush()
    else:
        flushing.join(_FLUSHING)


def write_at_once(text: str) -> None:
    """Writes to standard error in one piece, so that no other process's output comes in between."""
    stream = sys.stderr
    try:
        stream.flush()
        descriptor = stream.fileno()
    except (AttributeError, OSError, ValueError):  # closed, absent, or not a file
        if stream is not None and not getattr(stream, "closed", False):
            stream.write(text)
            stream.flush()
        return
    left = memoryview(text.encode(errors="backslashreplace"))
    while left:
        left = left[os.write(descriptor, left) :]


def user_traceback(error: BaseException) -> str:
    """The traceback of ``error``; of an error in the user's own code, without the lines of this package."""
    shown = traceback.TracebackException.from_exception(error)
    if isinstance(error, SpmdError) and not isinstance(error, PlanError):
        of_user = [frame for frame in shown.stack if not frame.filename.startswith(PACKAGE)]
        shown.stack = traceback.StackSummary.from_list(of_user or list(shown.stack))
    return "".join(shown.format())


def call_site_in(trace: TracebackType | None) -> str:
    """The innermost line of a traceback outside this package."""
    where = call_site(None if trace is None else trace.tb_frame)
    while trace is not None:
        if not is_ours(trace.tb_frame):
            where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return where
