"""The output of simulated ranks, in whole lines: shown, with or without labels, or kept by rank.

A rank at a debugger's prompt has the terminal for itself until the prompt is answered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

__all__ = ["KeptOutput", "LineStream", "ShownOutput"]


class ShownOutput:
    """Writes the output of ranks to a stream, with ``label(rank)`` before each line if that is given."""

    def __init__(self, stream: TextIO, label: Callable[[int | None], str] | None = None):
        self.stream = stream
        self._label = label
        self._open: tuple[int | None] | None = None  # the rank of an unfinished line
        self._lock = threading.RLock()
        self._holder: int | None = None  # the rank that has the terminal for itself
        self._held: list[tuple[int | None, str]] = []

    def write(self, rank: int | None, text: str) -> None:
        with self._lock:
            if self._holder not in (None, rank):
                self._held.append((rank, text))
            elif self._label is None:
                self.stream.write(text)
            else:
                self._write_labelled(rank, text, self._label(rank))

    def _write_labelled(self, rank: int | None, text: str, label: str) -> None:
        continues = self._open == (rank,)
        if self._open is not None and not continues:
            self.stream.write("\n")
        lines = text.splitlines(keepends=True)
        self.stream.write("".join(("" if continues and not i else label) + line for i, line in enumerate(lines)))
        if lines:
            self._open = None if lines[-1].endswith("\n") else (rank,)

    @contextmanager
    def held_by(self, rank: int) -> Iterator[None]:
        """Holds back the output of other ranks within the ``with``."""
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


class KeptOutput:
    """Keeps the output of ranks in ``texts``, by rank; that of threads that are no ranks under None.

    ``labels``: the labels of the ranks at the end.
    """

    def __init__(self, stream: TextIO):
        self.stream = stream
        self.texts: dict[int | None, str] = {}
        self.labels: dict[int | None, str] = {None: "[-] "}

    def write(self, rank: int | None, text: str) -> None:
        self.texts[rank] = self.texts.get(rank, "") + text

    def flush(self) -> None:
        pass


class LineStream:
    """A stream shared by threads: passes on the whole lines of each, and the rest when it flushes.

    ``rank()``: the rank of the calling thread.
    """

    def __init__(self, output: ShownOutput | KeptOutput, rank: Callable[[], int | None]):
        self._output, self._rank = output, rank
        self._local = threading.local()

    def write(self, text: str) -> int:
        whole, newline, rest = (getattr(self._local, "text", "") + text).rpartition("\n")
        self._local.text = rest
        if newline:
            self._output.write(self._rank(), whole + newline)
        return len(text)

    def flush(self) -> None:
        text, self._local.text = getattr(self._local, "text", ""), ""
        if text:
            self._output.write(self._rank(), text)
        self._output.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output.stream, name)
