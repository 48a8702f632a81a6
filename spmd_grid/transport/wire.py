"""The services that compiled code needs of a transport: messages that are sent repeatedly, and help in long waits.

A wire offers functions and tables by *address*, so that a compiled exchange runs without the interpreter.  It calls
back only when it has waited for long (``on_wait``), and when other ranks must be woken (``on_post``).
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.watch.call_site import call_site
from spmd_grid.watch.traffic import Activity

__all__ = ["YIELDS_BETWEEN_NODES", "Messages", "Posting", "RequestHandles", "Straight", "Wire"]

_FINE, _GIVE_UP = 0, 2


class Messages(NamedTuple):
    """The messages of one exchange, each (member, flat bytes); ``shorts`` replace ``sends`` that carry no cells."""

    receives: list[tuple[int, np.ndarray]]
    sends: list[tuple[int, np.ndarray]]
    shorts: list[tuple[int, np.ndarray]]


class Straight(NamedTuple):
    """A message that is sent without packing: the header, then the cells where they lie; all in bytes."""

    member: int
    head: np.ndarray
    cells: list[tuple[int, tuple[int, ...], tuple[int, ...], int]]  # address, shape, strides, item size


class Posting(NamedTuple):
    """The addresses of MPI_Isend, MPI_Irecv and MPI_Iprobe, or of functions with their arguments, and what they take.

    ``datatype`` and ``comm`` are handles; those of requests have ``handle_bytes``, and statuses ``status_bytes``, with
    the tag of the message after ``status_tag``.
    """

    isend: int
    irecv: int
    iprobe: int
    datatype: int
    comm: int
    tag: int
    most_tag: int
    handle_bytes: int
    status_bytes: int
    status_tag: int


class RequestHandles:
    """The handles of ``count`` requests at ``address``, until they are given back."""

    def __init__(self, address: int, count: int, give_back: Callable[[], None]):
        self.address, self.count = address, count
        weakref.finalize(self, give_back).atexit = False


# Yields in a wait for what comes from another node: a wait that lets the interpreter run takes 30 us longer.
YIELDS_BETWEEN_NODES = 4000


class Wire:
    """The addresses that an exchange uses, filled in by a transport, and the errors that callbacks have raised.

    ``start`` and ``test``: addresses of functions with the arguments of ``MPI_Startall`` and ``MPI_Testall``;
    ``statuses``: address of memory for statuses; ``requests``: (address, number) of the handles of receives, sends and
    shorts.  ``polls`` and ``yields``: numbers of polls before giving way, and of yields before a call of
    ``on_wait(address, value, member)``: the address of a word, the value that it must reach, and the index of the
    source that writes it (of reader r: -2 - r).  Address 0 stands for messages; ``member`` is then 0 for those to be
    received and 1 for those to be sent.  ``yields_again``: as ``yields``, after further calls in a wait for a word.
    """

    on_post = 0
    calls_back = False  # whether ``start`` and ``test`` are callbacks
    meets = False  # whether its waits are for all members to begin the exchange that this one has begun
    times_well = False  # whether measured times are meaningful: no simulation, and a core for every process

    def __init__(self) -> None:
        self.start = self.test = self.on_wait = self.statuses = 0
        self.requests: list[tuple[int, int]] = [(0, 0)] * 3
        self.polls, self.yields, self.yields_again = 1, 0, 0
        self.error: BaseException | None = None
        self.activity: Activity | None = None  # its purpose, for reports
        self.find_activity: Callable[[], Activity | None] | None = None  # the same, where it varies
        self.find_peers: Callable[[int], Sequence[int]] | None = None  # as ``on_wait`` has it, where messages vary
        self.digest: Callable[[], int] | None = None  # of exchanges so far, where these may be of several kinds
        self._made_at = call_site()
        self._alive: list[Any] = []
        _install_hook()
        self.went_on = np.zeros(1, np.int64)  # 1 if the last callback has returned without an error

    def purpose(self) -> Activity | None:
        """The activity of a process that waits here, if it is not the operation under way.  Local."""
        return self.activity if self.find_activity is None else self.find_activity()

    def describe(self) -> str:
        """The activity of a process that waits here outside of any operation, in a compiled loop."""
        activity = self.purpose()
        what = "a meeting" if activity is None else activity.describe()
        made_at = getattr(activity, "made_at", self._made_at)
        return f"{what}, made at {made_at}, in a compiled loop"

    def callback(self, function: Callable[..., None], result: Any, *parameters: Any) -> int:
        """The address at which compiled code can call ``function``; an exception is kept in ``error``."""

        def guarded(*args: Any) -> int:
            try:
                function(*args)
                self.went_on[0] = 1
                return _FINE
            except BaseException as error:
                self.keep_error(error)
                return _GIVE_UP

        function_at = ctypes.CFUNCTYPE(result, *parameters)(guarded)
        self._alive.append(function_at)
        return ctypes.cast(function_at, ctypes.c_void_p).value or 0

    def keep_error(self, error: BaseException) -> None:
        """Ends the wait; ``error`` is raised after the compiled code.  Local."""
        if self.error is None:
            self.error = error
        self.went_on[0] = 0

    def keep(self, thing: Any) -> Any:
        """Keeps ``thing`` alive as long as the wire."""
        self._alive.append(thing)
        return thing

    def raise_error(self) -> None:
        """Raises the error of a callback, if there is one."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    def posting(self, tag: int) -> Posting | None:
        """Return what compiled code needs for messages of this tag; None of transports that have no nodes.  Local."""
        return None

    def posting_of_its_own(self) -> Posting | None:
        """As `posting`, for messages of any tag, with which no others mix; ``tag`` is that of receives.  Collective."""
        return None

    def straight_sends(self, messages: Sequence[Straight]) -> RequestHandles | None:
        """Requests that send these messages without packing; None if the transport has none of that kind.  Local."""
        return None

    def waits(self, words: Sequence[tuple[int, int, int]] = ()) -> Sequence[Any]:
        """The requests that a started exchange waits for: its ``words``, as for ``on_wait``, and its messages.  Local.

        For simulated ranks only; other transports poll, and return none.
        """
        return []

    def close(self) -> None:
        """Frees the transport's resources; the wire is not used again.  Local."""
        self._alive.clear()


_previous_hook: Callable[[sys.UnraisableHookArgs], object] = sys.__unraisablehook__
_is_installed = False


def _install_hook() -> None:
    """Installs a hook that keeps exceptions raised at the entry of a callback.

    Most exceptions of signals' handlers are: the handler runs when compiled code that waits first calls back into
    Python, before the callback's first line, where nothing can catch them.  ctypes passes them to
    ``sys.unraisablehook``.
    """
    global _previous_hook, _is_installed
    if not _is_installed:  # once: a hook that replaces it later calls it
        _is_installed = True
        _previous_hook, sys.unraisablehook = sys.unraisablehook, _hook


def _hook(unraisable: sys.UnraisableHookArgs) -> None:
    trace = unraisable.exc_traceback
    frame = None if trace is None else trace.tb_frame
    wire = frame.f_locals.get("self") if frame is not None and frame.f_code.co_name == "guarded" else None
    if isinstance(wire, Wire) and unraisable.exc_value is not None:
        wire.keep_error(unraisable.exc_value)
    else:
        _previous_hook(unraisable)
