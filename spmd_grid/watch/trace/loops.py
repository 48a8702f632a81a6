"""Lines of a trace that compiled loops write themselves, since they do not pass the interpreter.

A plan that loops may use gets a *form*: the line of one of its updates, with blanks for the numbers.  After each update
the compiled code fills in the blanks and writes the line to the descriptor of the trace's own file, between the lines
that Python writes there.  If that fails (a full disk), later lines are counted, not written.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Form", "LoopLines"]

_WIDTH = 20  # bytes of a blank: an int64 has 19 digits
_DESCRIPTOR, _LOST, _BUSY = range(3)  # indices; as FILE_... in kernels/protocol/slots.py


class Form(NamedTuple):
    """A line with ``blanks`` of ``width`` bytes, given by their first byte: began, took (in nanoseconds), and the turn.

    ``file``: three words that all forms of a process share.
    """

    text: bytes
    width: int
    blanks: tuple[int, ...]
    file: np.ndarray


class LoopLines:
    """The lines that the compiled loops of a process write to the open file ``descriptor``."""

    def __init__(self, descriptor: int):
        self._file = np.array([descriptor, 0, 0], np.int64)

    @property
    def is_busy(self) -> bool:
        """Whether a compiled loop is in an update: other operations of that time are parts of it."""
        return bool(self._file[_BUSY])

    @property
    def lost(self) -> int:
        """Number of lines that could not be written."""
        return int(self._file[_LOST])

    def form(self, event: dict[str, Any], args: dict[str, Any]) -> Form:
        """Make the form of an event with ``args``, with blanks for its times and its turn.  Local."""
        rest = ",".join(json.dumps(part, separators=(",", ":"))[1:] for part in (args, event))
        pieces = ['{"ts":', 'e-3,"dur":', 'e-3,"args":{"turn":', f",{rest},\n"]
        blanks = [sum(map(len, pieces[:i])) + (i - 1) * _WIDTH for i in range(1, len(pieces))]
        return Form((" " * _WIDTH).join(pieces).encode(), _WIDTH, tuple(blanks), self._file)

    def stop(self) -> None:
        """Write nothing from now on.  Local."""
        self._file[_DESCRIPTOR] = -1
