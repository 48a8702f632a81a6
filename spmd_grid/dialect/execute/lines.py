"""Calls that Python's frames show at lines of a module's text.

Reports of mismatches, hangs and lost messages, traces and explanations of programs name the innermost line that is not
the engine's.  An operation is called from a frame that says it is that line.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType, TracebackType
from typing import Any

from xdsl.ir import Operation

from spmd_grid.dialect.syntax.positions import known_position

__all__ = ["calling_at", "lines_of"]


def _call(handler: Any, runner: Any, op: Any, operands: Any) -> Any: return handler(runner, op, operands)  # fmt: skip


def _without_columns(code: CodeType) -> CodeType:
    """The code with lines and no columns, which would be marked under lines of another language."""
    units = len(code.co_code) // 2
    counts = [min(8, units - first) for first in range(0, units, 8)]
    return code.replace(co_linetable=b"".join([bytes([0x80 | 13 << 3 | n - 1, 0]) for n in counts]))


_CODE = _without_columns(_call.__code__)


def calling_at(op: Operation, function: str) -> Callable[..., Any]:
    """A function that calls a handler from the line of ``op``, in the function of this name."""
    position = known_position(op)
    code = _CODE.replace(
        co_filename=position.file_name, co_firstlineno=position.line, co_name=function, co_qualname=function
    )
    return FunctionType(code, {})


def lines_of(trace: TracebackType | None, file: str) -> TracebackType | None:
    """The part of a traceback that lies in a file."""
    kept: list[TracebackType] = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            kept.append(trace)
        trace = trace.tb_next
    found: TracebackType | None = None
    for each in reversed(kept):
        found = TracebackType(found, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return found
