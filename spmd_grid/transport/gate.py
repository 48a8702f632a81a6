"""The gate of a process: one operation at a time passes it, and none after one was cut off.

Operations of a group match by their order, so a process must be in one at a time.  Another one that begins meanwhile
(in a second thread, a signal's handler, a destructor) would take the messages of the first.  And a process that leaves
an operation in the middle, by an exception from outside (Ctrl-C, a time limit), would from then on be one meeting
behind the others.  Both are reported to all processes: every later operation raises the same `CutOffError`.

While no operation is under way, the list ``idle`` holds a token.  ``list.pop`` and ``list.append`` are atomic, and take
some 20 ns.  A hot operation takes the token itself, all others by `Gate.run`::

    try:
        gate, token = grid.process.gate, None
        token = gate.idle.pop()
        ...
        gate.idle.append(token)
        return result
    except BaseException as error:
        ...  # as in `Gate.run`
        raise

An exception before the first line within the ``try`` is the program's own: the operation has not begun.  One after the
end of the operation cuts off nevertheless, since its result is lost.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from sys import _getframe
from types import FrameType
from typing import Any, ParamSpec, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from spmd_grid.errors import CutOffError, SpmdError
from spmd_grid.watch.call_site import call_site
from spmd_grid.watch.frames import look_at_frames
from spmd_grid.watch.traffic import Activity

__all__ = ["AFTERWARDS", "FORKED", "Gate"]

AFTERWARDS = (
    "the processes no longer agree on where they are, so every later operation on them is refused; what each holds"
    " itself can still be read. To go on, make a grid on a new communicator: init_grid(..., comm=MPI.COMM_WORLD.Dup())"
)
FORKED = (
    "this process is a child made by fork: its parent goes on using the memory and the connections that both have, so"
    " operations are refused here. Arrays can be read. Start processes with spawn: multiprocessing.get_context('spawn')"
)

Name: TypeAlias = str | Activity  # of an operation
Args = ParamSpec("Args")
Result = TypeVar("Result")

_THREAD = (
    2  # word of the latch: the thread of compiled code that has the token; see LATCH_* in kernels/protocol/slots.py
)

_gates: WeakSet[Gate] = WeakSet()


class Gate:
    """The gate of one process of a program.  ``label()`` names the process.

    ``idle`` holds a token while no operation is under way.  ``owner``: the thread that made the gate; `thread_name`
    distinguishes the others.  ``text``: the reason why the gate is barred, empty while it is not; ``kind``: the class
    of the errors that say so; ``barred`` is 1 then, for compiled code, and ``latch`` takes the token for it.
    ``on_cut(text)`` bars the gates of all processes; it is called on the one that was cut off.
    ``failures``: the local computations of this process that have failed since the last operation, as text.
    """

    __slots__ = (
        "__weakref__",
        "_label",
        "_settle",
        "_spared",
        "_thread_names",
        "_tokens",
        "barred",
        "failures",
        "idle",
        "kind",
        "latch",
        "on_cut",
        "owner",
        "text",
    )

    def __init__(self, label: Callable[[], str], tokens: list[bool] | None = None):
        self._label = label
        self._tokens = [True] if tokens is None else tokens
        self._thread_names: WeakKeyDictionary[threading.Thread, str] | None = None
        self._spared: BaseException | None = None
        self._settle: Callable[[str], None] | None = None
        self.failures: list[str] = []
        self.idle: list[bool] | _Barred | _Unsettled = self._tokens
        self.owner = threading.get_ident()
        self.text = ""
        self.kind: type[SpmdError] = CutOffError
        self.barred = np.zeros(1, np.int64)
        self.latch = np.array([id(self._tokens), id(True), 0], np.int64)
        self.on_cut: Callable[[str], None] = self.bar
        _gates.add(self)

    def belong_to_this_thread(self) -> None:
        """Makes the calling thread the owner; others are numbered, since their names differ between simulated ranks."""
        self.owner = threading.get_ident()
        self._thread_names = WeakKeyDictionary()

    def thread_name(self) -> str:
        """The name by which operations of the calling thread meet; empty for the owner.  Local."""
        if threading.get_ident() == self.owner:
            return ""
        thread = threading.current_thread()
        if self._thread_names is None:
            return thread.name
        return self._thread_names.setdefault(thread, f"number {len(self._thread_names) + 1}")

    # -- passing -----------------------------------------------------------------------------------------------

    def run(self, name: Name, function: Callable[Args, Result], *args: Args.args, **options: Args.kwargs) -> Result:
        """Calls ``function(*args, **options)``, which is the operation ``name``.  Raises CutOffError."""
        try:
            gate, token = self, None
            token = gate.idle.pop()
            result = function(*args, **options)
            gate.idle.append(token)
            return result
        except BaseException as error:
            self.fail(name, locals().get("token"), error)
            raise

    def fail(self, name: Name, token: bool | None, error: BaseException) -> None:
        """Ends the operation ``name``, which raised ``error``; the caller raises it again.

        Errors of this package are raised when all members know of them, and between meetings; any other exception came
        in the middle.  Without a ``token`` the operation was refused, unless it was cut off at the gate.
        """
        if token is None and isinstance(error, IndexError):
            raise self.refusal(name) from None
        # Members may have swapped errors of other classes too.
        is_ours = isinstance(error, SpmdError) or getattr(error, "is_agreed", False)
        is_agreed = is_ours and not getattr(error, "cuts_off", False)
        if not is_agreed and error is not self._spared:
            self.cut_off(name, error)
        self._spared = None
        if not self._tokens:
            self._tokens.append(True)

    def spare(self, error: BaseException) -> None:
        """Lets the operation under way, which has passed all its meetings, raise ``error`` without a cut."""
        self._spared = error

    def call_user(self, function: Callable[..., Result], *args: Any) -> Result:
        """Calls a user's function after the last meeting of the operation under way, and spares its errors."""
        try:
            return function(*args)
        except BaseException as error:
            self.spare(error)
            raise

    def is_spared(self, error: BaseException) -> bool:
        """Whether ``error`` is the one last given to `spare`."""
        return error is self._spared

    # -- failures of this process alone ------------------------------------------------------------------------

    def note_failure(self, text: str, settle: Callable[[str], None]) -> None:
        """Notes that a local computation has failed here, which may have succeeded on others.

        The next operation of this process begins with ``settle(text)``, given the notes of all failures since the last
        one.  It meets the others, and raises unless all have failed alike.  Local; does nothing within an operation,
        which tells the others itself, or at a barred gate.
        """
        if self.text or not self._tokens:
            return
        self.failures.append(text)
        self._settle = self._settle or settle
        if self.idle is self._tokens:
            self.idle = _Unsettled(self, self._tokens)
            self.barred[0] = 1  # compiled code leaves operations to Python

    def settle(self) -> None:
        """Tells the others what has failed here, and forgets it.  Collective; the token has been taken."""
        settle, text = self._settle, "; ".join(self.failures)
        self._settle = None
        self.failures.clear()
        if not self.text:
            self.idle = self._tokens
            self.barred[0] = 0
        if settle is not None:
            settle(text)

    # -- cuts --------------------------------------------------------------------------------------------------

    def cut_off(self, name: Name, error: BaseException) -> None:
        """Refuses every later operation, on all processes: ``error`` has cut off the operation ``name``."""
        if not self.text:
            where = f"on {self._label()} at {call_site()}"
            told = f" ({error})" if isinstance(error, SpmdError) else ""
            self.on_cut(f"{_described(name)} was cut off by {type(error).__name__}{told} {where}: {AFTERWARDS}")

    def refusal(self, name: Name, obstacle: str = "") -> SpmdError:
        """The error of an operation that finds the gate barred, or another ``obstacle``."""
        text = self.text
        if not text:
            where = f"on {self._label()} at {call_site()}"
            text = f"{_described(name)} was begun {where} {obstacle or self._obstacle()}"
        if not self.text:
            self.on_cut(f"{text}: {AFTERWARDS}")
        return self.error() if self.text else CutOffError(text)

    def _obstacle(self) -> str:
        """A description of the operation that holds the token."""
        return look_at_frames(self._obstacle_in)

    def _obstacle_in(self, frames: Mapping[int, FrameType]) -> str:
        for ident, frame in frames.items():
            for outer in _outwards(frame):
                if self._is_passed_in(outer):
                    return self._meanwhile(ident, outer)
        ident = int(self.latch[_THREAD]) % (1 << 64)  # idents have no sign
        if ident:
            return self._meanwhile(ident, frames.get(ident))
        return "after an exception had cut off the one before it"

    def _meanwhile(self, ident: int, frame: FrameType | None) -> str:
        """A description of the operation that a thread has begun in ``frame``."""
        if ident == threading.get_ident():
            return f"within another operation of this process, which was begun at {call_site(frame)}"
        thread = next((each.name for each in threading.enumerate() if each.ident == ident), ident)
        return (
            f"while another operation of this process was under way in thread {thread!r}, begun at"
            f" {call_site(frame)}; a process runs one at a time"
        )

    def check(self) -> None:
        """Raises the `error` of the gate if it is barred; called by all waits.  Local."""
        if self.text:
            raise self.error()

    def error(self) -> SpmdError:
        """The error of every operation after the gate was barred."""
        if self.failures and not self.text:  # compiled code has found them, and does not tell the others
            self.on_cut(f"a compiled loop was begun on {self._label()} after {'; '.join(self.failures)}: {AFTERWARDS}")
        error = self.kind(self.text)
        error.is_shared = True
        return error

    # -- barring -----------------------------------------------------------------------------------------------

    def bar(self, text: str, kind: type[SpmdError] = CutOffError) -> None:
        """Refuses all operations from now on; one that is under way raises at its end.  From any thread."""
        if not self.text:
            self.kind = kind
            self.text = text
            self.barred[0] = 1
            self.idle = _Barred(self, self._tokens)

    @property
    def tokens(self) -> list[bool]:
        """A list that is empty while an operation of this process is under way, whether or not the gate is barred."""
        return self._tokens

    @property
    def is_quiet(self) -> bool:
        """Whether no operation of this process is under way.  From any thread."""
        return bool(self._tokens)

    def is_passed_by_this_thread(self) -> bool:
        """Whether the operation under way was begun by the calling thread."""
        return any(map(self._is_passed_in, _outwards(_getframe(1))))

    def _is_passed_in(self, frame: FrameType) -> bool:
        gate = frame.f_locals.get("gate")
        return isinstance(gate, Gate) and gate._tokens is self._tokens and bool(frame.f_locals.get("token"))


class _Barred:
    """Replaces ``idle`` at a barred gate: it has no token, and raises when an operation returns one."""

    __slots__ = ("_gate", "_tokens")

    def __init__(self, gate: Gate, tokens: list[bool]):
        self._gate, self._tokens = gate, tokens

    def pop(self) -> bool:
        raise IndexError

    def append(self, token: bool) -> None:
        raise self._gate.error()


class _Unsettled:
    """Replaces ``idle`` after a failure of this process alone: the next operation that takes the token settles it."""

    __slots__ = ("_gate", "_tokens")

    def __init__(self, gate: Gate, tokens: list[bool]):
        self._gate, self._tokens = gate, tokens

    def pop(self) -> bool:
        token = self._tokens.pop()
        self._gate.settle()
        return token

    def append(self, token: bool) -> None:
        self._tokens.append(token)


def _described(name: Name) -> str:
    return name if isinstance(name, str) else name.describe()


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _bar_in_child() -> None:
    for gate in tuple(_gates):
        gate.bar(FORKED)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_bar_in_child)
