"""Calls that Python's frames show at lines of a module's text.

Reports of mismatches, hangs and lost messages name the innermost line that is not the engine's, and traces and
explanations of programs do, too.  An operation is called from a frame that says it is that line.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from xdsl.ir import Operation

from spmd_grid.dialect.execute.reading import place_of

__all__ = ["calling_at"]


def _call(handler: Any, machine: Any, op: Any, operands: Any) -> Any: return handler(machine, op, operands)  # fmt: skip


def calling_at(op: Operation, function: str) -> Callable[..., Any]:
    """What calls a handler from the line of ``op``, in the function of this name."""
    place = place_of(op)
    code = _call.__code__.replace(
        co_filename=place.file, co_firstlineno=place.line, co_name=function, co_qualname=function
    )
    return FunctionType(code, {})
