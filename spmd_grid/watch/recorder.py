"""The flight recorder: the last operations of a process, in memory that the other processes of its node can read.

A record is a row of fixed size: when it began and ended, its number, its state, and a line of text.  Whoever reads the
rows of a process that is still at work may see one half written: its number then differs before and after.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from spmd_grid.watch.call_site import call_site

__all__ = ["BEGUN", "DONE", "FAILED", "RECORDER_BYTES", "Record", "Recorder", "records_in"]

BEGUN, DONE, FAILED = 1, 2, 3

_ROWS = 64
_TEXT_BYTES = 480
_ROW = np.dtype(
    [
        ("number", "i8"),
        ("state", "i8"),
        ("began", "f8"),
        ("ended", "f8"),
        ("text", f"S{_TEXT_BYTES}"),
    ]
)
RECORDER_BYTES = _ROWS * _ROW.itemsize


@dataclass(frozen=True)
class Record:
    """One operation of one process.  Times are ``time.monotonic()``, which all processes of a machine share.

    ``what``: the operation with its arguments and arrays; ``where``: the user's own line.
    """

    number: int
    state: int
    began: float
    ended: float
    what: str
    where: str


class Recorder:
    """Records what the calling process does, in ``memory`` of RECORDER_BYTES if that is given.

    A rank has one thread that operates.  ``check``: whether operations that need not compare their arguments do so
    nevertheless.  ``on_end``: called with every finished `Record` and what it moved (see ``moved``).
    """

    def __init__(self, memory: np.ndarray | None = None, check: bool = False):
        self.check = check
        self.is_idle = True  # whether no operation is being recorded: operations inside others are not
        self.number = 0
        self.on_end: Callable[[Record, list], None] | None = None
        self._rows = (np.zeros(RECORDER_BYTES, np.uint8) if memory is None else memory).view(_ROW)
        self._rows["number"] = 0
        self._moved: list = []

    def run(self, activity, array, function: Callable, *args, **options):
        """``function(*args, **options)``, recorded as ``activity`` (which can ``describe`` itself) on an array."""
        self.number = number = self.number + 1
        row = self._rows[number % _ROWS]
        row["number"] = -number
        what, where = f"{activity.describe()}{_shown(array)}", call_site()
        row["began"], row["ended"], row["state"] = time.monotonic(), 0.0, BEGUN
        row["text"] = _joined(what, where)
        row["number"] = number
        self.is_idle = False
        state = FAILED
        try:
            result = function(*args, **options)
            state = DONE
            return result
        finally:
            self.is_idle = True
            row["ended"] = time.monotonic()
            row["state"] = state
            if self.on_end is not None:
                moved, self._moved = self._moved, []
                record = Record(number, state, float(row["began"]), float(row["ended"]), what, where)
                self.on_end(record, moved)

    def moved(self, movement) -> None:
        """Notes what the operation under way moves, for traces."""
        if self.on_end is not None:
            self._moved.append(movement)

    def last(self, count: int = _ROWS) -> list[Record]:
        """The last records, the newest at the end."""
        return list(records_in(self._rows.view(np.uint8)))[-count:]


def records_in(memory: np.ndarray) -> Iterator[Record]:
    """The records in a recorder's memory, the newest at the end.  Local; of any process."""
    rows = memory.view(_ROW).copy()
    for row in np.sort(rows[rows["number"] > 0], order="number"):
        what, _, where = row["text"].decode("utf-8", "replace").rpartition("\n")
        yield Record(int(row["number"]), int(row["state"]), float(row["began"]), float(row["ended"]), what, where)


def _shown(array) -> str:
    """An array in a few words."""
    name = getattr(array, "name", None)
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    named = f" '{name}'" if isinstance(name, str) and name else ""
    return named if shape is None or dtype is None else f" on{named} {dtype} {tuple(shape)}"


def _joined(what: str, where: str) -> bytes:
    """Both in as many bytes as a row has; the place is kept whole."""
    tail = f"\n{where}".encode()[-200:]
    return what.replace("\n", " ").encode()[: _TEXT_BYTES - len(tail)] + tail
