"""Errors of floating point under ``np.errstate(...="raise")`` or "call", which all processes must see alike.

Cells of one process alone may divide by zero.  numpy keeps what a program asks for in a context variable; while that
says to raise, or to call a function, a function of arrays runs with numpy's errors noted, and at its end the processes
agree whether any has noted one (`run_strictly`).  As numpy does, it has then written ``out``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any, TypeVar

import numpy as np
from numpy._core import umath

from spmd_grid.errors import SpmdError
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.outcome import agree_outcome

__all__ = ["CALM", "error_state", "is_strict", "run_strictly"]

Result = TypeVar("Result")

_state: ContextVar[Any] = getattr(umath, "_extobj_contextvar", None) or ContextVar("spmd_grid.no_state")
# ``error_state()`` is what the context asks for: CALM where no program has asked for anything, which most have not.
error_state: Callable[..., Any] = _state.get
try:
    CALM = Context().run(error_state)
except LookupError:  # numpy keeps it elsewhere
    CALM, error_state = None, lambda: object()

_KINDS = {"divide by zero": "divide", "overflow": "over", "underflow": "under", "invalid value": "invalid"}
_TOLD = "raise", "call", "log"

_read: Callable[[], dict[str, Any]] = getattr(
    umath, "_get_extobj_dict", lambda: {**np.geterr(), "call": np.geterrcall()}
)
_last: tuple[object, bool] = CALM, False  # the state that was looked at last, and whether it is strict


def _asks(state: object) -> bool:
    """Whether ``state``, which is the present one, asks for errors or calls, but not for notes as made here."""
    global _last
    asked = _read()
    told = {asked["divide"], asked["over"], asked["under"], asked["invalid"]}
    found = not told.isdisjoint(_TOLD) and type(asked["call"]) is not _Notes
    _last = state, found
    return found


def is_strict() -> bool:
    """Whether an error of floating point raises, or calls a function, in this context.  Local."""
    state = error_state()
    last, found = _last
    return found if state is last else _asks(state)


class _Notes:
    """Notes errors of floating point in ``name``, and does with them what ``modes`` ask for, but raises none."""

    def __init__(self, name: str, modes: dict[str, Any], told: Any):
        self.name = name
        self.error: Exception | None = None
        self._modes, self._told = modes, told

    def __call__(self, text: str, flag: int) -> None:
        error: Exception | None = None
        try:
            mode = self._modes[_KINDS.get(text, "invalid")]
            if mode == "raise":
                error = FloatingPointError(f"{text} encountered in {self.name}")
            elif self._told is None:
                error = NameError(f"python callback specified for {text} (in {self.name}) but no function found.")
            elif mode == "log":
                self._told.write(f"Warning: {text} encountered in {self.name}\n")
            else:
                self._told(text, flag)
        except Exception as raised:  # by the program's own function
            error = raised
        self.error = self.error or error


def run_strictly(grid: ProcessGrid, name: str, function: Callable[[], Result]) -> Result:
    """``function()``, unless it has raised, or noted an error of floating point, on any process: then all raise.

    Collective over the grid.
    """
    gate, modes = grid.process.gate, dict(np.geterr())
    if grid.size == 1 or not gate.is_quiet:
        return function()
    notes = _Notes(name, modes, np.geterrcall())
    asked: dict[str, Any] = {kind: "call" if mode in _TOLD else mode for kind, mode in modes.items()}
    with np.errstate(call=notes, **asked):
        try:
            result = function()
        except SpmdError:  # on all of them
            raise
        except Exception as error:
            if gate.text or getattr(error, "is_agreed", False):
                raise
            notes.error = error
    gate.run(name, agree_outcome, grid, name, notes.error)
    return result
