"""scf as xdsl has it, with the pretty form of parallel loops."""

from __future__ import annotations

from typing import Any, Self

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Dialect
from xdsl.parser import Parser
from xdsl.printer import Printer

__all__ = ["SCF"]


class _ParallelOp(scf.ParallelOp):
    """A loop whose steps may run at once: ``scf.parallel (%i) = (%low) to (%high) step (%step) { ... }``."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Read the pretty form."""
        index = IndexType()
        arguments = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False)
        )
        bounds = []
        for word in ("=", "to", "step"):
            if word == "=":
                parser.parse_punctuation("=")
            else:
                parser.parse_keyword(word)
            at = parser.pos
            names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
            bounds.append(parser.resolve_operands(names, [index] * len(names), at))
        starts: Any = []
        if parser.parse_optional_keyword("init"):
            at = parser.pos
            names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
            parser.parse_punctuation("->")
            kinds = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
            starts = parser.resolve_operands(names, [parser.parse_type()] if kinds is None else kinds, at)
        body = parser.parse_region([each.resolve(index) for each in arguments])
        attributes = parser.parse_optional_attr_dict()
        if body.blocks and not isinstance(body.block.last_op, scf.ReduceOp):
            body.block.add_op(scf.ReduceOp())
        made = cls(bounds[0], bounds[1], bounds[2], body, starts)
        made.attributes = attributes
        return made

    def print(self, printer: Printer) -> None:
        """Write the pretty form."""
        block = self.body.block
        printer.print_string(" (")
        printer.print_list(block.args, printer.print_ssa_value)
        for word, values in ((") = (", self.lowerBound), (") to (", self.upperBound), (") step (", self.step)):
            printer.print_string(word)
            printer.print_list(values, printer.print_ssa_value)
        printer.print_string(")")
        if self.initVals:
            printer.print_string(" init (")
            printer.print_list(self.initVals, printer.print_ssa_value)
            printer.print_string(") -> (")
            printer.print_list(self.initVals.types, printer.print_attribute)
            printer.print_string(")")
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)
        printer.print_op_attributes(self.attributes)


SCF = Dialect(
    "scf",
    [*[each for each in scf.Scf.operations if each.name != "scf.parallel"], _ParallelOp],
    list(scf.Scf.attributes),
)
