"""Prints a module as text that reads back as an equal module."""

from __future__ import annotations

from io import StringIO
from math import isfinite

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer

from spmd_grid.dialect.syntax.calls import as_calls
from spmd_grid.dialect.syntax.encodings import EncodingAttr

__all__ = ["to_text"]


class _Printer(Printer):
    """Leaves out of lists the types that the dialect's own printer leaves out: ``[[0, 1]]``, not ``[[0 : i64, ...``.

    Cells of i1 are ``true`` and ``false``: of hexadecimal digits compilers of one version make others than the next.
    """

    def print_attribute(self, attribute: Attribute) -> None:
        """Write an attribute or a type."""
        if isinstance(attribute, ArrayAttr):
            with self.in_square_brackets():
                self.print_list(attribute.data, self._print_cell)
        elif isinstance(attribute, EncodingAttr):
            self.print_attribute(attribute.as_dictionary())
        elif isinstance(attribute, DenseIntOrFPElementsAttr) and attribute.get_element_type() == i1 and len(attribute):
            cells = np.frombuffer(attribute.data.data, np.uint8).reshape(attribute.get_shape()) != 0
            shown = cells[(0,) * cells.ndim] if (cells == cells.flat[0]).all() else cells.tolist()
            self.print_string(f"dense<{str(shown).lower()}> : ")
            self.print_attribute(attribute.type)
        else:
            super().print_attribute(attribute)

    def _print_cell(self, attribute: Attribute) -> None:
        if isinstance(attribute, IntegerAttr) and attribute.type == i64:
            self.print_int(attribute.value.data)
        elif isinstance(attribute, FloatAttr) and attribute.type == f64 and isfinite(attribute.value.data):
            self.print_float(attribute.value.data, f64)
        else:
            self.print_attribute(attribute)


def to_text(operation: Operation, generic: bool = False) -> str:
    """The text of a module, in the pretty forms, or with ``generic`` in the form that all operations share.  Local.

    >>> from spmd_grid.dialect import parse
    >>> print(to_text(parse("mesh.mesh @grid0(shape = 2x?)")), end="")
    builtin.module {
      shard.grid @grid0(shape = 2x?)
    }
    """
    stream = StringIO()
    printer = _Printer(stream, print_generic_format=generic)
    printer.print_op(as_calls(operation) if isinstance(operation, ModuleOp) else operation)
    return stream.getvalue() + "\n"
