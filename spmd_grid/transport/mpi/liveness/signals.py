"""Ctrl-C and SIGTERM, noticed even while the main thread waits in C.

Python calls a signal's handler in the main thread, between two bytecodes; a thread that waits in MPI does not get
there.  But when a signal arrives, Python's handler in C writes its number into a pipe, which another thread can read.
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, TypeAlias

from spmd_grid.transport.mpi.liveness.waker import Waker
from spmd_grid.watch.call_site import is_ours

__all__ = ["Signals", "postponed_signals", "raise_postponed_interrupt"]

Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None

# The two halves of a handler run within this time of each other, unless the main thread is stuck.
_SAME_SIGNAL_SECONDS = 0.3

_installed: Signals | None = None
_is_interrupt_postponed = False


class Signals:
    """The handlers of one process, while they are installed; a program's own handlers are left alone.

    ``SIGINT`` raises `KeyboardInterrupt` as with Python's handler.  ``on_term(frame)`` is called for ``SIGTERM``;
    ``term_time``: the time at which it arrived.
    """

    def __init__(self, waker: Waker, on_term: Callable[[FrameType | None], None]):
        self._waker, self._on_term = waker, on_term
        self._previous: dict[int, Handler] = {}
        self._called_again = 0  # number of interrupts that this class has sent itself, and not read yet
        self._arrivals: list[float] = []  # times of interrupts, as the watching thread read them
        self._handled = float("-inf")  # time at which the main thread last handled one
        self.term_time: float | None = None

    @classmethod
    def install(cls, waker: Waker, on_term: Callable[[FrameType | None], None]) -> Signals | None:
        """Installs the handlers; None outside the main thread, and if they are installed already."""
        global _installed
        if _installed is not None or threading.current_thread() is not threading.main_thread():
            return None
        self = _installed = cls(waker, on_term)
        handlers: tuple[tuple[signal.Signals, Handler, Handler], ...] = (
            (signal.SIGINT, signal.default_int_handler, self._interrupt),
            (signal.SIGTERM, signal.SIG_DFL, self._terminate),
        )
        for number, default, handler in handlers:
            if signal.getsignal(number) == default:
                self._previous[number] = signal.signal(number, handler)
        if self._previous:
            other = signal.set_wakeup_fd(waker.write, warn_on_full_buffer=False)
            if other != -1:  # the program uses it, asyncio perhaps
                signal.set_wakeup_fd(other)
        return self

    def remove(self) -> None:
        """Restores the previous handlers; in a forked child too."""
        global _installed
        _installed = None
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in self._previous.items():
            if self._handles(number):
                signal.signal(number, handler)
        current = signal.set_wakeup_fd(-1)
        if current != self._waker.write:
            signal.set_wakeup_fd(current)

    def _handles(self, number: int) -> bool:
        """Whether the program has not set a handler of its own meanwhile."""
        return getattr(signal.getsignal(number), "__self__", None) is self

    def note(self, received: bytes) -> None:
        """Notes the signals that the watching thread has read from the pipe."""
        now = time.monotonic()
        count = received.count(signal.SIGINT) if self._handles(signal.SIGINT) else 0
        own = min(count, self._called_again)
        self._called_again -= own
        if count > own:
            self._arrivals.append(now)
        if self._handles(signal.SIGTERM) and signal.SIGTERM in received and self.term_time is None:
            self.term_time = now

    def unhandled(self) -> list[float]:
        """Times of the interrupts that the main thread has not handled yet; for the watching thread.

        The main thread may handle one before the watching thread reads it.
        """
        self._arrivals = [time for time in self._arrivals if self._handled < time - _SAME_SIGNAL_SECONDS]
        if self._arrivals and _is_interrupt_postponed:
            self._called_again += 1
            _thread.interrupt_main()
        return self._arrivals

    def note_handled(self) -> None:
        """Notes that the main thread handles an interrupt now."""
        self._handled = time.monotonic()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        global _is_interrupt_postponed
        # At the entry of a callback from compiled code nothing could catch it: the callback's first line raises it.
        _is_interrupt_postponed = frame is not None and frame.f_code.co_name == "guarded" and is_ours(frame)
        if not _is_interrupt_postponed:
            self.note_handled()
            raise KeyboardInterrupt

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self._on_term(frame)


@contextmanager
def postponed_signals() -> Iterator[None]:
    """Postpones the handlers of signals that are set in Python, which may raise, to the end of the block.

    Does nothing outside the main thread, where no handler runs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    with ExitStack() as afterwards:
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):
                afterwards.callback(signal.signal, number, handler)
                signal.signal(number, lambda number, _: arrived.append(number))
        yield
    for arrival in arrived:
        signal.raise_signal(arrival)


def raise_postponed_interrupt() -> None:
    """Raises the interrupt that arrived at the entry of a callback from compiled code; for the main thread."""
    global _is_interrupt_postponed
    if _is_interrupt_postponed:
        _is_interrupt_postponed = False
        if _installed is not None:
            _installed.note_handled()
        raise KeyboardInterrupt


def _forget() -> None:
    if _installed is not None:
        _installed.remove()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
