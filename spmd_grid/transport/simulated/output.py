"""What simulated ranks print, in whole lines: as it is, with the rank before each line, or kept by rank.

A rank that waits for an answer (at a debugger's prompt) has the terminal for itself until it has got it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Kept", "Lines", "Shown"]


class Shown:
    """Writes what ranks print to a stream; ``label(rank)`` comes before each line where it is given."""

    def __init__(self, stream, label: Callable[[int | None], str] | None = None):
        self.stream = stream
        self._label = label
        self._open: tuple | None = None  # the rank whose line has no end yet
        self._lock = threading.RLock()
        self._holder: int | None = None
        self._held: list[tuple[int | None, str]] = []

    def write(self, rank: int | None, text: str) -> None:
        with self._lock:
            if self._holder not in (None, rank):
                self._held.append((rank, text))
            elif self._label is None:
                self.stream.write(text)
            else:
                self._write_labelled(rank, text)

    def _write_labelled(self, rank: int | None, text: str) -> None:
        goes_on = self._open == (rank,)
        if self._open is not None and not goes_on:
            self.stream.write("\n")
        label, lines = self._label(rank), text.splitlines(keepends=True)
        self.stream.write("".join(("" if goes_on and not i else label) + line for i, line in enumerate(lines)))
        if lines:
            self._open = None if lines[-1].endswith("\n") else (rank,)

    @contextmanager
    def held_by(self, rank: int) -> Iterator[None]:
        """What other ranks print meanwhile comes afterwards."""
        with self._lock:
            self._holder = rank
        try:
            yield
        finally:
            with self._lock:
                self._holder, held, self._held = None, self._held, []
                for other, text in held:
                    self.write(other, text)

    def flush(self) -> None:
        self.stream.flush()


class Kept:
    """Keeps what ranks print in ``texts``, by rank; what threads print that are no ranks comes under None.

    ``labels``: what the ranks were called in the end.
    """

    def __init__(self, stream):
        self.stream = stream
        self.texts: dict[int | None, str] = {}
        self.labels: dict[int | None, str] = {None: "[-] "}

    def write(self, rank: int | None, text: str) -> None:
        self.texts[rank] = self.texts.get(rank, "") + text

    def flush(self) -> None:
        pass


class Lines:
    """A stream shared by threads: passes on what each writes in whole lines, or when it flushes.

    ``rank()`` is that of the calling thread.
    """

    def __init__(self, page: Shown | Kept, rank: Callable[[], int | None]):
        self._page, self._rank = page, rank
        self._local = threading.local()

    def write(self, text: str) -> int:
        whole, newline, rest = (getattr(self._local, "text", "") + text).rpartition("\n")
        self._local.text = rest
        if newline:
            self._page.write(self._rank(), whole + newline)
        return len(text)

    def flush(self) -> None:
        text, self._local.text = getattr(self._local, "text", ""), ""
        if text:
            self._page.write(self._rank(), text)
        self._page.flush()

    def __getattr__(self, name: str):
        return getattr(self._page.stream, name)
