"""The modes in which operations can be watched: switching between them, and counting an operation's looks.

`init_grid` sets the mode for the whole program; the benchmark switches back and forth.  An operation looks at the
recorder of its process to see whether it is watched, so the benchmark replaces that.  A `HaloExchange` looks when it is
made: each mode needs its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from spmd_grid.bench.common.timing import Batch
from spmd_grid.transport.communicator import Communicator, Process
from spmd_grid.transport.launch import current_world
from spmd_grid.watch.recorder import Recorder

__all__ = ["CHECKED", "LOOK", "LOOP", "MODES", "PLAIN", "RECORDED", "Modes", "look_batches"]

PLAIN, RECORDED, CHECKED = MODES = "plain", "recorded", "checked"
LOOP, LOOK = "an empty loop", "a look"

_LIMIT = 3600.0  # seconds, longer than any operation of a benchmark waits
_CALLS = 101
_NOT_PLAIN = "looks are timed where nothing is recorded"

# Calls come from outside this package, as in programs: to find the call site, a record searches frame by frame.
_PROGRAM = "def calls(call, n):\n    for _ in range(n):\n        call()\n"


class Modes:
    """The modes of this process, which is plain except within `within`.

    Collective over all processes.  Their time limit remains set, so this is for programs that do nothing else.
    """

    def __init__(self) -> None:
        world = current_world()
        world.watch(True, _LIMIT)
        recorder = world.process.recorder
        if recorder is None:
            raise RuntimeError("this process cannot be watched")
        self._process, self._recorder = world.process, recorder
        self._process.recorder = None

    @contextmanager
    def within(self, mode: str) -> Iterator[None]:
        """Calls and plans in this context are in ``mode``.  Local; between operations, on all processes."""
        self._recorder.check = mode == CHECKED
        self._process.recorder = None if mode == PLAIN else self._recorder
        try:
            yield
        finally:
            self._process.recorder = None

    def batch(self, mode: str, call: Callable[[], object]) -> Batch:
        """Batches of calls in ``mode``."""
        program: dict[str, Any] = {}
        exec(compile(_PROGRAM, "a user's program", "exec"), program)

        def batch(n: int) -> None:
            with self.within(mode):
                program["calls"](call, n)

        return batch

    def looks(self, call: Callable[[], object]) -> int:
        """Number of times that a plain call looks for a recorder on this process.  Collective, as the call is.

        Calls that wait look again, so this is a percentile; if calls alternate between two kinds, of the one that looks
        more often.
        """
        return sorted(_counted(self._process, call) for _ in range(_CALLS))[_CALLS * 6 // 10]


def _counted(process: Process, call: Callable[[], object]) -> int:
    """Number of looks of this thread in a call; the thread that watches for hangs looks at any time."""
    count, me, recorder = 0, get_ident(), vars(Process)["recorder"].__get__

    class Counting(Process):
        __slots__ = ()

        def _look(self) -> Recorder | None:
            nonlocal count
            count += get_ident() == me
            return recorder(self)

        recorder = property(_look)  # in place of the slot

    own_class = type(process)
    process.__class__ = Counting
    try:
        call()
    finally:
        process.__class__ = own_class
    return count


# -- the time of a look ----------------------------------------------------------------------------------------


def look_batches() -> dict[str, Batch]:
    """Batches of looks as operations make them, and of an empty loop, which is the base of their time."""
    holder = _Holder(current_world())

    def loop(n: int) -> None:
        for _ in range(n):
            pass

    def look(n: int) -> None:
        for _ in range(n):
            recorder = holder.comm.process.recorder
            if recorder is not None and recorder.is_idle:
                raise RuntimeError(_NOT_PLAIN)
            if recorder is not None:
                raise RuntimeError(_NOT_PLAIN)

    return {LOOP: loop, LOOK: look}


class _Holder:
    """Holds its communicator in an attribute, as prepared calls do."""

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
