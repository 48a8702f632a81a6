"""From a module to text that is read again as an equal module."""

from __future__ import annotations

from io import StringIO

from xdsl.ir import Operation
from xdsl.printer import Printer

__all__ = ["to_text"]


def to_text(operation: Operation, generic: bool = False) -> str:
    """The text of a module, in the pretty forms, or with ``generic`` in the form that all operations share.  Local.

    >>> from spmd_grid.dialect import parse
    >>> print(to_text(parse("mesh.mesh @grid0(shape = 2x?)")), end="")
    builtin.module {
      shard.grid @grid0(shape = 2x?)
    }
    """
    stream = StringIO()
    printer = Printer(stream, print_generic_format=generic)
    printer.print_op(operation)
    return stream.getvalue() + "\n"
