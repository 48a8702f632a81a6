"""The product of stablehlo."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from spmd_grid.dialect.syntax.other_dialects.stablehlo.attributes import (
    DotAttr,
    Numbers,
    Precision,
    PrecisionAttr,
    numbers_attribute,
    print_numbers,
    read_numbers,
)
from spmd_grid.dialect.syntax.other_dialects.stablehlo.base import HloOp

__all__ = ["DotGeneralOp"]


@irdl_op_definition
class DotGeneralOp(HloOp):
    """A product: sums over the contracted dimensions of both operands, one for each index of the batch."""

    name = "stablehlo.dot_general"
    COUNT: ClassVar[int | None] = 2
    dot_dimension_numbers = prop_def(DotAttr)
    precision_config = opt_prop_def(ArrayAttr[PrecisionAttr])

    @classmethod
    def read_parts(cls, parser: Parser) -> dict[str, Attribute]:
        """Batching and contracting dimensions, and precisions."""
        batch: tuple[Numbers, Numbers] = (numbers_attribute([]), numbers_attribute([]))
        if parser.parse_optional_keyword("batching_dims") is not None:
            batch = _read_pair(parser)
            parser.parse_punctuation(",")
        parser.parse_keyword("contracting_dims")
        contracted = _read_pair(parser)
        found: dict[str, Attribute] = {"dot_dimension_numbers": DotAttr(*batch, *contracted)}
        if parser.parse_optional_punctuation(",") is not None:
            parser.parse_keyword("precision")
            parser.parse_punctuation("=")
            precisions = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: PrecisionAttr(parser.parse_str_enum(Precision))
            )
            found["precision_config"] = ArrayAttr(precisions)
        return found

    def print_parts(self, printer: Printer) -> None:
        """Write the parts that are there."""
        dot = self.dot_dimension_numbers
        if len(dot.lhs_batching_dimensions) or len(dot.rhs_batching_dimensions):
            _print_pair(printer, "batching_dims", dot.lhs_batching_dimensions, dot.rhs_batching_dimensions)
        _print_pair(printer, "contracting_dims", dot.lhs_contracting_dimensions, dot.rhs_contracting_dimensions)
        if self.precision_config is not None:
            printer.print_string(f", precision = [{', '.join([p.data.value for p in self.precision_config])}]")


def _read_pair(parser: Parser) -> tuple[Numbers, Numbers]:
    parser.parse_punctuation("=")
    first = read_numbers(parser)
    parser.parse_keyword("x")
    return first, read_numbers(parser)


def _print_pair(printer: Printer, word: str, first: Numbers, second: Numbers) -> None:
    printer.print_string(f", {word} = ")
    print_numbers(printer, first)
    printer.print_string(" x ")
    print_numbers(printer, second)
