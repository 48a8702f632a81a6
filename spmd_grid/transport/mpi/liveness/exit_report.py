"""Who says why a job ends: one process of a node, in one piece.

Ctrl-C reaches all processes at the same moment, and several may notice that one of them is gone; one report is enough.
They agree on who speaks in the node's memory, without an atomic operation: whoever finds a word empty writes its
number there, pauses, and speaks if the number is still its own (M. Fischer's algorithm, in L. Lamport, "A fast mutual
exclusion algorithm", 1987).  The pause costs nothing: the job is at its end.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

__all__ = ["LastWords", "write_at_once"]

# Far longer than it takes to look at a word and write it; until those of other nodes speak, and until those that did
# not speak end the job themselves, should the one that did have failed to.
_TURN, _OTHER_NODES, _PATIENCE = 0.02, 0.5, 2.0
_FLUSHING = 0.5  # at most, to hand over what was printed


class LastWords:
    """The last words of one process.

    ``word``: an int64 of the node's memory, None where processes share none and each counts as a node of its own;
    ``is_first``: whether process 0 is of this node;
    ``abort(code)`` ends the job.
    """

    def __init__(self, rank: int, word: np.ndarray | None, is_first: bool, abort: Callable[[int], None]):
        self._mark = rank + 1
        self._word, self._is_first, self._abort = word, is_first, abort

    def say(self, text: str, code: int = 1) -> None:
        """Prints ``text``, unless somebody else is speaking, and ends the job."""
        _flush_output()  # whoever speaks: what this process has printed would be lost with it
        if not self._is_first:
            time.sleep(_OTHER_NODES)
        if self._has_turn():
            self._print(text)
        else:
            time.sleep(_PATIENCE)
        self._abort(code)

    def insist(self, text: str) -> None:
        """As ``say``, whoever else is speaking."""
        self.claim()
        self._print(text)
        self._abort(1)

    def claim(self) -> None:
        """From now on the others of the node are silent."""
        if self._word is not None:
            self._word[0] = self._mark

    def _has_turn(self) -> bool:
        if self._word is None:
            return True
        if self._word[0] == 0:
            self._word[0] = self._mark
            time.sleep(_TURN)
        return self._word[0] == self._mark

    def _print(self, text: str) -> None:
        _flush_output()
        write_at_once(f"spmd_grid: {text}\n")


def _flush_output() -> None:
    """Hands over what this process has printed, if there is somewhere to, and no thread is stuck in doing just that."""

    def flush():
        with suppress(Exception):  # closed, none at all, or nobody reads it
            sys.stdout.flush()

    flushing = threading.Thread(target=flush, daemon=True)
    try:
        flushing.start()
    except RuntimeError:  # at the end of the program there are no new threads, and no others to be in the way
        flush()
    else:
        flushing.join(_FLUSHING)


def write_at_once(text: str) -> None:
    """Writes to standard error so that other processes' words do not get in between."""
    stream = sys.stderr
    try:
        stream.flush()
        descriptor = stream.fileno()
    except (AttributeError, OSError, ValueError):  # closed, none at all, or not a file
        if stream is not None and not getattr(stream, "closed", False):
            stream.write(text)
            stream.flush()
        return
    left = memoryview(text.encode(errors="backslashreplace"))
    while left:
        left = left[os.write(descriptor, left) :]
