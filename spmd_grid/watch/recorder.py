"""The flight recorder: the last operations of a process, in memory that the other processes of its node can read.

A record is a row of fixed size: its number, its state, the times when it began and ended, and a line of text.  A reader
may see a row of a running process half written: its number then differs before and after.  The name of the process
precedes the rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from spmd_grid.watch.call_site import call_site
from spmd_grid.watch.traffic import Activity, HasTraffic

__all__ = [
    "BEGUN",
    "DONE",
    "FAILED",
    "RECORDER_BYTES",
    "OperationRecord",
    "Recorder",
    "label_in",
    "records_in",
    "shown",
]

BEGUN, DONE, FAILED = 1, 2, 3

Result = TypeVar("Result")

_ROWS = 64
_TEXT_BYTES = 480
_CALL_SITE_BYTES = 200
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
class OperationRecord:
    """One operation of one process.  Times are ``time.monotonic()``, which all processes of a machine share.

    ``what``: the operation with its arguments and arrays; ``where``: the call site.  If it has only begun, ``ended`` is
    0, or the time when a compiled loop was last seen waiting in it.
    """

    number: int
    state: int
    began: float
    ended: float
    what: str
    where: str

    def waited(self, now: float) -> float:
        """Seconds for which it has been under way; 0 if it has ended."""
        return (self.ended or now) - self.began if self.state == BEGUN else 0.0


class Recorder:
    """Records the operations of the calling process, in ``memory`` of RECORDER_BYTES if that is given.

    One thread per rank runs operations.  Each tests by itself whether it is to be recorded, and if so calls itself
    again through `run`: ``if recorder is not None and recorder.is_idle: return recorder.run(...)``.  These lines are
    not in one place, since a helper in front of every operation took 120 to 400 ns per call, also while nothing is
    recorded; the test takes about 10.

    ``check``: whether operations compare their arguments even if they need not.  ``on_end``: called with every finished
    `OperationRecord` and its movements (see ``moved``).  ``form_of``: called with the description of updates that
    compiled loops make without being recorded, the call site, and the movement.
    """

    def __init__(self, memory: np.ndarray | None = None, check: bool = False):
        self.check = check
        self.is_idle = True  # whether no operation is being recorded: operations inside others are not recorded
        self.number = 0
        self.where = ""  # the call site of the last operation
        self.on_end: Callable[[OperationRecord, list[object]], None] | None = None
        self.form_of: Callable[[str, str, HasTraffic], Any] | None = None
        self._memory = memory = np.zeros(RECORDER_BYTES, np.uint8) if memory is None else memory
        memory[:] = 0
        rows = memory[_LABEL_BYTES:].view(_ROW)
        self._numbers, self._states, self._began, self._ended, self._texts = (
            rows[name] for name in ("number", "state", "began", "ended", "text")
        )
        self._seen: tuple | None = None  # the wait in which a compiled loop was last seen
        self._moved: list[object] = []

    def sign(self, label: str) -> None:
        """Write the name of the process."""
        self._memory[:_LABEL_BYTES] = np.frombuffer(label.encode()[:_LABEL_BYTES].ljust(_LABEL_BYTES, b"\0"), np.uint8)

    def run(
        self, activity: Activity, array: object, function: Callable[..., Result], *args: Any, **options: Any
    ) -> Result:
        """Call ``function(*args, **options)``, recorded as ``activity`` on ``array``."""
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
                record = OperationRecord(number, state, float(self._began[row]), float(self._ended[row]), what, where)
                self.on_end(record, moved)

    def watch(self, activity: Activity, function: Callable[..., Result], *args: Any) -> Result:
        """Call ``function(*args)``, recorded only while it runs: afterwards no record is left."""
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

    def see(self, activity: Activity, wait: tuple) -> None:
        """Record that a compiled loop waits in ``activity``; ``wait`` identifies the wait.  Called while it lasts.

        The end of such a wait is not reported: it ended when it was seen last.
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
        self._states[row] = BEGUN  # after the time, since other threads read both
        self._numbers[row] = number
        return number

    @property
    def traces(self) -> bool:
        """Whether a trace shows what the operation under way moves."""
        return self.on_end is not None and not self.is_idle

    def moved(self, movement: object) -> None:
        """Note a part of the operation under way for traces, which show it if it is a `HasTraffic`."""
        if self.traces:
            self._moved.append(movement)

    def loop_form(self, activity: Activity, movement: HasTraffic) -> Any:
        """The `Form` by which compiled loops write ``activity`` to the trace; None without a trace.  Local."""
        return None if self.form_of is None else self.form_of(activity.describe(), call_site(), movement)

    def waited(self, now: float) -> float:
        """Seconds for which this process has been in its last operation; 0 if it is in none.  From any thread."""
        row = self.number % _ROWS
        return (self._ended[row] or now) - self._began[row] if self._states[row] == BEGUN else 0.0

    def last(self, count: int = _ROWS) -> list[OperationRecord]:
        """The last records, the newest at the end.  From any thread."""
        return records_in(self._memory, count)


def records_in(memory: np.ndarray, count: int = _ROWS) -> list[OperationRecord]:
    """Read the last records in the memory of any process's recorder, the newest at the end.  Local."""
    live = memory[_LABEL_BYTES:].view(_ROW)
    rows = live.copy()
    rows = rows[(rows["number"] > 0) & (rows["number"] == live["number"])]
    found = []
    for row in np.sort(rows, order="number")[-count:]:
        what, _, where = row["text"].decode("utf-8", "replace").rpartition("\n")
        found.append(
            OperationRecord(
                int(row["number"]), int(row["state"]), float(row["began"]), float(row["ended"]), what, where
            )
        )
    return found


def label_in(memory: np.ndarray) -> str:
    """Read the name of the process from the memory of its recorder; empty if it has none yet.  Local."""
    return memory[:_LABEL_BYTES].tobytes().rstrip(b"\0").decode("utf-8", "replace")


def shown(array: object) -> str:
    """Describe an array briefly, as the end of the description of an operation.

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


@lru_cache  # numpy takes longer for this than everything else in a record
def _dtype_and_shape(dtype: np.dtype, shape: tuple[int, ...]) -> str:
    return f" {dtype} {shape}"


@lru_cache
def _joined(what: str, where: str) -> bytes:
    """Join both within the bytes of a row; the call site is kept whole, and the rest is cut."""
    tail = where.replace("\n", " ").encode()[-_CALL_SITE_BYTES:]
    return what.replace("\n", " ").encode()[: _TEXT_BYTES - len(tail) - 1] + b"\n" + tail
