"""The modes in which operations can be watched: switching between them, and counting an operation's looks.

A *look* is one read of `Process.recorder`, by which an operation finds out whether it is watched; looks are all that
watching costs while it is off.  `init_grid` sets the mode for the whole program, but the benchmark switches back and
forth, so it replaces the recorder.  A `HaloExchange` looks when it is made, so each mode needs its own.
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

_TIMEOUT_SECONDS = 3600.0  # longer than any operation of a benchmark waits
_COUNTED_CALLS = 101
_NOT_PLAIN = "looks can only be timed in the plain mode"

# The loop of calls is compiled as a file outside this package, like a user's: recording searches the stack, frame by
# frame, for the first frame outside.
_PROGRAM = "def calls(call, n):\n    for _ in range(n):\n        call()\n"


class Modes:
    """Switches the mode of this process, which is plain except in the context of `within`.

    Collective over all processes.  Leaves a time limit set for the whole program, so it is for programs that do nothing
    but measure.
    """

    def __init__(self) -> None:
        world = current_world()
        world.watch(True, _TIMEOUT_SECONDS)
        recorder = world.process.recorder
        if recorder is None:
            raise RuntimeError("this process cannot be watched")
        self._process, self._recorder = world.process, recorder
        self._process.recorder = None

    @contextmanager
    def within(self, mode: str) -> Iterator[None]:
        """Make calls and plans in this context in ``mode``.

        Local, but all processes must enter and leave it between the same operations.
        """
        self._recorder.check = mode == CHECKED
        self._process.recorder = None if mode == PLAIN else self._recorder
        try:
            yield
        finally:
            self._process.recorder = None

    def batch(self, mode: str, call: Callable[[], object]) -> Batch:
        """A function that makes a given number of calls in ``mode``."""
        program: dict[str, Any] = {}
        exec(compile(_PROGRAM, "a user's program", "exec"), program)

        def batch(n: int) -> None:
            with self.within(mode):
                program["calls"](call, n)

        return batch

    def looks(self, call: Callable[[], object]) -> int:
        """Number of looks of a plain call on this process.  Collective, as the call is.

        Calls that have to wait look again, so this is the 60th percentile: near the median, and if calls alternate
        between two kinds, above those of the kind that looks less often.
        """
        counts = sorted(_count_looks(self._process, call) for _ in range(_COUNTED_CALLS))
        return counts[_COUNTED_CALLS * 6 // 10]


def _count_looks(process: Process, call: Callable[[], object]) -> int:
    """Number of looks of this thread in a call; looks of the thread that watches for hangs do not count."""
    count, this_thread, read_recorder = 0, get_ident(), vars(Process)["recorder"].__get__

    class CountingProcess(Process):
        __slots__ = ()

        def _look(self) -> Recorder | None:
            nonlocal count
            count += get_ident() == this_thread
            return read_recorder(self)

        recorder = property(_look)  # in place of the slot

    own_class = type(process)
    process.__class__ = CountingProcess
    try:
        call()
    finally:
        process.__class__ = own_class
    return count


# -- the time of a look ----------------------------------------------------------------------------------------


def look_batches() -> dict[str, Batch]:
    """Batches of looks as operations make them, and of an empty loop, whose time is subtracted from theirs."""
    holder = _Holder(current_world())

    def loop(n: int) -> None:
        for _ in range(n):
            pass

    def look(n: int) -> None:
        for _ in range(n):
            # The same tests as in an operation, so that they take the same time.
            recorder = holder.comm.process.recorder
            if recorder is not None and recorder.is_idle:
                raise RuntimeError(_NOT_PLAIN)
            if recorder is not None:
                raise RuntimeError(_NOT_PLAIN)

    return {LOOP: loop, LOOK: look}


class _Holder:
    """Holds a communicator in an attribute, as prepared calls do: reading it is part of the time of a look."""

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
