"""What compiled code needs of a transport beside memory: messages that are sent again and again, and help in waits.

A wire offers functions and tables by *address*, so that a compiled exchange runs through without the interpreter.  It
calls back only when it has waited for long (``on_wait``), and where somebody must be woken (``on_post``).
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.watch.call_site import call_site

__all__ = ["Messages", "Requests", "Straight", "Wire"]

_FINE, _GIVE_UP = 0, 2


class Messages(NamedTuple):
    """The messages of one exchange: (member, flat bytes) each; ``shorts`` are sent in place of ``sends``."""

    receives: list[tuple[int, np.ndarray]]
    sends: list[tuple[int, np.ndarray]]
    shorts: list[tuple[int, np.ndarray]]


class Straight(NamedTuple):
    """A message that is sent straight from memory: the head, then the cells; all in bytes."""

    member: int
    head: np.ndarray
    cells: list[tuple[int, tuple[int, ...], tuple[int, ...], int]]  # address, shape, strides, item size


class Requests:
    """Handles that wait at ``address``, ``count`` of them, until they are given back."""

    def __init__(self, address: int, count: int, give_back: Callable[[], None]):
        self.address, self.count = address, count
        weakref.finalize(self, give_back).atexit = False


class Wire:
    """The addresses, and what a callback has raised; a transport fills them in.

    ``start`` and ``test`` are the addresses of functions like ``MPI_Startall`` and ``MPI_Testall``, ``statuses`` that
    of memory for statuses; ``requests`` has (address, number) of the handles of receives, sends and shorts.  ``polls``
    and ``yields`` say how often to look before giving way, and before calling ``on_wait(address, value, member)``: the
    word waited for, the value that it must reach, and which of the sources writes it (or which reader r, as -2 - r);
    address 0 stands for messages: 0 those that come, 1 those that go.
    """

    on_post = 0
    calls_back = False  # whether ``start`` and ``test`` are callbacks
    times_well = False  # whether time measured here means anything: no simulation, and a core for every process

    def __init__(self):
        self.start = self.test = self.on_wait = self.statuses = 0
        self.requests: list[tuple[int, int]] = [(0, 0)] * 3
        self.polls, self.yields = 1, 0
        self.error: BaseException | None = None
        self.activity: Any = None  # what it is for
        self._made_at = call_site()
        self._alive: list[Any] = []
        _keep_what_callbacks_cannot_raise()
        self.went_on = np.zeros(1, np.int64)  # 1 when the callback that was called last has come to its end

    def describe(self) -> str:
        """What a process does that waits here outside of any operation: it runs a compiled loop."""
        what = "a meeting" if self.activity is None else self.activity.describe()
        return f"{what}, made at {self._made_at}, in a compiled loop"

    def callback(self, function: Callable[..., None], result: Any, *parameters: Any) -> int:
        """The address at which compiled code can call ``function``; what it raises is kept in ``error``."""

        def guarded(*args):
            try:
                function(*args)
                self.went_on[0] = 1
                return _FINE
            except BaseException as error:
                self.keep_error(error)
                return _GIVE_UP

        function_at = ctypes.CFUNCTYPE(result, *parameters)(guarded)
        self._alive.append(function_at)
        return ctypes.cast(function_at, ctypes.c_void_p).value

    def keep_error(self, error: BaseException) -> None:
        """Gives the wait up; ``error`` is raised behind the compiled code.  Local."""
        if self.error is None:
            self.error = error
        self.went_on[0] = 0

    def keep(self, thing: Any) -> Any:
        """Keeps ``thing`` alive as long as the wire."""
        self._alive.append(thing)
        return thing

    def raise_error(self) -> None:
        """Raises what a callback has raised, if any has."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    def straight_sends(self, messages: Sequence[Straight]) -> Requests | None:
        """Requests that send these messages without packing; None where there are none of that kind.  Local."""
        return None

    def waits(self, words: Sequence[tuple[int, int, int]] = ()) -> list:
        """What a started exchange waits for, as requests: ``words`` as for ``on_wait``, and its messages.  Local.

        Only simulated ranks need to know; others look again and again.
        """
        return []

    def close(self) -> None:
        """Gives back what the transport keeps for it; it will not be used again.  Local."""
        self._alive.clear()


_previous_hook: Callable[[Any], None] | None = None


def _keep_what_callbacks_cannot_raise() -> None:
    """Makes sure that what comes at the entry of a callback is not lost.

    Most exceptions of signals' handlers do: the handler runs when compiled code that waits first comes back to Python,
    before the callback's first line, where nothing can catch them.  ctypes gives them to ``sys.unraisablehook``.
    """
    global _previous_hook
    if _previous_hook is None:  # once: who puts another hook in its place passes on to this one
        _previous_hook, sys.unraisablehook = sys.unraisablehook, _hook


def _hook(unraisable: Any) -> None:
    trace = unraisable.exc_traceback
    frame = None if trace is None else trace.tb_frame
    wire = frame.f_locals.get("self") if frame is not None and frame.f_code.co_name == "guarded" else None
    if isinstance(wire, Wire) and unraisable.exc_value is not None:
        wire.keep_error(unraisable.exc_value)
    else:
        _previous_hook(unraisable)
