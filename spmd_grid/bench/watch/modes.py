"""Switches between the ways in which an operation can be watched, and counts how often it looks whether it is.

`init_grid` sets this for the whole program; a benchmark goes to and fro.  Operations only look at the recorder of their
process, so that is what is switched.  A `HaloExchange` looks when it is made: each mode needs one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident

from spmd_grid.bench.common.timing import Batch
from spmd_grid.transport.communicator import Process
from spmd_grid.transport.launch import current_world

__all__ = ["CHECKED", "LOOK", "LOOP", "MODES", "PLAIN", "RECORDED", "Modes", "look_batches"]

PLAIN, RECORDED, CHECKED = MODES = "plain", "recorded", "checked"
LOOP, LOOK = "an empty loop", "a look"

_LIMIT = 3600.0  # seconds, which no operation of a benchmark waits
_CALLS = 101

# Calls come from outside this package, as users' do: records look for the user's own line, frame by frame.
_PROGRAM = "def calls(call, n):\n    for _ in range(n):\n        call()\n"


class Modes:
    """The modes of this process; plain but within others.

    Collective over all processes.  Their limit stays, so this is for programs that do nothing else.
    """

    def __init__(self):
        world = current_world()
        world.watch(True, _LIMIT)
        self._process, self._recorder = world.process, world.process.recorder
        self._process.recorder = None

    @contextmanager
    def within(self, mode: str) -> Iterator[None]:
        """What is called or made here is so in ``mode``.  Local; for all processes alike, between operations."""
        self._recorder.check = mode == CHECKED
        self._process.recorder = None if mode == PLAIN else self._recorder
        try:
            yield
        finally:
            self._process.recorder = None

    def batch(self, mode: str, call: Callable[[], object]) -> Batch:
        """So many calls in ``mode``."""
        program: dict = {}
        exec(compile(_PROGRAM, "a user's program", "exec"), program)

        def batch(n: int) -> None:
            with self.within(mode):
                program["calls"](call, n)

        return batch

    def looks(self, call: Callable[[], object]) -> int:
        """How often a plain call looks for a recorder.  Collective, as the call is; those of one process.

        Calls that wait look again meanwhile; of two kinds of calls by turns it is the one that looks more often.
        """
        return sorted(_counted(self._process, call) for _ in range(_CALLS))[_CALLS * 6 // 10]


def _counted(process: Process, call: Callable[[], object]) -> int:
    """How often this thread looks in a call; another one, which looks after hangs, does so at any time."""
    count, me, recorder = 0, get_ident(), Process.recorder.__get__

    class Counting(Process):
        __slots__ = ()

        @property
        def recorder(self):
            nonlocal count
            count += get_ident() == me
            return recorder(self)

    kind = type(process)
    process.__class__ = Counting
    try:
        call()
    finally:
        process.__class__ = kind
    return count


# -- what a look takes -----------------------------------------------------------------------------------------


def look_batches() -> dict[str, Batch]:
    """So many looks, and a loop without any.  The loop has what operations do where no recorder is there."""
    holder = _Holder(current_world())

    def loop(n: int) -> None:
        for _ in range(n):
            pass

    def look(n: int) -> None:
        for _ in range(n):
            recorder = holder.comm.process.recorder
            if recorder is not None and recorder.is_idle:
                recorder.run()
            if recorder is not None:
                recorder.moved()

    return {LOOP: loop, LOOK: look}


class _Holder:
    """Has its communicator as a prepared call has it."""

    def __init__(self, comm):
        self.comm = comm
