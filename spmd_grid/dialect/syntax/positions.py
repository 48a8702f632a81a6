"""Places in a text: where an operation stands, and errors that say so."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import Operation

from spmd_grid.errors import DialectSyntaxError, DialectVerifyError

__all__ = ["Position", "Text", "position_of", "syntax_error", "verify_error"]


class Position(NamedTuple):
    """A place in a text; lines and columns count from 1.

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
        """The place of the character at ``offset``; the end for what lies behind."""
        offset = min(max(offset, 0), len(self.content))
        line = bisect_right(self._starts, offset)
        return Position(self.file_name, line, offset - self._starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """The line by its number from 1, without its end."""
        return self.content[self._starts[number - 1] : self._starts[number] - 1]

    def location(self, offset: int) -> FileLineColLoc:
        """The place as operations hold it."""
        place = self.position(offset)
        return FileLineColLoc(StringAttr(place.file_name), IntAttr(place.line), IntAttr(place.column))


def position_of(operation: Operation) -> Position | None:
    """The place of an operation, or of the nearest one around it that was read; None if none was.  Local."""
    at: Operation | None = operation
    while at is not None:
        place = at.location
        if isinstance(place, FileLineColLoc):
            return Position(place.filename.data, place.line.data, place.column.data)
        at = at.parent_op()
    return None


def syntax_error(text: Text, offset: int, message: str) -> DialectSyntaxError:
    """An error that shows the line, with a mark under the place."""
    place = text.position(offset)
    line = text.line(place.line)
    mark = "".join(["\t" if c == "\t" else " " for c in line[: place.column - 1]]) + "^"
    if len(line) > 200:
        return DialectSyntaxError(f"{place}: {message}")
    return DialectSyntaxError(f"{place}: {message}\n{line}\n{mark}")


def verify_error(operation: Operation, message: str) -> DialectVerifyError:
    """An error that begins with the place of an operation and its name."""
    place = position_of(operation)
    return DialectVerifyError(f"{place if place else '<no text>'}: {operation.name}: {message}")
