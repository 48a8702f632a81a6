"""The outcome of what a process has computed by itself, which all processes of the grid must know.

Some computations raise an error by the values of cells: an integer power, text that is no number, a function of the
user's.  Then one process may fail where others go on.  Where that is foreseen, the outcome is agreed on at once
(`agree_outcome`): all raise, or none.  Where it is not (no memory, say), the process notes its failure
(`note_failure`), and its next operation tells the others, which raise `MismatchError`, as it does.  If all have failed
alike, nothing is wrong, and that operation goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, ParamSpec, TypeVar

from spmd_grid.errors import MismatchError, SpmdError
from spmd_grid.exchange.agreement.header import PLAIN, Facts, encode_facts, fingerprint
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.calls.compare import AgreePlan
from spmd_grid.ops.calls.opening import Opening
from spmd_grid.watch.call_site import call_site

__all__ = ["agree_outcome", "compare_texts", "note_failure", "run_alike"]

Args = ParamSpec("Args")
Result = TypeVar("Result")

_NO_ARRAY = Facts(None, None)


class _Without(AgreePlan):
    """A comparison whose arguments are not shown."""

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], plan: str) -> dict[str, Any]:
        return {}


_comparison_of = cache(_Without)


def run_alike(
    grid: ProcessGrid, name: str, function: Callable[Args, Result], *args: Args.args, **options: Args.kwargs
) -> Result:
    """``function(*args, **options)``, once it has succeeded on all processes; else all raise the error of the first.

    Collective over the grid, within an operation.  ``function`` sends nothing.
    """
    try:
        result = function(*args, **options)
    except Exception as error:
        agree_outcome(grid, name, error)
        raise
    agree_outcome(grid, name, None)
    return result


def agree_outcome(grid: ProcessGrid, name: str, error: Exception | None, axes: tuple[int, ...] | None = None) -> None:
    """Raises the first ``error`` that a process of the grid brings, on all of them; None from those without one.

    Collective over ``axes``, by default over the grid, within an operation.  The error is of the nearest class that
    Python, numpy or this package has; the text names the process.  Where there is none, processes with an error raise
    their own.
    """
    axes = tuple(range(grid.ndim)) if axes is None else axes
    if all(grid.shape[axis] == 1 for axis in axes):
        if error is not None:
            grid.process.gate.spare(error)
            raise error
        return
    call = _comparison_of(f"the outcome of {name}").find_call(
        grid, axes, ("",), thread_name=grid.process.gate.thread_name()
    )
    where = f" (on {call.label(call.comm.rank)})"
    if where in str(error):  # the text says so already
        where = ""
    opening = call.opening(_NO_ARRAY) if error is None else call.refusal(error, where)
    try:
        call.agree_by_itself(opening, None)
    except Exception as agreed:
        agreed.is_known = True  # type: ignore[attr-defined]  # to all processes of the grid
        if error is None:
            raise
        error.is_known = True  # type: ignore[attr-defined]
        if type(agreed) is SpmdError:  # the class has no name here
            grid.process.gate.spare(error)
            raise error from None
        raise agreed from error


def note_failure(grid: ProcessGrid, name: str, error: Exception) -> None:
    """Notes that ``name`` has raised ``error`` on this process, unless all processes know that.  Local."""
    gate = grid.process.gate
    if isinstance(error, MismatchError):
        grid.forget_functions()  # a part of ``name`` may have been on another grid, and forgotten none of these
    if isinstance(error, SpmdError) or grid.size == 1 or not gate.is_quiet:
        return
    if not getattr(error, "is_known", False):  # functions that call one another note it once
        error.is_known = True  # type: ignore[attr-defined]
        settle = partial(_settle, grid, f": {error}")
        gate.note_failure(f"{type(error).__name__} in {name} at {call_site()}", settle)


def compare_texts(grid: ProcessGrid, name: str, compared: str, told: str) -> None:
    """Raises MismatchError on all processes unless all call this with the same ``name`` and text.

    Collective over the grid, within an operation.  ``told``: what the table of the error says of this process.
    """
    call = _call(name, grid)
    call.told = told
    opening = Opening(PLAIN, fingerprint(f"{call.fingerprint!r} {compared}"), encode_facts(_NO_ARRAY), None)
    call.agree_by_itself(opening, None)


def _settle(grid: ProcessGrid, told: str, failures: str) -> None:
    """Compares the ``failures`` of all processes.  Collective over the grid.  Raises MismatchError."""
    later, grid.settle = grid.settle, None
    compare_texts(grid, "failed", failures, f" with {failures}{told}")
    grid.settle = later


def _call(name: str, grid: ProcessGrid) -> CollectiveCall:
    axes = tuple(range(grid.ndim))
    return _comparison_of(name).find_call(grid, axes, ("",), thread_name=grid.process.gate.thread_name())
