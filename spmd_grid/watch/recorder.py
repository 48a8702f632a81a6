"""The flight recorder: the last operations of a process, in memory that the other processes of its node can read.

A record is a row of fixed size: when it began and ended, its number, its state, and a line of text.  Whoever reads the
rows of a process that is still at work may see one half written: its number then differs before and after.  Before
the rows lies the name of the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from spmd_grid.watch.call_site import call_site

__all__ = ["BEGUN", "DONE", "FAILED", "RECORDER_BYTES", "Record", "Recorder", "label_in", "records_in", "shown"]

BEGUN, DONE, FAILED = 1, 2, 3

_ROWS = 64
_TEXT_BYTES = 480
_PLACE_BYTES = 200
_LABEL_BYTES = 64
_ROW = np.dtype(
    [
        ("number", "i8"),
        ("state", "i8"),
        ("began", "f8"),
        ("ended", "f8"),
        ("text", f"S{_TEXT_BYTES}"),
    ]
)
RECORDER_BYTES = _LABEL_BYTES + _ROWS * _ROW.itemsize


@dataclass(frozen=True)
class Record:
    """One operation of one process.  Times are ``time.monotonic()``, which all processes of a machine share.

    ``what``: the operation with its arguments and arrays; ``where``: the user's own line.  One that has only begun has
    ``ended`` 0, or when a compiled loop was last seen waiting in it.
    """

    number: int
    state: int
    began: float
    ended: float
    what: str
    where: str

    def waited(self, now: float) -> float:
        """For how long it has been going on; 0 if it does not."""
        return (self.ended or now) - self.began if self.state == BEGUN else 0.0


class Recorder:
    """Records what the calling process does, in ``memory`` of RECORDER_BYTES if that is given.

    A rank has one thread that operates.  ``check``: whether operations that need not compare their arguments do so
    nevertheless.  ``on_end``: called with every finished `Record` and what it moved (see ``moved``); ``form_of``: with
    the words for what compiled loops will do without being recorded, the user's line, and what moves.
    """

    def __init__(self, memory: np.ndarray | None = None, check: bool = False):
        self.check = check
        self.is_idle = True  # whether no operation is being recorded: operations inside others are not
        self.number = 0
        self.where = ""  # the user's line of the last operation
        self.on_end: Callable[[Record, list], None] | None = None
        self.form_of: Callable[[str, str, Any], Any] | None = None
        self._memory = memory = np.zeros(RECORDER_BYTES, np.uint8) if memory is None else memory
        memory[:] = 0
        rows = memory[_LABEL_BYTES:].view(_ROW)
        self._numbers, self._states, self._began, self._ended, self._texts = (rows[name] for name in _ROW.names)
        self._seen: tuple | None = None  # what a compiled loop was last seen waiting for
        self._moved: list = []

    def sign(self, label: str) -> None:
        """Says whose records these are."""
        self._memory[:_LABEL_BYTES] = np.frombuffer(label.encode()[:_LABEL_BYTES].ljust(_LABEL_BYTES, b"\0"), np.uint8)

    def run(self, activity, array, function: Callable, *args, **options):
        """``function(*args, **options)``, recorded as ``activity`` (which can ``describe`` itself) on an array."""
        what, where = f"{activity.describe()}{shown(array)}", call_site()
        self.where = where
        number = self._begin(what, where)
        self.is_idle = False
        state = FAILED
        try:
            result = function(*args, **options)
            state = DONE
            return result
        finally:
            self.is_idle = True
            row = number % _ROWS
            self._ended[row] = time.monotonic()
            self._states[row] = state
            if self.on_end is not None:
                moved, self._moved = self._moved, []
                record = Record(number, state, float(self._began[row]), float(self._ended[row]), what, where)
                self.on_end(record, moved)

    def watch(self, activity, function: Callable, *args):
        """``function(*args)``, as ``run``, of what goes without saying: once it is done it leaves no record."""
        number = self._begin(activity.describe(), call_site())
        self.is_idle = False
        try:
            return function(*args)
        finally:
            self.is_idle = True
            row = number % _ROWS
            self._states[row] = DONE
            self._numbers[row] = 0
            self.number = number - 1

    def see(self, activity, wait: tuple) -> None:
        """A compiled loop waits, as ``activity`` says, for what ``wait`` names; called again while it does.

        Nobody tells when such a wait is over: it ended when it was seen last.
        """
        if self._seen != wait:
            self._begin(activity.describe(), call_site())
            self._seen = wait
        self._ended[self.number % _ROWS] = time.monotonic()

    def _begin(self, what: str, where: str) -> int:
        if self._seen is not None:
            self._states[self.number % _ROWS] = DONE
            self._seen = None
        self.number = number = self.number + 1
        row = number % _ROWS
        self._numbers[row] = -number
        self._ended[row] = 0.0
        self._texts[row] = _joined(what, where)
        self._began[row] = time.monotonic()
        self._states[row] = BEGUN  # after the time: other threads look at both
        self._numbers[row] = number
        return number

    @property
    def traces(self) -> bool:
        """Whether anybody asks what the operation under way moves."""
        return self.on_end is not None and not self.is_idle

    def moved(self, movement) -> None:
        """Notes what the operation under way moves, for traces."""
        if self.traces:
            self._moved.append(movement)

    def loop_form(self, activity, movement):
        """What makes compiled loops note an ``activity`` in the trace; None where there is none.  Local."""
        return None if self.form_of is None else self.form_of(activity.describe(), call_site(), movement)

    def waited(self, now: float) -> float:
        """For how long this process has been in its last operation; 0 if it is in none.  Any thread may ask."""
        row = self.number % _ROWS
        return (self._ended[row] or now) - self._began[row] if self._states[row] == BEGUN else 0.0

    def last(self, count: int = _ROWS) -> list[Record]:
        """The last records, the newest at the end.  Any thread may ask."""
        return records_in(self._memory, count)


def records_in(memory: np.ndarray, count: int = _ROWS) -> list[Record]:
    """The last records in a recorder's memory, the newest at the end.  Local; of any process."""
    live = memory[_LABEL_BYTES:].view(_ROW)
    rows = live.copy()
    rows = rows[(rows["number"] > 0) & (rows["number"] == live["number"])]
    found = []
    for row in np.sort(rows, order="number")[-count:]:
        what, _, where = row["text"].decode("utf-8", "replace").rpartition("\n")
        found.append(
            Record(int(row["number"]), int(row["state"]), float(row["began"]), float(row["ended"]), what, where)
        )
    return found


def label_in(memory: np.ndarray) -> str:
    """Whose records these are; empty where nobody has said so.  Local; of any process."""
    return memory[:_LABEL_BYTES].tobytes().rstrip(b"\0").decode("utf-8", "replace")


def shown(array) -> str:
    """An array in a few words, to follow those for what is done with it.

    >>> shown(np.zeros((2, 3)))
    ' on float64 (2, 3)'
    """
    if type(array) is np.ndarray:
        return f" on{_dtype_and_shape(array.dtype, array.shape)}"
    name = getattr(array, "name", None)
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    named = f" '{name}'" if isinstance(name, str) and name else ""
    is_array = isinstance(shape, tuple) and isinstance(dtype, np.dtype)
    return f" on{named}{_dtype_and_shape(dtype, shape)}" if is_array else named


@lru_cache  # numpy takes longer for this than all the rest
def _dtype_and_shape(dtype: np.dtype, shape: tuple[int, ...]) -> str:
    return f" {dtype} {shape}"


@lru_cache
def _joined(what: str, where: str) -> bytes:
    """Both in as many bytes as a row has; the place is kept whole."""
    tail = where.replace("\n", " ").encode()[-_PLACE_BYTES:]
    return what.replace("\n", " ").encode()[: _TEXT_BYTES - len(tail) - 1] + b"\n" + tail
