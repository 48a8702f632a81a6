"""Ctrl-C and SIGTERM, noticed even while the program waits in C.

Python calls a signal's handler in the main thread, between two of its lines; a thread that waits in MPI does not come
to the next line.  But what Python does in C when the signal arrives includes writing its number into a pipe, and
another thread may wait for that.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from spmd_grid.watch.call_site import is_ours

__all__ = ["Bell", "Signals", "postponed_signals", "raise_held_back"]

# The two halves of a handler run so soon after one another, unless the main thread does not come to its half.
_AT_ONCE = 0.3

_installed: Signals | None = None
_held_back = False


class Bell:
    """What wakes a thread that waits: a pipe to write to, and processes that may die."""

    def __init__(self):
        self._read, self.write = os.pipe()
        for end in (self._read, self.write):
            os.set_blocking(end, False)
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)
        self._lives: dict[int, int] = {}  # processes of the job, by descriptor
        self.dead: list[int] = []  # those that have died

    def attend(self, process: int, pid: int) -> None:
        """From now on the death of this process rings; on systems that can tell."""
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self.dead.append(process)
        except (AttributeError, OSError):
            return
        else:
            self._lives[descriptor] = process
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, seconds: float) -> bytes:
        """Waits until it rings, or for so long; what has been written."""
        found = b""
        for descriptor, _ in self._poll.poll(seconds * 1000):
            if descriptor == self._read:
                with suppress(BlockingIOError):
                    found = os.read(self._read, 4096)
            else:
                self._poll.unregister(descriptor)
                os.close(descriptor)
                self.dead.append(self._lives.pop(descriptor))
        return found

    def ring(self) -> None:
        """Ends the wait of whoever waits."""
        os.write(self.write, b"\0")

    def close(self) -> None:
        for descriptor in (self._read, self.write, *self._lives):
            os.close(descriptor)
        self._lives.clear()


class Signals:
    """The handlers of one process, while they are installed; a program's own handlers are left alone.

    Where ``SIGINT`` has Python's handler it raises `KeyboardInterrupt` as before.  ``on_term(frame)`` is called for
    ``SIGTERM``.
    """

    def __init__(self, bell: Bell, on_term: Callable[[object], None]):
        self._bell, self._on_term = bell, on_term
        self._previous: dict[int, object] = {}
        self._called_again = 0
        self._came, self._seen = [], float("-inf")  # when interrupts came, when the main thread came to one
        self.term_came: float | None = None

    @classmethod
    def install(cls, bell: Bell, on_term: Callable[[object], None]) -> Signals | None:
        """Installs them; None where that cannot be: outside the main thread, or they are there already."""
        global _installed
        if _installed is not None or threading.current_thread() is not threading.main_thread():
            return None
        _installed = self = cls(bell, on_term)
        for number, default, handler in (
            (signal.SIGINT, signal.default_int_handler, self._interrupt),
            (signal.SIGTERM, signal.SIG_DFL, self._terminate),
        ):
            if signal.getsignal(number) == default:
                self._previous[number] = signal.signal(number, handler)
        if self._previous:
            other = signal.set_wakeup_fd(bell.write, warn_on_full_buffer=False)
            if other != -1:  # somebody else listens, asyncio perhaps
                signal.set_wakeup_fd(other)
        return self

    def remove(self) -> None:
        """Puts back what was there.  In a forked child, too, for which nobody waits."""
        global _installed
        _installed = None
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in self._previous.items():
            if self._handles(number):
                signal.signal(number, handler)
        current = signal.set_wakeup_fd(-1)
        if current != self._bell.write:
            signal.set_wakeup_fd(current)

    def _handles(self, number: int) -> bool:
        """Whether the program has not set a handler of its own meanwhile."""
        return getattr(signal.getsignal(number), "__self__", None) is self

    def note(self, rung: bytes) -> None:
        """Of the watching thread: these have come."""
        now = time.monotonic()
        came = rung.count(signal.SIGINT) if self._handles(signal.SIGINT) else 0
        own = min(came, self._called_again)
        self._called_again -= own
        if came > own:
            self._came.append(now)
        if self._handles(signal.SIGTERM) and signal.SIGTERM in rung and self.term_came is None:
            self.term_came = now

    def unseen(self) -> list[float]:
        """When interrupts came to which the main thread has not come yet.  Of the watching thread.

        It may have come to one before the watching thread did.
        """
        self._came = [came for came in self._came if self._seen < came - _AT_ONCE]
        if self._came and _held_back:
            self._called_again += 1
            _thread.interrupt_main()
        return self._came

    def _interrupt(self, number, frame) -> None:
        global _held_back
        # At the entry of a callback from compiled code nobody could catch it: its first line raises it.
        _held_back = frame is not None and frame.f_code.co_name == "guarded" and is_ours(frame)
        if not _held_back:
            self._seen = time.monotonic()
            raise KeyboardInterrupt

    def _terminate(self, number, frame) -> None:
        self._on_term(frame)


@contextmanager
def postponed_signals() -> Iterator[None]:
    """Postpones the program's own handlers of signals, which may raise, to the end of the block.

    Of the main thread; in others no handler runs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    with ExitStack() as afterwards:
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):
                afterwards.callback(signal.signal, number, handler)
                signal.signal(number, lambda number, _: came.append(number))
        yield
    for number in came:
        signal.raise_signal(number)


def raise_held_back() -> None:
    """Raises the interrupt that came when a callback from compiled code was being entered.  Of the main thread."""
    global _held_back
    if _held_back:
        _held_back = False
        if _installed is not None:
            _installed._seen = time.monotonic()
        raise KeyboardInterrupt


def _forget() -> None:
    if _installed is not None:
        _installed.remove()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
