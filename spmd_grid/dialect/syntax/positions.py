"""Positions in a text: those of operations, and errors that name them."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, UnregisteredOp
from xdsl.ir import Operation

from spmd_grid.errors import DialectSyntaxError, DialectVerifyError

__all__ = ["Position", "Text", "known_position", "position_of", "syntax_error", "verify_error"]


class Position(NamedTuple):
    """A position in a text; lines and columns count from 1.

    >>> str(Position("program.mlir", 3, 5))
    'program.mlir:3:5'
    """

    file_name: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file_name}:{self.line}:{self.column}"


class Text:
    """A text by lines.

    >>> Text("ab\\ncd", "x.mlir").position(4)
    Position(file_name='x.mlir', line=2, column=2)
    """

    def __init__(self, content: str, file_name: str):
        self.content = content
        self.file_name = file_name
        self._starts = [0]
        for line in content.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def position(self, offset: int) -> Position:
        """The position of the character at ``offset``; that of the end for offsets beyond it."""
        offset = min(max(offset, 0), len(self.content))
        line = bisect_right(self._starts, offset)
        return Position(self.file_name, line, offset - self._starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """The line by its number from 1, without its end."""
        return self.content[self._starts[number - 1] : self._starts[number] - 1]

    def location(self, offset: int) -> FileLineColLoc:
        """The position as operations hold it."""
        position = self.position(offset)
        return FileLineColLoc(StringAttr(position.file_name), IntAttr(position.line), IntAttr(position.column))


def position_of(operation: Operation) -> Position | None:
    """The position of an operation, or of the nearest one around it that was read; None if none was.  Local."""
    at: Operation | None = operation
    while at is not None:
        location = at.location
        if isinstance(location, FileLineColLoc):
            return Position(location.filename.data, location.line.data, location.column.data)
        at = at.parent_op()
    return None


def known_position(operation: Operation) -> Position:
    """As `position_of`; the beginning of a text without a name if none was read.  Local."""
    return position_of(operation) or Position("program.mlir", 1, 1)


def syntax_error(text: Text, offset: int, message: str) -> DialectSyntaxError:
    """An error that shows the line, with a mark under the position."""
    position = text.position(offset)
    line = text.line(position.line)
    mark = "".join(["\t" if c == "\t" else " " for c in line[: position.column - 1]]) + "^"
    if len(line) > 200:
        return DialectSyntaxError(f"{position}: {message}")
    return DialectSyntaxError(f"{position}: {message}\n{line}\n{mark}")


def verify_error(operation: Operation, message: str) -> DialectVerifyError:
    """An error that begins with the position of an operation and its name."""
    position = position_of(operation)
    name = operation.op_name.data if isinstance(operation, UnregisteredOp) else operation.name
    return DialectVerifyError(f"{position if position else '<no text>'}: {name}: {message}")
