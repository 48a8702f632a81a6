"""A pipe and process descriptors that wake a waiting thread."""

from __future__ import annotations

import os
import select
from contextlib import suppress

__all__ = ["Waker"]


class Waker:
    """Wakes a thread when bytes are written to the descriptor ``write``, or when a watched process dies.

    ``dead``: the watched processes that have died.
    """

    def __init__(self) -> None:
        self._read, self.write = os.pipe()
        for end in (self._read, self.write):
            os.set_blocking(end, False)
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)
        self._watched: dict[int, int] = {}  # processes of the job, by descriptor
        self.dead: list[int] = []

    def watch(self, process: int, pid: int) -> None:
        """Wakes the thread when this process dies, on systems with process descriptors."""
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self.dead.append(process)
        except (AttributeError, OSError):
            return
        else:
            self._watched[descriptor] = process
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, seconds: float) -> bytes:
        """Waits to be woken, at most ``seconds``; the bytes that were written."""
        found = b""
        for descriptor, _ in self._poll.poll(seconds * 1000):
            if descriptor == self._read:
                with suppress(BlockingIOError):
                    found = os.read(self._read, 4096)
            else:
                self._poll.unregister(descriptor)
                os.close(descriptor)
                self.dead.append(self._watched.pop(descriptor))
        return found

    def wake(self) -> None:
        """Wakes the thread."""
        os.write(self.write, b"\0")

    def close(self) -> None:
        for descriptor in (self._read, self.write, *self._watched):
            os.close(descriptor)
        self._watched.clear()
