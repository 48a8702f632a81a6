"""Errors of execution: a message with the file, the line and the column of the operation."""

from __future__ import annotations

from spmd_grid.dialect.syntax.positions import Position
from spmd_grid.errors import DialectError, SpmdError

__all__ = ["CheckError", "ExecutionError"]


class ExecutionError(DialectError):
    """An operation of a module cannot be executed with its values, or is not supported.

    The message begins with the position of the operation, as compilers have it.
    """

    def __init__(self, reason: str, position: Position | None = None):
        super().__init__(f"{position}: {reason}" if position is not None else reason)
        self.position = position


class CheckError(SpmdError, ValueError):
    """A result differs from that of the serial run: a defect of this package, or of the program's shardings."""
